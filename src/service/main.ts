/**
 * The ready-made service: the one file that knows everything. It reads the configuration, starts PostgreSQL when none is
 * given, composes the tenancy from all satellites that are on, and serves it.
 *
 *   openTenancy   what commands use: the tenancy alone
 *   startService  what `npm start` does: the tenancy and its HTTP server
 */
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { createHttp, type Http } from '../http/app.ts'
import { serveNode } from '../http/hosts/node.ts'
import type { AdminToken } from '../http/tokens.ts'
import { createLogger } from '../kernel/logger.ts'
import type { Satellite } from '../satellite.ts'
import { createTenancy, type Role, type Tenancy } from '../tenancy.ts'
import type { ServiceConfig } from './config.ts'
import { type Acquired, acquire, keptSecret, openDataDirectory, type Running } from './data-directory.ts'

const DRAIN_MS = 10_000
const LOCK_WAIT_MS = 30_000

/** Every satellite there is. Delete a folder and its line here, and exactly that feature is gone. */
const modules = await Promise.all([
  import('../satellites/audit-logs/index.ts'),
  import('../satellites/branding/index.ts'),
])
export const satellites: readonly Satellite[] = modules.map(({ default: satellite }) => satellite())

/** Another live process has the data directory. */
export class AlreadyRunning extends Error {
  readonly running: Running | null
  constructor(directory: string, running: Running | null) {
    const who = running ? ` (process ${running.pid}${running.url ? ` at ${running.url}` : ''})` : ''
    super(
      `another Tenantry is running on ${directory}${who}; stop it, or set TENANTRY_DATA_DIR to a directory of its own`,
    )
    this.running = running
  }
}

export interface Opened {
  readonly tenancy: Tenancy
  readonly adminTokens: readonly AdminToken[]
  /** Satellites that the configuration switches off. */
  readonly switchedOff: readonly Satellite[]
  /** Tells other processes where this one serves. */
  announce(url: string): void
  stop(): Promise<void>
}

export interface Service {
  readonly url: string
  readonly http: Http
  readonly adminTokens: readonly AdminToken[]
  readonly tenancy: Tenancy
  /** Ends what is running (10 s at most), then the database, when it is ours. */
  stop(): Promise<void>
}

export async function startService(config: ServiceConfig): Promise<Service> {
  const opened = await openTenancy(config, { role: config.role, exclusive: true })
  const { tenancy, adminTokens, switchedOff } = opened
  try {
    tenancy.health.register('backoffice', () => tenancy.kernel.database.ping())
    tenancy.health.register('store', () => tenancy.kernel.store.ping())
    const { prefix, probes, exposition } = config
    const http = createHttp(tenancy, {
      prefix,
      adminTokens,
      switchedOff,
      probes,
      exposition,
      api: config.role !== 'worker',
    })
    const server = await serveNode(http, { port: config.port, host: config.host })
    opened.announce(server.url)
    const stop = async () => {
      await server.close(DRAIN_MS)
      await opened.stop()
    }
    return { url: server.url, http, adminTokens, tenancy, stop: once(stop) }
  } catch (error) {
    await opened.stop()
    throw error
  }
}

/**
 * @param exclusive must have the data directory for itself; else it goes beside a running service, on its PostgreSQL.
 */
export async function openTenancy(
  config: ServiceConfig,
  { role, exclusive = false }: { role: Role; exclusive?: boolean },
): Promise<Opened> {
  const log = createLogger({ level: config.logLevel })
  const unknown = Object.keys(config.satellites).filter(
    (name) => !satellites.some((satellite) => satellite.name === name),
  )
  if (unknown.length > 0) throw new Error(`satellites: there is no satellite "${unknown.join('", "')}"`)
  const isOn = ({ name }: Satellite) => config.satellites[name] !== false
  const secret = (given: string | undefined, name: 'app-key' | 'admin-token') =>
    given ?? keptSecret(openDataDirectory(config.dataDirectory), name)
  const adminTokens =
    config.adminTokens.length > 0 ? config.adminTokens : [{ name: 'admin', token: secret(undefined, 'admin-token') }]
  const database = config.databaseUrl ? given(config.databaseUrl) : await embedded(config, exclusive)
  try {
    const { isolation, placements, plans, tenants, health, metrics } = config
    const tenancy = await createTenancy({
      database: { url: database.url },
      appKey: secret(config.appKey, 'app-key'),
      oldAppKeys: config.oldAppKeys,
      isolation: [schemaPg({ ...isolation.drivers?.['schema-pg'], extensionsSchema: isolation.extensionsSchema })],
      defaultIsolation: isolation.default,
      placements,
      plans,
      tenants,
      health,
      metrics,
      migrations: typeof config.migrations === 'function' ? await config.migrations() : config.migrations,
      satellites: satellites.filter(isOn),
      role,
      logger: log,
    })
    const stop = async () => {
      await tenancy.stop()
      await database.stop()
    }
    return {
      tenancy,
      adminTokens,
      switchedOff: satellites.filter((satellite) => !isOn(satellite)),
      announce: database.announce,
      stop: once(stop),
    }
  } catch (error) {
    await database.stop()
    throw error
  }
}

interface Backing {
  readonly url: string
  announce(url: string): void
  stop(): Promise<void>
}

const given = (url: string): Backing => ({ url, announce: () => undefined, stop: async () => undefined })

/** The PostgreSQL in the data directory: started here, or that of the service that is running on it. */
async function embedded(config: ServiceConfig, exclusive: boolean): Promise<Backing> {
  const directory = openDataDirectory(config.dataDirectory)
  const deadline = performance.now() + LOCK_WAIT_MS
  for (;;) {
    const lock = acquire(directory)
    if (lock.held) return startOwn(directory, lock)
    const { running } = lock
    if (exclusive || performance.now() > deadline) throw new AlreadyRunning(directory, running)
    if (running?.url && running.databaseUrl) return given(running.databaseUrl)
    await new Promise((resolve) => setTimeout(resolve, 100)) // another command has it, and ends soon
  }
}

async function startOwn(directory: string, lock: Extract<Acquired, { held: true }>): Promise<Backing> {
  try {
    const { startEmbeddedPostgres } = await import('./embedded-postgres.ts')
    const server = await startEmbeddedPostgres({
      directory: `${directory}/postgres`,
      password: keptSecret(directory, 'postgres-password'),
    })
    lock.announce({ url: null, databaseUrl: server.url })
    return {
      url: server.url,
      announce: (url) => lock.announce({ url, databaseUrl: server.url }),
      stop: async () => {
        await server.stop()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

function once<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined
  return () => {
    running ??= work()
    return running
  }
}
