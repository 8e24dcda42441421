/**
 * createTenancy: drivers + kernel + tenants + satellites -> one thing that is started, used and stopped.
 *
 *   const tenancy = await createTenancy({ database: { url }, appKey, isolation: [schemaPg()], satellites: [auditLogs()] })
 *   const acme = await tenancy.tenant('acme')
 *   await acme.db.selectFrom('notes').selectAll().execute()
 *   await tenancy.stop()
 */

import { loginDiagnosis } from '../drivers/isolation/roles/login-diagnosis.ts'
import { preparePlacements } from '../drivers/isolation/roles/login-repair.ts'
import { type PlacementConfig, placementsOf } from '../drivers/isolation/roles/tenant-login.ts'
import { PgBossJobs } from '../drivers/jobs/pg-boss.ts'
import { postgresStore } from '../drivers/store/postgres.ts'
import type { Command } from '../kernel/api/commands.ts'
import type { AnyOperation } from '../kernel/api/operation.ts'
import { Cursors } from '../kernel/api/page.ts'
import { type Clock, systemClock } from '../kernel/base/clock.ts'
import { createLogger, type Logger } from '../kernel/base/logger.ts'
import { once } from '../kernel/base/once.ts'
import { stopAll } from '../kernel/base/stop-all.ts'
import { createSecrets } from '../kernel/crypto/crypto.ts'
import { Database, type DatabaseOptions } from '../kernel/database/database.ts'
import { migrate } from '../kernel/database/migrations.ts'
import { diagnoses as kernelDiagnoses } from '../kernel/doctor/diagnoses.ts'
import { Doctor } from '../kernel/doctor/doctor.ts'
import { Egress, type EgressSettings } from '../kernel/egress/egress.ts'
import { rejectedInProduction } from '../kernel/egress/production.ts'
import { type EventOf, Events, type EventType } from '../kernel/events/events.ts'
import { jobSeries } from '../kernel/jobs/job-metrics.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { Metrics } from '../kernel/metrics/metrics.ts'
import { processSeries } from '../kernel/metrics/process-metrics.ts'
import { TenantLabels } from '../kernel/metrics/tenant-labels.ts'
import type { CircuitRule } from '../kernel/resilience/circuit.ts'
import { type Check, createHealth, type Health } from '../kernel/resilience/health.ts'
import { Resilience, type ResilienceConfig } from '../kernel/resilience/resilience.ts'
import { openTracing } from '../kernel/resilience/tracing.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import { circuitSeries } from '../tenants/circuits/circuit-metrics.ts'
import { Circuits } from '../tenants/circuits/circuits.ts'
import { commands } from '../tenants/commands/tenants.ts'
import { diagnoses } from '../tenants/doctor/tenants.ts'
import { createGuard, type Guard, type GuardOptions } from '../tenants/guard/guard.ts'
import type { TenantHandle } from '../tenants/handles/handle.ts'
import { createScope, type Scope } from '../tenants/handles/tenant-context.ts'
import { connectionSeries } from '../tenants/isolation/connection-metrics.ts'
import type { IsolationDriver } from '../tenants/isolation/driver.ts'
import { Storage } from '../tenants/isolation/drivers.ts'
import { readTenantMigrations, type TenantMigration } from '../tenants/isolation/migrations.ts'
import { TableChanges } from '../tenants/isolation/schema-generation.ts'
import { jobs, schedule } from '../tenants/jobs.ts'
import { installationId } from '../tenants/lifecycle/installation-id.ts'
import { operations } from '../tenants/operations/tenants.ts'
import { tenantSeries } from '../tenants/registry/metrics.ts'
import { NO_PLANS, type PlansConfig } from '../tenants/registry/plans.ts'
import { Tenants } from '../tenants/tenants.ts'
import { onDemand } from '../tenants/transfers/archive/lazy.ts'
import type { Archives } from '../tenants/transfers/archive/port.ts'
import {
  assertUniqueNames,
  checksOf,
  eventsOf,
  partsOf,
  registeredJobs,
  subscribe,
  trafficOf,
  type Wired,
  type WiredPart,
  wire,
} from './composition.ts'
import type { Receiver, Satellite, ServicesOf } from './satellite.ts'

export type { Wired } from './composition.ts'

const STOP_TIMEOUT_MS = 10_000
const BACKUPS_KEPT = 7

/**
 * `all` serves and works, `api` sends jobs but works on none, `worker` works. A command uses `api`, or `command`, which works on
 * jobs beside the others and leaves the schedule to them.
 */
export type Role = 'all' | 'api' | 'worker' | 'command'

