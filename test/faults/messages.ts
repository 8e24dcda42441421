/** Where on the way to a tenant's server a fault is put: a text in the message. A way that does not send it is not stopped by it. */
export const MESSAGES = {
  startup: 'tenantry tenants',
  scope: 'tenantry_scope',
  statement: 'insert into',
  commit: 'commit',
  cleaning: 'pg_advisory_unlock_all',
}
