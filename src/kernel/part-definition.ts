/**
 * A part of a tenancy: a name, what it stores, one service, and every way to reach that service. All of it is data, or a function
 * whose first argument is the service.
 *
 *   declared ──► tables migrated ──► service made ──► started ──► jobs run, work begins ──► stopped, in reverse order
 */
import type { Command } from './api/commands.ts'
import type { AnyOperation } from './api/operation.ts'
import type { Traffic } from './api/traffic.ts'
import type { ErrorType } from './base/errors.ts'
import type { Migration } from './database/migrations.ts'
import type { EncryptedColumn } from './database/re-encrypt.ts'
import type { Diagnosis } from './doctor/doctor.ts'
import type { Erasable } from './erasable.ts'
import type { EventType, Listener, WideListener } from './events/events.ts'
import type { Job, QueueCounts, Recurring } from './jobs/jobs.ts'
import type { Kernel } from './kernel.ts'
import type { Series } from './metrics/metrics.ts'
import type { OutboxKind } from './outbox/kinds.ts'
import type { Check } from './resilience/health.ts'
import type { Contributions } from './shares/contributions.ts'

/** Maximum time that `stop` waits for jobs and other work in progress. */
export const STOP_TIMEOUT_MS = 10_000

type Awaitable<T> = T | Promise<T>

/** A request of another system, without authentication. */
export interface Received {
  readonly headers: Headers
  /** Of the connection; null where the host does not provide it. */
  readonly ip: string | null
  /** The bytes as sent; a 413 if there are more than 1 MiB. */
  body(): Promise<Uint8Array>
}

/** A path outside of the admin API, to which another system posts. */
export interface Receiver<Service = any> {
  /** `/webhooks/stripe`; guards of the host's routes ignore it. */
  readonly path: string
  /** The result is sent as JSON with 200, an error as a problem. */
  readonly receive: (service: Service, request: Received) => Promise<unknown>
}

/** @typeParam Dependencies configuration and services: those of earlier parts for `service`, of all parts for `start` */
export interface Part<Name extends string = string, Service = any, Dependencies = any> extends Contributions<Service> {
  readonly name: Name
  readonly tables?: readonly Migration[]
  /** Tables whose rows of a tenant a purge deletes, in this order, after the part's own listeners. Each has a column `tenant_id`. */
  readonly tenantTables?: readonly string[]
  /** Data of tenants outside of `tenantTables`, for an erasure. */
  readonly erase?: Erasable<Service>
  readonly events?: readonly EventType[]
  /** Columns with encrypted values, for a change of the application key. */
  readonly encryptedColumns?: readonly EncryptedColumn[]
  readonly service: (kernel: Kernel, dependencies: Dependencies) => Service
  /** Runs when all services are made and all listeners are subscribed, before the jobs. */
  readonly start?: (service: Service, kernel: Kernel, dependencies: Dependencies) => Awaitable<void>
  readonly operations?: readonly AnyOperation<Service>[]
  /** Errors that the service throws to a host, in addition to those of its operations. */
  readonly errors?: readonly ErrorType[]
  readonly listeners?: readonly (Listener<Service> | WideListener<Service>)[]
  /** Entries that calls inside a tenant's transaction post; they are applied after its commit. */
  readonly outbox?: readonly OutboxKind<Service>[]
  readonly jobs?: readonly Job<Service>[]
  readonly schedule?: readonly Recurring[]
  /** Begins background work in processes that work on jobs; `stop` ends it. */
  readonly work?: (service: Service) => Awaitable<void>
  /** Queues of one tenant or of all, counted in addition to those of jobs. */
  readonly queues?: (service: Service, tenantId?: string) => Promise<QueueCounts[]>
  /** Paths for other systems; http/receivers.ts serves them. */
  readonly receivers?: readonly Receiver<Service>[]
  readonly commands?: readonly Command<Service>[]
  /** Health checks by name. Those of satellites are registered by the ready-made service, or by a host. */
  readonly checks?: Readonly<Record<string, (service: Service) => ReturnType<Check>>>
  readonly doctor?: readonly Diagnosis<Service>[]
  readonly metrics?: (service: Service) => readonly Series[]
  /** Receives the requests that guards admit with a tenant. */
  readonly traffic?: (service: Service) => Traffic
  /** File of its console module: `new URL('./console/index.tsx', import.meta.url)`; of a host's satellite a JavaScript module. */
  readonly console?: URL
  /** Also runs for a part that was not started, because an earlier one failed to start. */
  readonly stop?: (service: Service) => unknown
}
