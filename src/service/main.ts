/**
 * Runs the ready-made service: the only file that imports every satellite.
 *
 *   openTenancy   for commands: the tenancy without a server
 *   startService  for `npm start`: the tenancy and its HTTP server
 *
 * Help and the reference need only the list of satellites. Everything else is imported later, while PostgreSQL starts.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Http, Mountable } from '../http/app.ts'
import { pathOf } from '../http/paths.ts'
import type { AdminToken } from '../http/tokens.ts'
import { createLogger, type Logger } from '../kernel/base/logger.ts'
import { once } from '../kernel/base/once.ts'
import { encryptionDiagnosis } from '../kernel/doctor/encryption.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import type { Role, Tenancy } from '../tenancy/tenancy.ts'
import { ENCRYPTED_LOGINS } from '../tenants/isolation/own-logins.ts'
import type { ServiceConfig } from './config.ts'
import { type Acquired, acquire, keptSecret, openDataDirectory, type Running } from './data-directory.ts'

const DRAIN_MS = 10_000
/** Time to close connections after requests have used the whole drain period. */
const CLOSE_MS = 1_000
const LOCK_WAIT_MS = 30_000
const LOCK_POLL_MS = 50

/** All satellites. Deleting a folder and its line here removes exactly that feature. */
const modules: readonly { default: (options?: any) => Satellite }[] = await Promise.all([
  import('../satellites/audit-logs/index.ts'),
  import('../satellites/billing/index.ts'),
  import('../satellites/branding/index.ts'),
  import('../satellites/feature-flags/index.ts'),
  import('../satellites/impersonation/index.ts'),
  import('../satellites/metrics/index.ts'),
  import('../satellites/quotas/index.ts'),
  import('../satellites/sso/index.ts'),
  import('../satellites/webhooks/index.ts'),
])
export const satellites: readonly Satellite[] = modules.map(({ default: satellite }) => satellite())

/** Satellites that the configuration enables, each with its options. */
export const satellitesOn = (config: Pick<ServiceConfig, 'satellites'>): Satellite[] =>
  satellites.flatMap(({ name }, index) => {
    const options = (config as OptionsByName)[SETTINGS_OF[name] ?? name]
    const isOff = config.satellites[name] === false || (options === undefined && ONLY_CONFIGURED.has(name))
    return isOff ? [] : (modules[index]?.default(options) ?? [])
  })

/** Satellites without usable defaults: enabled only by their settings. */
const ONLY_CONFIGURED: ReadonlySet<string> = new Set(['billing'])

/** Settings keys that differ from the satellite's name. */
const SETTINGS_OF: Readonly<Record<string, string>> = { auditLogs: 'audit' }

type OptionsByName = Readonly<Record<string, unknown>>

/** Another live process has the data directory. */
export class AlreadyRunning extends Error {
  readonly running: Running | null
  constructor(directory: string, running: Running | null) {
    const who = running ? ` (process ${running.pid}${running.url ? ` at ${running.url}` : ''})` : ''
    super(`Another Tenantry runs on ${directory}${who}. Stop it, or set TENANTRY_DATA_DIR to another directory.`)
    this.running = running
  }
}

export interface Opened {
  readonly tenancy: Tenancy
  readonly adminTokens: readonly AdminToken[]
  /** Satellites that the configuration disables. */
  readonly switchedOff: readonly Satellite[]
  /** Publishes the URL of this process to other processes on the data directory. */
  announce(url: string): void
  /** Ends running work (`withinMs` at most, default 10 s), then the embedded database. */
  stop(withinMs?: number): Promise<void>
}

export interface OpenOptions {
  /** Default: JSON lines on standard error, from the configured level on. */
  readonly logger?: Logger | undefined
  /** Aborts the wait for a data directory that another command uses. */
  readonly signal?: AbortSignal | undefined
}

export interface Service {
  readonly url: string
  readonly http: Http
  readonly adminTokens: readonly AdminToken[]
  readonly tenancy: Tenancy
  /** Ends running work (10 s at most), then the embedded database. */
  stop(): Promise<void>
}

export async function startService(config: ServiceConfig, options: OpenOptions = {}): Promise<Service> {
  const [opened, { createHttp }, { createReceivers }, { serveNode }] = await Promise.all([
    openTenancy(config, { ...options, role: config.role, exclusive: true }),
    import('../http/app.ts'),
    import('../http/receivers.ts'),
    import('../http/hosts/node.ts'),
  ])
  const { tenancy, adminTokens, switchedOff } = opened
  try {
    for (const [name, check] of tenancy.checks) tenancy.health.register(name, check)
    const { prefix, probes, exposition, requests, allowedHosts } = config
    const http = createHttp(tenancy, {
      prefix,
      adminTokens,
      switchedOff,
      probes,
      exposition,
      requests,
      allowedHosts,
      api: config.role !== 'worker',
    })
    const receivers = createReceivers(tenancy)
    const server = await serveNode(config.role === 'worker' ? http : beside(http, receivers), {
      port: config.port,
      host: config.host,
    })
    opened.announce(server.url)
    const stop = async () => {
      const until = performance.now() + DRAIN_MS
      await server.close(DRAIN_MS)
      await opened.stop(Math.max(until - performance.now(), CLOSE_MS))
    }
    return { url: server.url, http, adminTokens, tenancy, stop: once(stop) }
  } catch (error) {
    await opened.stop()
    throw error
  }
}

