/**
 * Creates a tenancy: composes its parts, migrates their tables, and starts them.
 *
 * @example
 *   const tenancy = await createTenancy({ database: { url }, appKey, isolation: [schemaPg()] })
 *   const acme = await tenancy.tenant('acme')
 *   await acme.db.selectFrom('notes').selectAll().execute()
 *   await tenancy.stop()
 */
import { PgBossJobs } from '../drivers/jobs/pg-boss.ts'
import type { Command } from '../kernel/api/commands.ts'
import { once } from '../kernel/base/once.ts'
import { stopAll } from '../kernel/base/stop-all.ts'
import { assertApplicationKey, keepApplicationKey } from '../kernel/database/application-key.ts'
import { Database, type Session } from '../kernel/database/database.ts'
import { migrateLocked, pendingMigrations } from '../kernel/database/migrations.ts'
import { assertSeparateSessions } from '../kernel/database/session-check.ts'
import { explained } from '../kernel/database/start-failures.ts'
import { isWritable } from '../kernel/database/write-probe.ts'
import type { Doctor } from '../kernel/doctor/doctor.ts'
import type { Examinations } from '../kernel/doctor/examinations.ts'
import type { EventOf, EventType } from '../kernel/events/events.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { Metrics, type Series } from '../kernel/metrics/metrics.ts'
import { COMMAND, Processes } from '../kernel/processes/processes.ts'
import { SettingsConflict } from '../kernel/processes/settings.ts'
import { type Check, createHealth, type Health } from '../kernel/resilience/health.ts'
import { healthSeries } from '../kernel/resilience/health-metrics.ts'
import { openTracing } from '../kernel/resilience/tracing.ts'
import { createGuard, type Guard, type GuardOptions } from '../tenants/guard/guard.ts'
import type { Tenant } from '../tenants/handles/handle.ts'
import type { OwnedScope, Scope } from '../tenants/handles/tenant-context.ts'
import type { HostJobs } from '../tenants/host-jobs/part.ts'
import { PLACEMENT_PASSWORDS } from '../tenants/isolation/own-logins.ts'
import { assertDriversOfTenants } from '../tenants/isolation/used-drivers.ts'
import type { PlansConfig } from '../tenants/registry/plans.ts'
import type { Names } from '../tenants/tenant/names.ts'
import type { Tenants } from '../tenants/tenants.ts'
import {
  checksOf,
  compose,
  eventsOf,
  servicesOf,
  startParts,
  tablesOf,
  tenantsFirst,
  trafficOf,
  type Wired,
  type WiredPart,
  wired,
} from './composition.ts'
import type { TenancyConfig } from './config.ts'
import { openKernel } from './kernel.ts'
import type { NamesOf, ServicesOf } from './names.ts'
import { operationsOf, partsOf } from './parts.ts'
import { processSettings } from './process-settings.ts'
import type { AnyOperation, AnySatellite, Receiver, Satellite } from './satellite.ts'
import { settingsOf } from './settings.ts'
import { type System, systemOperations } from './system-operations.ts'
import type { Sessions } from './tokens/sessions.ts'
import type { Tokens } from './tokens/tokens.ts'
import { VERSION } from './version.ts'

export type { Wired } from './composition.ts'
export type { Role, TenancyConfig } from './config.ts'

/** The members of every tenancy, for the host's tables `DB` and its declared names `N`. */
export interface Core<DB = any, N extends Names = Names> extends Scope<DB, N>, HostJobs<DB, N> {
  readonly kernel: Kernel
  readonly tenants: Tenants<DB, N>
  /** API tokens. */
  readonly tokens: Tokens
  /** Sessions of browsers. */
  readonly sessions: Sessions
  readonly health: Health
  readonly doctor: Doctor
  /** The metrics of a scrape; a host can register its own series. */
  readonly series: Metrics
  readonly operations: readonly Wired<AnyOperation>[]
  readonly commands: readonly Wired<Command>[]
  /** Receivers of requests of other systems; `createReceivers` serves them. */
  readonly receivers: readonly Wired<Receiver>[]
  /** Files of console modules by the name of their part. */
  readonly consoles: ReadonlyMap<string, URL>
  /** Operations of the satellites, by the name of the satellite. */
  readonly satelliteOperations: ReadonlyMap<string, readonly AnyOperation[]>
  /** Health checks of satellites, by name, for `health.register`. */
  readonly checks: ReadonlyMap<string, Check>
  /**
   * The storage of an active tenant; throws the error of a guarded route otherwise. It can be kept: each single
   * statement and each transaction checks status and location again.
   */
  tenant<Tables = DB>(id: string): Promise<Tenant<Tables, N>>
  /** A guard for the host's own routes; the adapters of `tenantry/express` and others run it before them. */
  guard(options: GuardOptions): Guard<DB, N>
  /** Runs `work` in one transaction of the backoffice, which all calls of Tenantry inside join. */
  transaction<T>(work: () => Promise<T>): Promise<T>
  /**
   * Subscribes to an event of this process after its transaction has committed. Returns a function that unsubscribes.
   */
  on<Type extends EventType>(type: Type, listener: (event: EventOf<Type>) => void | Promise<void>): () => void
  /** Waits for jobs in progress (10 s at most) and closes every connection. */
  stop(): Promise<void>
}

/** A running tenancy: its members, and the services of its satellites by name. */
export type Tenancy<
  S extends readonly AnySatellite[] = readonly Satellite[],
  DB = any,
  P extends PlansConfig = PlansConfig,
> = Core<DB, NamesOf<P, S>> & ServicesOf<S, NamesOf<P, S>>

