/**
 * Removes all rows of one tenant from shared tables.
 *
 * One statement deletes from every table, and foreign keys are checked at its end: so their order and their circles do not
 * matter, nor whether they are deferrable.
 */
import pg from 'pg'

/** As the owner, where it sees the rows of all tenants. Tables without `tenant_id` are shared by all and stay as they are. */
export async function deleteTenantRows(client: pg.ClientBase, schema: string, tenant: string): Promise<void> {
  const { rows } = await client.query(
    `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = to_regnamespace($1) and relkind in ('r', 'p') and not relispartition
       and attname = 'tenant_id' and not attisdropped order by relname`,
    [pg.escapeIdentifier(schema)],
  )
  if (rows.length === 0) return
  const deletions = rows.map(
    ({ name }, index) =>
      `t${index} as (delete from ${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)} where tenant_id = $1)`,
  )
  await client.query(`with ${deletions.join(', ')} select`, [tenant])
}