/** Both on one server; paths of the second take precedence. */
const beside = (http: Mountable, first: Mountable): Mountable => ({
  routes: [...first.routes, ...http.routes],
  handles: (pathname) => first.handles(pathname) || http.handles(pathname),
  fetch: (request, client) => (first.handles(pathOf(request.url)) ? first : http).fetch(request, client),
})

/**
 * @param exclusive whether the data directory must be unused; otherwise a running service shares its PostgreSQL
 */
export async function openTenancy(
  config: ServiceConfig,
  { role, exclusive = false, logger, signal }: OpenOptions & { role: Role; exclusive?: boolean },
): Promise<Opened> {
  const log = logger ?? createLogger({ level: config.logLevel })
  const on = satellitesOn(config)
  const switchedOff = satellites.filter(({ name }) => !on.some((satellite) => satellite.name === name))
  const secret = (given: string | undefined, name: 'app-key' | 'admin-token') =>
    given ?? keptSecret(openDataDirectory(config.dataDirectory), name)
  const adminTokens =
    config.adminTokens.length > 0 ? config.adminTokens : [{ name: 'admin', token: secret(undefined, 'admin-token') }]
  const [database, { createTenancy }, { isolationDrivers }, { archivesOf }] = await Promise.all([
    config.databaseUrl ? given(config.databaseUrl) : embedded(config, { exclusive, signal, log }),
    import('../tenancy/tenancy.ts'),
    import('./isolation-drivers.ts'),
    import('./archives.ts'),
  ])
  try {
    const { isolation, placements, plans, tenants, backups, circuit, resilience, egress, health, metrics, redisUrl } =
      config
    const tenancy = await createTenancy({
      database: { url: database.url },
      appKey: secret(config.appKey, 'app-key'),
      oldAppKeys: config.oldAppKeys,
      store: redisUrl === undefined ? undefined : await storeOf(redisUrl),
      isolation: isolationDrivers(isolation),
      defaultIsolation: isolation.default,
      placements,
      plans,
      tenants,
      backups: { ...backups, archives: archivesOf(backups, join(config.dataDirectory, 'backups')) },
      circuit,
      resilience,
      egress,
      health,
      metrics,
      migrations: typeof config.migrations === 'function' ? await config.migrations() : config.migrations,
      satellites: on,
      role,
      logger: log,
    })
    const columns = [ENCRYPTED_LOGINS, ...switchedOff.flatMap(({ encryptedColumns = [] }) => encryptedColumns)]
    tenancy.doctor.register(encryptionDiagnosis, { ...tenancy.kernel, columns })
    const stop = async (withinMs: number) => {
      try {
        const isDone = await within(tenancy.stop(), withinMs)
        if (!isDone) log.warn('work was interrupted at the end of the drain period')
      } finally {
        await database.stop()
      }
    }
    let stopping: Promise<void> | undefined
    return {
      tenancy,
      adminTokens,
      switchedOff,
      announce: database.announce,
      stop: (withinMs = DRAIN_MS) => (stopping ??= stop(withinMs)),
    }
  } catch (error) {
    await database.stop()
    throw error
  }
}

/** Imports ioredis only for a configured Redis. */
async function storeOf(redisUrl: string): Promise<StoreDriver> {
  const { redisStore } = await import('../drivers/store/redis.ts')
  return redisStore({ url: redisUrl })
}

interface Backing {
  readonly url: string
  announce(url: string): void
  stop(): Promise<void>
}

const given = (url: string): Backing => ({ url, announce: () => undefined, stop: async () => undefined })

/** The PostgreSQL in the data directory: started here, or shared by the running service. */
async function embedded(
  config: ServiceConfig,
  { exclusive, signal, log }: { exclusive: boolean; signal: AbortSignal | undefined; log: Logger },
): Promise<Backing> {
  const directory = openDataDirectory(config.dataDirectory)
  const deadline = performance.now() + LOCK_WAIT_MS
  let isWaiting = false
  for (;;) {
    const lock = acquire(directory)
    if (lock.held) return startOwn(directory, lock)
    const { running } = lock
    if (performance.now() > deadline) throw new AlreadyRunning(directory, running)
    if (running?.url) {
      if (exclusive || !running.databaseUrl) throw new AlreadyRunning(directory, running)
      return given(running.databaseUrl)
    }
    signal?.throwIfAborted()
    if (!isWaiting)
      log.info(`waiting for ${running ? `process ${running.pid}` : 'another process'}, which uses ${directory}`)
    isWaiting = true
    await sleep(LOCK_POLL_MS) // The holder is a command, or a service that is starting.
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

/** False if the time limit ends first; the later result of `work` is ignored. */
async function within(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  const timer = new AbortController()
  const timeout = sleep(timeoutMs, false, { signal: timer.signal })
  timeout.catch(() => undefined)
  work.catch(() => undefined)
  try {
    return await Promise.race([work.then(() => true), timeout])
  } finally {
    timer.abort()
  }
}
