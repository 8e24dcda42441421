/** Yields all tenants with readable storage in the order of their ids, page by page. */
import type { Database } from '../../kernel/database/database.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'

const READ_AT_ONCE = 500

/** @param only id of the only tenant */
export async function* installedTenants(database: Database, only?: string): AsyncIterable<readonly TenantRow[]> {
  let last: string | undefined = ''
  while (last !== undefined) {
    const tenants = database.query<TenantTables>().selectFrom('tenants').selectAll()
    const rows: TenantRow[] = await (only === undefined ? tenants : tenants.where('id', '=', only))
      .where('status', 'in', ['active', 'suspended'])
      .where('id', '>', last)
      .orderBy('id')
      .limit(READ_AT_ONCE)
      .execute()
    if (rows.length > 0) yield rows
    last = rows.at(-1)?.id
  }
}
