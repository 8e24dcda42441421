/**
 * A satellite is a name, what it owns (tables), what it says (events), what it can do (one service), and every way to reach
 * that service. All of it is plain data, or a function whose first argument is the service.
 *
 * Its life: 1. it is declared: nothing runs, yet OpenAPI and help can be made. 2. its tables are migrated. 3. its service is
 * made from the kernel. 4. its listeners hear events, its operations and commands can be called. 5. its jobs and schedule run,
 * and what it does by itself (in a worker). 6. it is stopped, after its jobs.
 */
import type { Command } from '../kernel/api/commands.ts'
import type { AnyOperation } from '../kernel/api/operation.ts'
import { commandsOf } from '../kernel/api/projection.ts'
import type { ErrorType } from '../kernel/base/errors.ts'
import type { Migration } from '../kernel/database/migrations.ts'
import type { EncryptedColumn } from '../kernel/database/re-encrypt.ts'
import type { Diagnosis } from '../kernel/doctor/doctor.ts'
import type { EventType, Listener, WideListener } from '../kernel/events/events.ts'
import type { Job, QueueCounts, Recurring } from '../kernel/jobs/jobs.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { Series } from '../kernel/metrics/metrics.ts'
import type { Check } from '../kernel/resilience/health.ts'
import type { Traffic } from '../tenants/guard/traffic-listener.ts'
import type { Tenants } from '../tenants/tenants.ts'

type Awaitable<T> = T | Promise<T>

/** A request of another system, on its way in: nobody has signed in. */
export interface Received {
  readonly headers: Headers
  /** Of the connection; null where the host does not tell. */
  readonly ip: string | null
  /** As it was sent; a 413 when it is more than 1 MiB. */
  body(): Promise<Uint8Array>
}

/** A path of its own, outside of the admin API, to which another system posts. */
export interface Receiver<Service = any> {
  /** `/webhooks/stripe`; guards of the host's routes let it through. */
  readonly path: string
  /** Answered as JSON with 200; what it throws, as a problem. */
  readonly receive: (service: Service, request: Received) => Promise<unknown>
}

export interface Satellite<Name extends string = string, Service = any> {
  /** camelCase: `tenancy.auditLogs`. */
  readonly name: Name
  readonly summary: string
  readonly tables?: readonly Migration[]
  /** Tables whose rows of a tenant a purge deletes, in this order, after the listeners within. Each has a column `tenant_id`. */
  readonly tenantTables?: readonly string[]
  readonly events?: readonly EventType[]
  /** Where it keeps secrets, for when the application key changes. */
  readonly encryptedColumns?: readonly EncryptedColumn[]
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
  /** Where other systems post to; http/receivers.ts serves them. */
  readonly receivers?: readonly Receiver<Service>[]
  /** In addition to the commands of operations. */
  readonly commands?: readonly Command<Service>[]
  /** Health checks; the ready-made service registers them, a host those that it wants. */
  readonly checks?: Readonly<Record<string, (service: Service) => ReturnType<Check>>>
  /** What the doctor examines of it. */
  readonly doctor?: readonly Diagnosis<Service>[]
  readonly metrics?: (service: Service) => readonly Series[]
  /** Is told of the requests that guards have let through with a tenant. */
  readonly traffic?: (service: Service) => Traffic
  readonly stop?: (service: Service) => Awaitable<void>
}

/**
 * Declares a satellite; the compiler learns its name and the type of its service. Commands of operations precede `commands`, unless
 * `commands` contains them at another position.
 */
export function defineSatellite<const Name extends string, Service>(
  satellite: Satellite<Name, Service>,
): Satellite<Name, Service> {
  const { operations = [], commands = [] } = satellite
  const projected = commandsOf(operations).filter(({ name }) => !commands.some((one) => one.name === name))
  return { ...satellite, commands: [...projected, ...commands] }
}

/** The services of a list of satellites, by name. */
export type ServicesOf<Satellites extends readonly Satellite[]> = {
  readonly [One in Satellites[number] as One['name']]: ReturnType<One['service']>
}