export interface TenancyConfig<Satellites extends readonly Satellite[] = readonly Satellite[]> {
  /** The backoffice database; its role owns the tenants' schemas too. */
  readonly database: DatabaseOptions
  /** 32 bytes, base64: encrypts secrets, signs cursors and sessions. Keep it with your backups. */
  readonly appKey: string
  /** Former application keys: they decrypt what they encrypted, and encrypt nothing. */
  readonly oldAppKeys?: readonly string[]
  /** Default: `postgresStore()`, in the backoffice database. */
  readonly store?: StoreDriver | undefined
  /** The ways to keep tenants apart; the first is the default unless `defaultIsolation` names another. */
  readonly isolation: readonly IsolationDriver[]
  readonly defaultIsolation?: string
  /** More PostgreSQL servers, by name. `main` is the backoffice's; give it here only to set its `tenantUrl`. */
  readonly placements?: Readonly<Record<string, PlacementConfig>>
  /** The host's migrations: a folder, or what `readTenantMigrations` answers. */
  readonly migrations?: string | readonly TenantMigration[]
  readonly plans?: PlansConfig
  readonly tenants?: {
    readonly retentionDays?: number
    readonly autoPurge?: boolean
    readonly staleForSeconds?: number | undefined
  }
  /** Backups of tenants; absent: none can be made. */
  readonly backups?: BackupsConfig
  readonly satellites?: Satellites
  /** When the circuit of a tenant's database opens, and for how long. */
  readonly circuit?: Partial<CircuitRule>
  /** What happens while the store or the backoffice database is away. */
  readonly resilience?: ResilienceConfig
  /** Where requests of Tenantry's own may go. */
  readonly egress?: EgressSettings
  readonly role?: Role
  readonly health?: { readonly critical?: readonly string[] }
  readonly metrics?: { readonly maxTenantSeries?: number }
  readonly logger?: Logger
  readonly clock?: Clock
}

export interface BackupsConfig {
  /** `directory({ path })`, `s3({ bucket })` */
  readonly archives: Archives
  /** How many of those that are made by themselves are kept of a tenant; default 7. A plan may say otherwise. */
  readonly keep?: number
  /** Between two that are made by themselves; absent: none is. A plan may say otherwise. */
  readonly everyHours?: number | undefined
  /** Whether archives are encrypted under the application key; default false. */
  readonly seal?: boolean
}

export interface Core extends Scope {
  readonly kernel: Kernel
  readonly tenants: Tenants
  readonly health: Health
  readonly doctor: Doctor
  /** What a scrape shows; a host may register series of its own. */
  readonly series: Metrics
  readonly operations: readonly Wired<AnyOperation>[]
  readonly commands: readonly Wired<Command>[]
  /** Where other systems post to; `createReceivers` serves them. */
  readonly receivers: readonly Wired<Receiver>[]
  /** Checks of satellites, by name, for `health.register`. */
  readonly checks: ReadonlyMap<string, Check>
  /**
   * The storage of an active tenant; throws what a guarded route would answer otherwise. It may be kept: each statement alone,
   * and each transaction, asks again whether the tenant may be used and where its rows are.
   */
  tenant<Tables = any>(id: string): Promise<TenantHandle<Tables>>
  /** The guard of the host's own routes; the adapters of `tenantry/express` and the others put it before them. */
  guard(options: GuardOptions): Guard
  /** Runs `work` in one transaction of the backoffice: everything of Tenantry's that is called inside joins it. */
  transaction<T>(work: () => Promise<T>): Promise<T>
  /** Hears an event of this process after its transaction has committed. Returns a function that ends it. */
  on<Type extends EventType>(type: Type, listener: (event: EventOf<Type>) => void | Promise<void>): () => void
  /** Lets jobs in progress end (10 s at most) and closes every connection. */
  stop(): Promise<void>
}

export type Tenancy<Satellites extends readonly Satellite[] = readonly Satellite[]> = Core & ServicesOf<Satellites>

