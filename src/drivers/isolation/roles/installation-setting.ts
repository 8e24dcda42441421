/** Setting of an adopted database, with the id of its installation: its name does not contain this id. */
export const INSTALLATION_SETTING = 'tenantry.installation'
