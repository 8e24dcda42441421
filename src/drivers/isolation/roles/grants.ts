/**
 * What the scope role may do in a schema with one tenant's tables, both names quoted. By default privileges: `GRANT … ON ALL
 * TABLES` would read the whole catalog for every tenant.
 */
export const rightsIn = (schema: string, role: string): string =>
  `grant usage on schema ${schema} to ${role};
   alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${role};
   alter default privileges in schema ${schema} grant usage, select on sequences to ${role};
   alter default privileges in schema ${schema} grant execute on functions to ${role};`
