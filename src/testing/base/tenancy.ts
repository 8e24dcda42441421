/** Starts complete tenancies for tests, each on its own PostgreSQL database with the schema-pg driver. */
import { setTimeout as sleep } from 'node:timers/promises'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { configurationOf, type Definition } from '../../service/definition.ts'
import { tablesOf } from '../../tenancy/composition.ts'
import { partsOf } from '../../tenancy/parts.ts'
import type { AnySatellite, Satellite } from '../../tenancy/satellite.ts'
import { createTenancy, type Tenancy, type TenancyConfig } from '../../tenancy/tenancy.ts'
import { readTenantMigrations } from '../../tenants/isolation/migrations.ts'
import type { PlansConfig } from '../../tenants/registry/plans.ts'
import type { TenantRecord } from '../../tenants/tenant/tenant.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { dropWithRoles } from './roles.ts'
import { createMigratedDatabase } from './template.ts'

/** The real clock, even if a test replaces `performance`. */
const now = performance.now.bind(performance)

export const TEST_APP_KEY = Buffer.alloc(32, 7).toString('base64')
/** Keys of a definition that a test has in its own form. */
const OWN_KEYS = ['database', 'appKey', 'oldAppKeys', 'store', 'placements', 'backups', 'logger', 'role']
const OWN_VARIABLES = ['DATABASE_URL', 'TENANTRY_APP_KEY', 'TENANTRY_OLD_APP_KEYS', 'REDIS_URL', 'TENANTRY_ROLE']
const POLL_MS = 10
const SETTLED_WITHIN_MS = 20_000
/** Long enough that a slow store or search on a busy machine does not count as unavailable. */
const STORE_TIMEOUT_MS = 10_000
const SEARCH_TIMEOUT_MS = 10_000

export interface TestTenancy<
  Satellites extends readonly AnySatellite[],
  DB = any,
  P extends PlansConfig = PlansConfig,
> {
  readonly tenancy: Tenancy<Satellites, DB, P>
  readonly url: string
  /**
   * Starts another tenancy on the same database, as another process would. The options are merged into those of the
   * first.
   */
  open(options?: Partial<TenancyConfig<Satellites>>): Promise<Tenancy<Satellites, DB, P>>
  /** Tenancies that are running. */
  opened(): readonly Tenancy<Satellites, DB, P>[]
  /** Stops all tenancies and drops the database with its roles. */
  end(): Promise<void>
}

/**
 * Creates a database and starts a tenancy on it. The database is a copy of a migrated template, which stays on the
 * server (`tenantry_template_…`) for later tests.
 *
 * @param serverUrl URL of any database of the server, with a role that may create databases and roles.
 * @param from a definition, or options. A tenancy of a definition has its own application key, store, servers and
 * backup storage, not those of the definition: name others in `options`.
 * @example
 * const { tenancy, end } = await testTenancy('postgres://postgres@localhost/postgres', definition)
 * const acme = await installed(tenancy, { id: 'acme', name: 'Acme' })
 * afterAll(end)
 */
export function testTenancy<DB, P extends PlansConfig, Satellites extends readonly AnySatellite[]>(
  serverUrl: string,
  from: Definition<DB, P, Satellites>,
  options?: Partial<TenancyConfig<Satellites>>,
): Promise<TestTenancy<Satellites, DB, P>>
export function testTenancy<const Satellites extends readonly AnySatellite[] = []>(
  serverUrl: string,
  from?: Partial<TenancyConfig<Satellites>>,
): Promise<TestTenancy<Satellites>>
export async function testTenancy<Satellites extends readonly AnySatellite[]>(
  serverUrl: string,
  from: Definition<any, PlansConfig, Satellites> | Partial<TenancyConfig<Satellites>> = {},
  more: Partial<TenancyConfig<Satellites>> = {},
): Promise<TestTenancy<Satellites>> {
  const options = { ...(isDefinition(from) ? await optionsOf(from, serverUrl) : from), ...more }
  if (typeof options.migrations === 'string') options.migrations = await readTenantMigrations(options.migrations)
  const store = options.store ?? postgresStore({ timeoutMs: STORE_TIMEOUT_MS })
  const parts = tablesOf(partsOf(store, (options.satellites ?? []) as readonly Satellite[]))
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
      search: { timeoutMs: SEARCH_TIMEOUT_MS },
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

const isDefinition = <Satellites extends readonly AnySatellite[]>(
  from: Definition<any, PlansConfig, Satellites> | Partial<TenancyConfig<Satellites>>,
): from is Definition<any, PlansConfig, Satellites> => 'start' in from && typeof from.start === 'function'

/** Options of a definition, without the places of its data. */
async function optionsOf<Satellites extends readonly AnySatellite[]>(
  { config, directory }: Definition<any, PlansConfig, Satellites>,
  serverUrl: string,
): Promise<Partial<TenancyConfig<Satellites>>> {
  const content = { ...without(config, OWN_KEYS), database: { url: serverUrl }, appKey: TEST_APP_KEY }
  const options = await configurationOf<Satellites>(content, directory, without(process.env, OWN_VARIABLES))
  return without(options, OWN_KEYS)
}

const without = <Values extends object>(values: Values, names: readonly string[]): Partial<Values> =>
  Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name))) as Partial<Values>

/**
 * Creates a tenant and waits until its installation has succeeded or failed.
 *
 * @example const acme = await installed(tenancy, { id: 'acme', name: 'Acme' })
 */
export async function installed(
  { tenants }: Pick<Tenancy, 'tenants'>,
  request: Parameters<Tenants['create']>[0],
): Promise<TenantRecord> {
  const { id } = await tenants.create(request)
  return tenants.waitUntilInstalled(id, AbortSignal.timeout(SETTLED_WITHIN_MS))
}

/** Waits until the tenancy has received the notifications of all earlier commits: PostgreSQL delivers them in order. */
export async function notificationsReceived({ kernel: { database } }: Pick<Tenancy, 'kernel'>): Promise<void> {
  const received = Promise.withResolvers<void>()
  const listener = await database.listen('end_of_earlier', () => received.resolve(), received.resolve)
  await database.notify('end_of_earlier', '')
  await received.promise
  await listener.close()
}

/**
 * Calls `attempt` until it succeeds, and returns its result. Throws its last error after `timeoutMs`.
 *
 * @example await eventually(() => expect(received).toHaveLength(1))
 */
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