export async function createTenancy<const Satellites extends readonly Satellite[] = []>(
  config: TenancyConfig<Satellites>,
): Promise<Tenancy<Satellites>> {
  const satellites: readonly Satellite[] = config.satellites ?? []
  assertUniqueNames(satellites)
  const [rejected] = process.env.NODE_ENV === 'production' ? rejectedInProduction(config.egress) : []
  if (rejected) throw new Error(rejected)
  const log = config.logger ?? createLogger({ level: process.env.LOG_LEVEL ?? 'warn' })
  const clock = config.clock ?? systemClock
  const storeDriver = config.store ?? postgresStore()
  const secrets = createSecrets(config.appKey, config.oldAppKeys)
  const placements = placementsOf(config)
  const storage = new Storage({
    drivers: config.isolation,
    defaultDriver: config.defaultIsolation,
    placements: Object.keys(placements),
  })
  const migrations =
    typeof config.migrations === 'string' ? await readTenantMigrations(config.migrations) : (config.migrations ?? [])
  const database = new Database(config.database, log)
  const stops: (() => unknown)[] = [() => database.close()]
  const stop = once(() => stopAll(stops.splice(0), log))
  try {
    await migrate(database, partsOf(storeDriver, satellites))
    const store = storeDriver.open({ database, clock, log })
    stops.push(() => store.close())
    const runner = new PgBossJobs(database, log)
    const events = new Events(database, clock, eventsOf(satellites))
    const egress = new Egress(config.egress)
    stops.push(() => egress.close())
    const cursors = new Cursors(secrets)
    const resilience = new Resilience(config.resilience ?? {}, { events, log, tracing: await openTracing() })
    const own = { database, store, events, jobs: runner, secrets, cursors }
    const kernel: Kernel = { ...own, resilience, egress, clock, log }

    const { prepared, logins } = await preparePlacements(placements, { database, secrets, events, log })
    const changes = new TableChanges(database, log)
    await changes.start()
    stops.push(() => changes.stop())
    const installation = await installationId(database)
    await storage.start({ installation, placements: prepared, migrations, generation: () => changes.generation, log })
    stops.push(() => storage.stop())

    const archives = config.backups && onDemand(config.backups.archives)
    stops.push(() => archives?.stop())
    const labels = new TenantLabels(config.metrics?.maxTenantSeries ?? 1_000)
    const circuits = new Circuits(kernel, {
      rule: config.circuit,
      placements: [...prepared.keys()],
      labels,
      reach: (isolation) => storage.reach(isolation),
    })
    const tenants = new Tenants(kernel, storage, circuits, {
      changes,
      plans: config.plans ?? NO_PLANS,
      migrations,
      retentionDays: config.tenants?.retentionDays ?? 30,
      autoPurge: config.tenants?.autoPurge ?? true,
      staleForSeconds: config.tenants?.staleForSeconds,
      backups: {
        archives,
        keep: config.backups?.keep ?? BACKUPS_KEPT,
        everyHours: config.backups?.everyHours,
        isEncrypting: config.backups?.seal ?? false,
      },
    })
    const services = new Map(satellites.map((satellite) => [satellite.name, satellite.service(kernel, tenants)]))
    const parts: WiredPart[] = [
      { satellite: { name: 'tenants', operations, commands, jobs, schedule, doctor: diagnoses }, service: tenants },
      ...satellites.map((satellite) => ({ satellite, service: services.get(satellite.name) })),
    ]
    const checks = {
      backoffice: () => database.ping(),
      store: () => store.ping(),
      circuits: () => circuits.check(),
      logins: () => storage.checkLogins(),
    }
    const health = createHealth({ log, critical: config.health?.critical, checks })
    const doctor = new Doctor(log)
    for (const diagnosis of kernelDiagnoses) doctor.register(diagnosis, kernel)
    doctor.register(loginDiagnosis, logins)
    const metrics = new Metrics()
    for (const part of parts) {
      const { satellite, service } = part
      const { queues } = satellite
      subscribe(kernel, part)
      if (queues) runner.alsoCount((tenantId) => queues(service, tenantId))
      for (const diagnosis of satellite.doctor ?? []) doctor.register(diagnosis, service)
      metrics.register(...(satellite.metrics?.(service) ?? []))
      stops.push(() => satellite.stop?.(service))
    }
    for (const { series, stop } of [tenantSeries(tenants.registry), jobSeries(runner, labels), processSeries()]) {
      metrics.register(...series)
      stops.push(stop)
    }
    metrics.register(...circuitSeries(circuits), ...connectionSeries(storage), ...resilience.series())
    await tenants.registry.start()
    await tenants.lostPlacements.start()
    await circuits.start()
    await logins.restoreAll()
    const { stopClients, ...scope } = createScope(tenants, database, log)
    stops.push(() => circuits.stop())
    stops.push(() => stopClients(STOP_TIMEOUT_MS))
    const { role = 'all' } = config
    await runner.start(registeredJobs(parts), { work: role !== 'api', keep: role === 'all' || role === 'worker' })
    stops.push(() => runner.stop(STOP_TIMEOUT_MS))
    if (role !== 'api') for (const { satellite, service } of parts) await satellite.work?.(service)

    const receivers = parts.flatMap(({ satellite, service }) => wire(satellite.receivers, service))
    const core: Core = {
      kernel,
      tenants,
      health,
      doctor,
      series: metrics,
      operations: parts.flatMap(({ satellite, service }) => wire(satellite.operations, service)),
      commands: parts.flatMap(({ satellite, service }) => wire(satellite.commands, service)),
      receivers,
      checks: checksOf(parts),
      tenant: (id) => tenants.handle(id),
      ...scope,
      guard: ({ ignore = [], ...options }) => {
        const unguarded = [...ignore, ...receivers.map(({ what }) => what.path)]
        const guard = createGuard(tenants, { ...options, ignore: unguarded }, trafficOf(parts))
        if (options.authorize === 'anyone') log.warn('a guard admits anyone who names a tenant (authorize: anyone)')
        return guard
      },
      transaction: (work) => database.transaction(work),
      on: (type, listener) => events.subscribe(type, 'after', listener),
      stop,
    }
    return Object.assign(core, Object.fromEntries(services)) as Tenancy<Satellites>
  } catch (error) {
    await stop()
    throw error
  }
}
