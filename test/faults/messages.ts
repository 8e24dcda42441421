/**
 * Messages to a tenant's server at which faults are injected, by a text in them. A way without the message is not
 * affected.
 */
export const MESSAGES = {
  startup: 'tenantry tenants',
  scope: 'tenantry_scope',
  statement: 'insert into',
  commit: 'commit',
  cleaning: 'pg_advisory_unlock_all',
}
