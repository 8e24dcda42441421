/**
 * A satellite is a name, what it owns (tables), what it says (events), what it can do (one service), and every way to reach
 * that service. All of it is plain data, or a function whose first argument is the service.
 *
 * Its life: 1. it is declared: nothing runs, yet OpenAPI and help can be made. 2. its tables are migrated. 3. its service is
 * made from the kernel. 4. its listeners hear events, its operations and commands can be called. 5. its jobs and schedule run,
 * and what it does by itself (in a worker). 6. it is stopped, after its jobs.
 */
import type { Command } from './kernel/commands.ts'
import type { Diagnosis } from './kernel/doctor.ts'
import type { ErrorType } from './kernel/errors.ts'
import type { EventType, Listener, WideListener } from './kernel/events.ts'
import type { Job, QueueCounts, Recurring } from './kernel/jobs.ts'
import type { Kernel } from './kernel/kernel.ts'
import type { Series } from './kernel/metrics.ts'
import type { Migration } from './kernel/migrations.ts'
import type { Operation } from './kernel/operation.ts'
import type { SealedColumn } from './kernel/resealing.ts'
import type { Tenants } from './tenants/index.ts'
import type { Traffic } from './tenants/traffic.ts'

type Awaitable<T> = T | Promise<T>

export type AnyOperation<Service = any> = Operation<Service, any, any, any, any>

export interface Satellite<Name extends string = string, Service = any> {
  /** camelCase: `tenancy.auditLogs`. */
  readonly name: Name
  readonly summary: string
  readonly tables?: readonly Migration[]
  readonly events?: readonly EventType[]
  /** Where it keeps secrets, for when the application key changes. */
  readonly sealed?: readonly SealedColumn[]
  /** @param tenants who there is, and which plan each has */
  readonly service: (kernel: Kernel, tenants: Tenants) => Service
  readonly operations?: readonly AnyOperation<Service>[]
  /** What its service throws to a host, beside the errors of its operations. */
  readonly errors?: readonly ErrorType[]
  readonly listeners?: readonly (Listener<Service> | WideListener<Service>)[]
  readonly jobs?: readonly Job<Service>[]
  readonly schedule?: readonly Recurring[]
  /** Begins what it does by itself where jobs are worked on; `stop` ends it. */
  readonly work?: (service: Service) => Awaitable<void>
  /** Queues of its own, of one tenant or of all, counted beside those of jobs. */
  readonly queues?: (service: Service, tenantId?: string) => Promise<QueueCounts[]>
  readonly commands?: readonly Command<Service>[]
  readonly checks?: Readonly<Record<string, (service: Service) => unknown>>
  /** What the doctor examines of it. */
  readonly doctor?: readonly Diagnosis<Service>[]
  readonly metrics?: (service: Service) => readonly Series[]
  /** Is told of the requests that guards have let through with a tenant. */
  readonly traffic?: (service: Service) => Traffic
  readonly stop?: (service: Service) => Awaitable<void>
}

/** Declares a satellite; the compiler learns its name and the type of its service. */
export const defineSatellite = <const Name extends string, Service>(
  satellite: Satellite<Name, Service>,
): Satellite<Name, Service> => satellite

/** The services of a list of satellites, by name. */
export type ServicesOf<Satellites extends readonly Satellite[]> = {
  readonly [One in Satellites[number] as One['name']]: ReturnType<One['service']>
}
