/** Composes parts: their tables, events, services, operations and commands. */
import { type Traffic, trafficTo } from '../kernel/api/traffic.ts'
import { SCHEMA } from '../kernel/database/database.ts'
import type { Migration } from '../kernel/database/migrations.ts'
import { deletionFrom } from '../kernel/database/tenant-rows.ts'
import type { EventType } from '../kernel/events/events.ts'
import type { Attempt, JobRunner, RegisteredJobs } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { type Part, STOP_TIMEOUT_MS } from '../kernel/part-definition.ts'
import type { Check } from '../kernel/resilience/health.ts'
import type { Erasures } from '../tenants/erasure/erasures.ts'
import { TenantPurged } from '../tenants/tenant/events.ts'
import type { Role } from './config.ts'

/** A part with its service. */
export interface WiredPart {
  readonly part: Part
  readonly service: any
  readonly start: () => unknown
}

/** An operation or command with its service. */
export interface Wired<What> {
  readonly what: What
  readonly service: unknown
}

export const tablesOf = (parts: readonly Part[]): { part: string; migrations: readonly Migration[] }[] =>
  parts.map(({ name, tables = [] }) => ({ part: name, migrations: tables }))

export const eventsOf = (parts: readonly Part[]): EventType[] => parts.flatMap(({ events = [] }) => events)

type Stops = (() => unknown)[]

/** Creates the services, in order, and subscribes their listeners. If one fails, the created ones are stopped. */
export function compose(parts: readonly Part[], kernel: Kernel, configuration: object, stops: Stops): WiredPart[] {
  const dependencies: Record<string, unknown> = { configuration }
  const all = parts.map((part) => {
    const service = part.service(kernel, dependencies)
    dependencies[part.name] = service
    stops.push(() => part.stop?.(service))
    return { part, service, start: () => part.start?.(service, kernel, dependencies) }
  })
  for (const one of all) subscribe(kernel, one)
  deleteRowsOfPurged(kernel, parts)
  for (const { part, service } of all) {
    for (const kind of part.outbox ?? []) kernel.outbox.register(kind, service)
    kernel.shares.register(part, service)
  }
  ;(dependencies.erasures as Erasures | undefined)?.register(all)
  return all
}

/** Starts the parts, then the jobs, then background work. */
export async function startParts(
  parts: readonly WiredPart[],
  runner: JobRunner,
  { role, canWrite }: { readonly role: Role; readonly canWrite: boolean },
  stops: Stops,
): Promise<void> {
  for (const { start } of parts) await start()
  for (const { part, service } of parts) {
    const { queues } = part
    if (queues) runner.alsoCount((tenantId) => queues(service, tenantId))
  }
  await runner.start(registeredJobs(parts), {
    work: role !== 'api',
    keep: role === 'all' || role === 'worker',
    canWrite,
  })
  stops.push(() => runner.stop(STOP_TIMEOUT_MS))
  if (role !== 'api') for (const { part, service } of parts) await part.work?.(service)
}

export const servicesOf = (parts: readonly WiredPart[]): Record<string, any> =>
  Object.fromEntries(parts.map(({ part, service }) => [part.name, service]))

function subscribe({ events }: Kernel, { part, service }: WiredPart): void {
  for (const listener of part.listeners ?? []) {
    if ('type' in listener) {
      events.subscribe(listener.type, listener.when, (event) => listener.handle(service, event), listener.isPassive)
      continue
    }
    for (const type of events.types.filter(({ isInternal }) => !isInternal)) {
      events.subscribe(type, listener.when, (event) => listener.handleAny(service, type, event))
    }
  }
}

/** A purge deletes the tenant's rows of the `tenantTables` of all parts, after their listeners. */
function deleteRowsOfPurged({ events, database }: Kernel, parts: readonly Part[]): void {
  const tables = parts.flatMap(({ tenantTables = [] }) => tenantTables.map((table) => `${SCHEMA}.${table}`))
  events.subscribe(TenantPurged, 'within', async ({ tenantId }) => {
    await database.sql(deletionFrom(tables), [tenantId])
  })
}

function registeredJobs(parts: readonly WiredPart[]): RegisteredJobs {
  const all = parts.flatMap(({ part, service }) => (part.jobs ?? []).map((job) => ({ job, service })))
  const handlers = all.map(
    ({ job, service }) =>
      [job.type.name, (data: unknown, attempt: Attempt) => job.handle(service, data, attempt)] as const,
  )
  return {
    types: all.map(({ job }) => job.type),
    handlers: new Map(handlers),
    schedule: parts.flatMap(({ part }) => part.schedule ?? []),
  }
}

export const checksOf = (parts: readonly WiredPart[]): ReadonlyMap<string, Check> =>
  new Map(
    parts.flatMap(({ part, service }) =>
      Object.entries(part.checks ?? {}).map(([name, check]) => [name, () => check(service)] as const),
    ),
  )

/** Undefined if no part receives requests. */
export const trafficOf = (parts: readonly WiredPart[]): Traffic | undefined =>
  trafficTo(parts.flatMap(({ part, service }) => part.traffic?.(service) ?? []))

/** The order of operations in descriptions of the API, which begin with those on tenants. */
export const tenantsFirst = (a: Pick<Part, 'name'>, b: Pick<Part, 'name'>): number =>
  Number(b.name === 'tenants') - Number(a.name === 'tenants')

/** All operations, commands or receivers, each with its service. */
export const wired = <Kind extends 'operations' | 'commands' | 'receivers'>(
  parts: readonly WiredPart[],
  kind: Kind,
): Wired<NonNullable<Part[Kind]>[number]>[] =>
  parts.flatMap(({ part, service }) =>
    ((part[kind] ?? []) as NonNullable<Part[Kind]>[number][]).map((what) => ({ what, service })),
  )
