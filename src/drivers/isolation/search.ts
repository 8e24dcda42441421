/** Searches a server for the data of one tenant: storage of any epoch, adopted storage, rows in shared tables, entries of the outbox. */
import type pg from 'pg'
import type { FoundData } from '../../kernel/erasable.ts'
import type { PostgresDialect } from './postgres-dialect.ts'
import type { PostgresServer } from './server/postgres-server.ts'

export async function searchServer(
  server: PostgresServer,
  { name, capabilities, locator, inventory, rowsOf }: PostgresDialect,
  tenantId: string,
  { lastEpoch, adopted = [] }: { readonly lastEpoch: number; readonly adopted?: readonly string[] | undefined },
): Promise<FoundData[]> {
  const locators = Array.from({ length: lastEpoch }, (_, index) => locator(tenantId, index + 1))
  const wanted = new Set([...locators, ...adopted])
  const stored = capabilities.separateStorage ? await inventory(server) : []
  const posted = await server.owned((client) => postedBy(client, tenantId))
  return [
    ...stored.filter((one) => wanted.has(one.locator)).map((one) => ({ kind: `${name} ${one.locator}`, count: 1 })),
    ...((await rowsOf?.(server, tenantId, locators)) ?? []),
    ...(posted > 0 ? [{ kind: 'tenantry.outbox', count: posted }] : []),
  ]
}

async function postedBy(client: pg.ClientBase, tenantId: string): Promise<number> {
  const { rows } = await client.query(`select to_regclass('tenantry.outbox') is not null as "isThere"`)
  if (!rows[0].isThere) return 0
  const { rows: counted } = await client.query(
    'select count(*)::float8 as count from tenantry.outbox where tenant = $1',
    [tenantId],
  )
  return counted[0].count
}
