/** Searches a server for the data of one tenant: storage of any epoch, adopted storage, rows in shared tables, entries of the outbox. */
import type { FoundData } from '../../kernel/erasable.ts'
import type { PostgresDialect } from './postgres-dialect.ts'
import type { PostgresServer } from './server/postgres-server.ts'

const POSTED = 'select count(*)::float8 as count from tenantry.outbox where tenant = $1'

interface SearchOptions {
  readonly lastEpoch: number
  readonly adopted?: readonly string[] | undefined
  readonly beforeDrop?: boolean | undefined
}

export async function searchServer(
  server: PostgresServer,
  { name, capabilities, locator, inventory, rowsOf }: PostgresDialect,
  tenantId: string,
  { lastEpoch, adopted = [], beforeDrop }: SearchOptions,
): Promise<FoundData[]> {
  const locators = Array.from({ length: lastEpoch }, (_, index) => locator(tenantId, index + 1))
  const wanted = new Set([...locators, ...adopted])
  const stored = capabilities.separateStorage ? await inventory(server) : []
  const posted = await server.owned((client) => client.query(POSTED, [tenantId]))
  const { count } = posted.rows[0]
  return [
    ...stored.filter((one) => wanted.has(one.locator)).map((one) => ({ kind: `${name} ${one.locator}`, count: 1 })),
    ...((await rowsOf?.(server, tenantId, locators, { beforeDrop })) ?? []),
    ...(count > 0 ? [{ kind: 'tenantry.outbox', count }] : []),
  ]
}
