/** What a list of satellites comes to: the tables they have, the jobs they handle, the names they take. */

import { SCHEMA } from '../kernel/database/database.ts'
import type { Migration } from '../kernel/database/migrations.ts'
import type { EventType } from '../kernel/events/events.ts'
import type { Attempt, RegisteredJobs } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Check } from '../kernel/resilience/health.ts'
import { DependencyDegraded } from '../kernel/resilience/resilience.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import { tables as kernelTables } from '../kernel/tables.ts'
import { BackofficeRestored } from '../tenants/backoffice-recovery.ts'
import { type Traffic, trafficTo } from '../tenants/guard/traffic-listener.ts'
import * as tenantEvents from '../tenants/tenant/events.ts'
import { TenantLoginRestored } from '../tenants/tenant/login-events.ts'
import { tables } from '../tenants/tenant/tables.ts'
import type { Satellite } from './satellite.ts'

/** A satellite with its service; the tenants are one of these, too. */
export interface WiredPart {
  readonly satellite: Omit<Satellite, 'service' | 'summary'>
  readonly service: any
}

/** Everything with tables of its own, in the order in which they are migrated. */
export const partsOf = (
  store: StoreDriver,
  satellites: readonly Satellite[],
): { part: string; migrations: readonly Migration[] }[] => [
  { part: 'kernel', migrations: kernelTables },
  { part: 'store', migrations: store.tables ?? [] },
  { part: 'tenants', migrations: tables },
  ...satellites.map(({ name, tables = [] }) => ({ part: name, migrations: tables })),
]

/** Every event that may be heard of them. */
export const eventsOf = (satellites: readonly Satellite[]): EventType[] => [
  ...Object.values(tenantEvents).toSorted((a, b) => a.name.localeCompare(b.name)), // a module's order is its bundler's
  BackofficeRestored,
  DependencyDegraded,
  TenantLoginRestored,
  ...satellites.flatMap(({ events = [] }) => events),
]

/** Subscribes the listeners of a part. A purge deletes the tenant's rows of its `tenantTables`. */
export function subscribe(
  { events, database }: Pick<Kernel, 'events' | 'database'>,
  { satellite, service }: WiredPart,
): void {
  for (const listener of satellite.listeners ?? []) {
    if ('type' in listener) {
      events.subscribe(listener.type, listener.when, (event) => listener.handle(service, event))
      continue
    }
    for (const type of events.types.filter(({ isInternal }) => !isInternal)) {
      events.subscribe(type, listener.when, (event) => listener.handleAny(service, type, event))
    }
  }
  const { tenantTables = [] } = satellite
  if (tenantTables.length === 0) return
  events.subscribe(tenantEvents.TenantPurged, 'within', async ({ tenantId }) => {
    for (const table of tenantTables) {
      await database.sql(`delete from ${SCHEMA}.${table} where tenant_id = $1`, [tenantId])
    }
  })
}

/** Every job with its service. */
export function registeredJobs(parts: readonly WiredPart[]): RegisteredJobs {
  const all = parts.flatMap(({ satellite, service }) => (satellite.jobs ?? []).map((job) => ({ job, service })))
  const handlers = all.map(
    ({ job, service }) =>
      [job.type.name, (data: unknown, attempt: Attempt) => job.handle(service, data, attempt)] as const,
  )
  return {
    types: all.map(({ job }) => job.type),
    handlers: new Map(handlers),
    schedule: parts.flatMap(({ satellite }) => satellite.schedule ?? []),
  }
}

/** Checks of satellites, by name. */
export const checksOf = (parts: readonly WiredPart[]): ReadonlyMap<string, Check> =>
  new Map(
    parts.flatMap(({ satellite, service }) =>
      Object.entries(satellite.checks ?? {}).map(([name, check]) => [name, () => check(service)] as const),
    ),
  )

/** Undefined when none of them wants to know of it. */
export const trafficOf = (parts: readonly WiredPart[]): Traffic | undefined =>
  trafficTo(parts.flatMap(({ satellite, service }) => satellite.traffic?.(service) ?? []))

/** An operation or command with the service it belongs to. */
export interface Wired<What> {
  readonly what: What
  readonly service: unknown
}

export const wire = <What>(all: readonly What[] = [], service: unknown): Wired<What>[] =>
  all.map((what) => ({ what, service }))

/** Members of a tenancy, and the parts whose migrations are ours. */
const TAKEN = [
  'kernel',
  'store',
  'tenants',
  'health',
  'doctor',
  'series',
  'operations',
  'commands',
  'receivers',
  'checks',
  'tenant',
  'run',
  'current',
  'guard',
  'transaction',
  'on',
  'stop',
]

/** Throws when two have one name, or one has that of a part of every tenancy. */
export function assertUniqueNames(satellites: readonly Satellite[]): void {
  const names = satellites.map(({ name }) => name)
  const taken = names.find((name) => TAKEN.includes(name))
  if (taken) throw new Error(`a satellite cannot be named "${taken}": that is a part of every tenancy`)
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated) throw new Error(`the satellite "${repeated}" is given twice`)
}