export async function createTenancy<const Satellites extends readonly AnySatellite[] = []>(
  config: TenancyConfig<Satellites>,
): Promise<Tenancy<Satellites>> {
  const { health: { critical } = {}, role = 'all' } = config
  const satellites = (config.satellites ?? []) as readonly Satellite[]
  const given = await settingsOf(config)
  const { secrets, store } = given
  const parts = partsOf(store, satellites)
  const drivers = given.storage.drivers.map(({ name }) => name)
  const database = new Database(config.database, given.log)
  const { log } = database
  const settings = { ...given, log }
  const stops: (() => unknown)[] = [() => database.close()]
  const stop = once(() => stopAll(stops.splice(0), log))
  try {
    await assertSeparateSessions(config.database.url)
    const description = {
      role: config.isCommand ? COMMAND : role,
      version: VERSION,
      settings: await processSettings(given, satellites),
      needsSameSettings: config.needsSameSettings,
    }
    const processes = new Processes(database, log, description, { signal: config.signal })
    stops.push(() => processes.stop())
    const prepare = async (client: Session, isDifferent: boolean) => {
      await assertApplicationKey(database, secrets, [PLACEMENT_PASSWORDS])
      await assertDriversOfTenants(client, drivers)
      if (!isDifferent || !config.keepsTablesOf) return migrateLocked(client, tablesOf(parts))
      const pending = await pendingMigrations(client, tablesOf(parts))
      assertTablesOf(config.keepsTablesOf, pending)
      if (pending.length > 0) log.info({ pending }, 'a running process has other settings; migrations were not run')
    }
    const canWrite = !config.allowsReadOnly || (await isWritable(database))
    await (canWrite ? processes.start(prepare) : processes.check(prepare))
    if (canWrite) await keepApplicationKey(database, secrets)
    const tracing = await openTracing()
    const runner = new PgBossJobs(database, log, tracing)
    const kernel = openKernel(config, settings, {
      database,
      canWrite,
      jobs: runner,
      tracing,
      types: eventsOf(parts),
      processes,
    })
    const operations = operationsOf(parts)
    const all = compose(parts, kernel, { ...settings, operations }, stops)
    const { doctor } = servicesOf(all).examinations as Examinations
    const series = new Metrics()
    for (const { part, service } of all) {
      for (const diagnosis of part.doctor ?? []) doctor.register(diagnosis, service)
      series.register(...(part.metrics?.(service) ?? []))
    }
    stops.push(() => series.stop())
    await startParts(all, runner, { role, canWrite }, stops)
    const isOptional = ({ part: { name } }: WiredPart) => satellites.some((satellite) => satellite.name === name)
    const checks = Object.fromEntries(checksOf(all.filter((one) => !isOptional(one))))
    const health = createHealth({ log, critical, checks })
    series.register(buildInfo, ...healthSeries(health))
    series.register(series.ages())
    const core = coreOf(all, kernel, {
      health,
      doctor,
      series,
      checks: checksOf(all.filter(isOptional)),
      stop,
      satelliteOperations: new Map(satellites.map(({ name, operations = [] }) => [name, operations])),
      system: { health, doctor, operations, satellites: satellites.map(({ name }) => name) },
    })
    return Object.assign(core, servicesOf(all.filter(isOptional))) as unknown as Tenancy<Satellites>
  } catch (error) {
    await stop()
    throw explained(error)
  }
}

/** @param pending migrations as `part/name`, which were not run */
function assertTablesOf(part: string, pending: readonly string[]): void {
  if (!pending.some((one) => one.startsWith(`${part}/`))) return
  throw SettingsConflict(
    `The backoffice lacks tables of "${part}", and a running process has other settings. Start the service with these settings first.`,
  )
}

const buildInfo: Series = {
  name: 'multitenancy_build_info',
  help: 'Version of Tenantry',
  type: 'gauge',
  collect: () => [{ labels: { version: VERSION }, value: 1 }],
}

interface Services {
  readonly tenants: Tenants
  readonly tokens: Tokens
  readonly sessions: Sessions
  readonly scope: OwnedScope
  readonly hostJobs: HostJobs
}

type Observed = 'health' | 'doctor' | 'series' | 'checks' | 'satelliteOperations' | 'stop'
type Observation = Pick<Core, Observed> & { readonly system: System }

function coreOf(parts: readonly WiredPart[], kernel: Kernel, { system, ...observation }: Observation): Core {
  const { tenants, tokens, sessions, scope, hostJobs } = servicesOf(parts) as unknown as Services
  const { stopClients: _, ...members } = scope
  const { database, events, log } = kernel
  const receivers = wired(parts, 'receivers')
  return {
    kernel,
    tenants,
    tokens,
    sessions,
    ...observation,
    operations: [
      ...wired(
        parts.toSorted((a, b) => tenantsFirst(a.part, b.part)),
        'operations',
      ),
      ...systemOperations.map((what) => ({ what, service: system })),
    ],
    commands: wired(parts, 'commands'),
    receivers,
    consoles: new Map(parts.flatMap(({ part: { name, console } }) => (console ? [[name, console] as const] : []))),
    tenant: (id) => tenants.handle(id),
    ...members,
    ...hostJobs,
    guard: ({ ignore = [], ...options }) => {
      const unguarded = [...ignore, ...receivers.map(({ what }) => what.path)]
      const guard = createGuard(tenants, { ...options, ignore: unguarded }, trafficOf(parts))
      tenants.overview.explanations.resolution.register(guard)
      if (options.authorize === 'anyone') log.warn('a guard admits anyone who names a tenant (authorize: anyone)')
      return guard
    },
    transaction: (work) => database.transaction(work),
    on: (type, listener) => events.subscribe(type, 'after', listener),
  }
}
