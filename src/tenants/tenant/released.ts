/** Locator in the empty row of a released tenant: its former storage is free, and its id can be adopted again. */
export const releasedLocator = (tenantId: string): string => `released ${tenantId}`
