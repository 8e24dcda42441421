/**
 * A whole tenancy for a test, on a database of its own: real PostgreSQL, schema-pg, nothing replaced.
 *
 *   const { tenancy, end } = await testTenancy(inject('postgresUrl'))
 *   const acme = await installed(tenancy, { id: 'acme', name: 'Acme' })
 *   afterAll(end)
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { tablesOf } from '../../tenancy/composition.ts'
import { partsOf } from '../../tenancy/parts.ts'
import type { Satellite } from '../../tenancy/satellite.ts'
import { createTenancy, type Tenancy, type TenancyConfig } from '../../tenancy/tenancy.ts'
import type { Tenant } from '../../tenants/tenant/tenant.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { dropWithRoles } from './roles.ts'
import { createMigratedDatabase } from './template.ts'

/** The real clock, also for a test that has replaced `performance`. */
const now = performance.now.bind(performance)

export const TEST_APP_KEY = Buffer.alloc(32, 7).toString('base64')
const POLL_MS = 10
const SETTLED_WITHIN_MS = 20_000
/** A machine under load is slow, and not away. */
const STORE_TIMEOUT_MS = 10_000

export interface TestTenancy<Satellites extends readonly Satellite[]> {
  readonly tenancy: Tenancy<Satellites>
  readonly url: string
  /** Another tenancy on the same database, as another process would have it; with its own options beside the first one's. */
  open(options?: Partial<TenancyConfig<Satellites>>): Promise<Tenancy<Satellites>>
  /** All that were opened and not ended yet. */
  opened(): readonly Tenancy<Satellites>[]
  /** Stops them all and drops the database with its roles. */
  end(): Promise<void>
}

/**
 * The database is a copy of a migrated one, which stays on the server (`tenantry_template_…`) for the next tests.
 *
 * @param serverUrl of any database there, by a role that may create databases and roles.
 */
export async function testTenancy<const Satellites extends readonly Satellite[] = []>(
  serverUrl: string,
  options: Partial<TenancyConfig<Satellites>> = {},
): Promise<TestTenancy<Satellites>> {
  const store = options.store ?? postgresStore({ timeoutMs: STORE_TIMEOUT_MS })
  const parts = tablesOf(partsOf(store, options.satellites ?? []))
  const database = await createMigratedDatabase(serverUrl, parts)
  const { url } = database
  const opened: Tenancy<Satellites>[] = []
  const open = async (more: Partial<TenancyConfig<Satellites>> = {}) => {
    const tenancy = await createTenancy<Satellites>({
      database: { url },
      appKey: TEST_APP_KEY,
      isolation: [schemaPg()],
      placements: { main: { connections: { max: 4, perTenant: 4 } } },
      logger: createLogger({ level: 'silent' }),
      store,
      ...options,
      ...more,
    })
    opened.push(tenancy)
    return tenancy
  }
  const end = async () => {
    await Promise.all(opened.splice(0).map((tenancy) => tenancy.stop()))
    await dropWithRoles(serverUrl, database)
  }
  try {
    return { tenancy: await open(), url, open, opened: () => opened, end }
  } catch (error) {
    await end()
    throw error
  }
}

/** Creates a tenant and waits for the end of its installation, good or bad. */
export async function installed(
  { tenants }: Pick<Tenancy, 'tenants'>,
  request: Parameters<Tenants['create']>[0],
): Promise<Tenant> {
  const { id } = await tenants.create(request)
  return tenants.waitUntilInstalled(id, AbortSignal.timeout(SETTLED_WITHIN_MS))
}

/** Resolves when the tenancy has received every notification of earlier commits: PostgreSQL delivers them in order. */
export async function notificationsReceived({ kernel: { database } }: Pick<Tenancy, 'kernel'>): Promise<void> {
  const received = Promise.withResolvers<void>()
  const listener = await database.listen('end_of_earlier', () => received.resolve(), received.resolve)
  await database.notify('end_of_earlier', '')
  await received.promise
  await listener.close()
}

/** What `attempt` answers once it no longer throws; its last failure when `timeoutMs` have passed. */
export async function eventually<T>(attempt: () => T | Promise<T>, timeoutMs = 10_000): Promise<T> {
  const deadline = now() + timeoutMs
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (now() > deadline) throw error
      await sleep(POLL_MS)
    }
  }
}
