/**
 * Removes all rows of one tenant from shared tables.
 *
 * One statement deletes from every table, and foreign keys are checked at its end: so their order and their circles do not
 * matter, nor whether they are deferrable. A trigger of the host's may answer a deletion with a row of its own (a journal of what
 * was deleted): so it is done again until nothing is left.
 */
import pg from 'pg'

/** A journal of the journal is written no more often than this. */
const MOST_PASSES = 5

/** As the owner in a transaction, where it sees the rows of all tenants; throws when some are left. Tables without `tenant_id` are shared by all and stay as they are. */
export async function deleteTenantRows(
  client: pg.ClientBase,
  schema: string,
  { tenant, searchPath }: { tenant: string; searchPath: string },
): Promise<void> {
  const { rows } = await client.query(
    `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = to_regnamespace($1) and relkind in ('r', 'p') and not relispartition
       and attname = 'tenant_id' and not attisdropped order by relname`,
    [pg.escapeIdentifier(schema)],
  )
  if (rows.length === 0) return
  const tables = rows.map(({ name }) => `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`)
  const deletions = tables.map((table, index) => `t${index} as (delete from ${table} where tenant_id = $1)`)
  const left = tables.map((table) => `exists (select from ${table} where tenant_id = $1)`).join(' or ')
  // As triggers find it when the tenant itself deletes.
  await client.query(`select set_config('search_path', $1, true), set_config('app.tenant_id', $2, true)`, [
    searchPath,
    tenant,
  ])
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    await client.query(`with ${deletions.join(', ')} select`, [tenant])
    const { rows } = await client.query(`select ${left} as left`, [tenant])
    if (!rows[0].left) return
  }
  throw new Error('triggers go on writing rows of a tenant whose rows are deleted; nothing was removed')
}
