/**
 * Runs the ready-made service.
 *
 *   openTenancy   for commands: the tenancy without a server
 *   startService  for `npm start`: the tenancy and its HTTP server
 *
 * Everything that the configuration does not need is imported later, while PostgreSQL starts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Http, Mountable } from '../http/app.ts'
import { pathOf } from '../http/paths.ts'
import type { AdminToken } from '../http/tokens.ts'
import { createLogger, type Logger } from '../kernel/base/logger.ts'
import { once } from '../kernel/base/once.ts'
import { WrongApplicationKey } from '../kernel/database/application-key.ts'
import { SharedSessions } from '../kernel/database/session-check.ts'
import { encryptionDiagnosis } from '../kernel/doctor/encryption.ts'
import type { Satellite } from '../tenancy/satellite.ts'
import type { Role, Tenancy, TenancyConfig } from '../tenancy/tenancy.ts'
import { ENCRYPTED_LOGINS } from '../tenants/isolation/own-logins.ts'
import { appKeyOf, wrongAppKey } from './app-key.ts'
import { openBackofficeServer } from './backoffice-server.ts'
import { ConfigurationError, type ServiceConfig } from './config.ts'
import { keptSecret, openDataDirectory } from './data-directory.ts'
import { DEMO_PATH, Demo, type DemoResult } from './demo/demo.ts'
import { satellites, satellitesOn } from './satellites.ts'

export { satellites, satellitesOn } from './satellites.ts'

const DRAIN_MS = 10_000
/** Time to close connections after requests have used the whole drain period. */
const CLOSE_MS = 1_000
const NOT_CRITICAL =
  'no health check is critical: /readyz responds with 200 while the backoffice is unavailable. ' +
  'Set health.critical: ["backoffice"].'

export interface Opened {
  readonly tenancy: Tenancy
  readonly adminTokens: readonly AdminToken[]
  /** Satellites that the configuration disables. */
  readonly switchedOff: readonly Satellite[]
  /** Publishes the URL of this process to other processes on the data directory. */
  announce(url: string): void
  /** Rejects if the embedded PostgreSQL has ended and cannot be started again. Never resolves. */
  readonly failed: Promise<never>
  /** Ends running work (`withinMs` at most, default 10 s), then the embedded database. */
  stop(withinMs?: number): Promise<void>
}

export interface OpenOptions {
  /** Default: JSON lines on standard error, from the configured level on. */
  readonly logger?: Logger | undefined
  /** Aborts the wait for a data directory that another command uses, and for the migrations of another process. */
  readonly signal?: AbortSignal | undefined
}

interface Purpose extends Pick<TenancyConfig, 'needsSameSettings' | 'isCommand' | 'keepsTablesOf'> {
  readonly role: Role
  readonly exclusive?: boolean
  readonly allowsReadOnly?: boolean
}

export interface Service {
  readonly url: string
  readonly http: Http
  readonly adminTokens: readonly AdminToken[]
  readonly tenancy: Tenancy
  /** Creates the sample tenants that do not exist. No effect in production and in a process without the role `all`. */
  createDemo(): Promise<DemoResult | undefined>
  /** Responds with 503 on `/readyz` for `health.drainSeconds`, and serves all other requests. */
  drain(): Promise<void>
  /** Rejects if the embedded PostgreSQL has ended and cannot be started again. Never resolves. */
  readonly failed: Promise<never>
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
    const { prefix, probes, exposition, requests, sessions, allowedHosts, accessLog } = config
    const isDemoPossible = !config.isProduction && config.role === 'all'
    const http = createHttp(tenancy, {
      prefix,
      adminTokens,
      switchedOff,
      probes,
      exposition,
      requests,
      sessions,
      allowedHosts,
      accessLog,
      api: config.role !== 'worker',
      redirectsRoot: config.role !== 'worker',
      console: isDemoPossible ? { sampleData: DEMO_PATH } : {},
    })
    const demo = isDemoPossible ? new Demo({ kernel: tenancy.kernel, http, accessLog }) : undefined
    const receivers = createReceivers(tenancy, { accessLog })
    const server = await serveNode(
      config.role === 'worker' ? http : beside(demo ? beside(http, demo) : http, receivers),
      {
        port: config.port,
        host: config.host,
      },
    )
    opened.announce(server.url)
    const { log } = tenancy.kernel
    const { critical, drainSeconds } = config.health
    if (config.isProduction && critical.length === 0) log.warn(NOT_CRITICAL)
    const drain = async () => {
      if (drainSeconds === 0) return
      tenancy.health.startDrain()
      log.info({ drainSeconds }, 'a stop was requested; /readyz responds with 503 until the port closes')
      await sleep(drainSeconds * 1_000, undefined, { ref: false }) // the server keeps the process running
    }
    demo?.listensAt(server.url)
    const stop = async () => {
      const until = performance.now() + DRAIN_MS
      await server.close(DRAIN_MS)
      await opened.stop(Math.max(until - performance.now(), CLOSE_MS))
    }
    const createDemo = async () => demo?.run(adminTokens)
    return { url: server.url, http, adminTokens, tenancy, createDemo, drain, failed: opened.failed, stop: once(stop) }
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
  { role, exclusive = false, allowsReadOnly = false, logger, signal, ...purpose }: OpenOptions & Purpose,
): Promise<Opened> {
  const log = logger ?? createLogger({ level: config.logLevel })
  const on = satellitesOn(config)
  const switchedOff = satellites.filter(({ name }) => !on.some((satellite) => satellite.name === name))
  const appKey = await appKeyOf(config, log)
  const generatedToken = () => keptSecret(openDataDirectory(config.dataDirectory), 'admin-token')
  const needsToken = exclusive && config.adminTokens.length === 0 // a command serves no admin API
  const adminTokens = needsToken ? [{ name: 'admin', token: generatedToken() }] : config.adminTokens
  const [database, { createTenancy }, { tenancyConfigOf }] = await Promise.all([
    openBackofficeServer(config, { exclusive, signal, log }),
    import('../tenancy/tenancy.ts'),
    import('./tenancy-config.ts'),
  ])
  try {
    const composed = await tenancyConfigOf(config, {
      url: database.url,
      appKey,
      satellites: on,
      role,
      allowsReadOnly,
      logger: log,
      signal,
      ...purpose,
    })
    const tenancy = await createTenancy(composed).catch((error) => {
      if (error instanceof WrongApplicationKey) throw wrongAppKey(config)
      if (error instanceof SharedSessions) throw new ConfigurationError([`DATABASE_URL: ${error.message}`])
      throw error
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
      failed: database.failed,
      stop: (withinMs = DRAIN_MS) => (stopping ??= stop(withinMs)),
    }
  } catch (error) {
    await database.stop()
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
