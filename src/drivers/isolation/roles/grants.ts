/**
 * Returns the statements that give the scope role its rights in a schema with one tenant's tables; both names are
 * quoted. Default privileges cover new tables: `GRANT … ON ALL TABLES` would scan the whole catalog for every tenant.
 */
export const rightsIn = (schema: string, role: string): string =>
  `grant usage on schema ${schema} to ${role};
   alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${role};
   alter default privileges in schema ${schema} grant usage, select on sequences to ${role};
   alter default privileges in schema ${schema} grant execute on functions to ${role};`
