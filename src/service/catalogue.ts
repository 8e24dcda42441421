/** Lists all declarations without a running service: the source of OpenAPI, the reference and schema.sql. */

import { postgresStore } from '../drivers/store/postgres.ts'
import { DEFAULT_PREFIX } from '../http/app.ts'
import { openApiDocument } from '../http/openapi.ts'
import { systemOperations } from '../http/system-operations.ts'
import type { ErrorType } from '../kernel/base/errors.ts'
import type { Migration } from '../kernel/database/migrations.ts'
import type { EventType } from '../kernel/events/events.ts'
import type { JobType } from '../kernel/jobs/jobs.ts'
import { eventsOf, partsOf } from '../tenancy/composition.ts'
import type { AnyOperation, Satellite } from '../tenancy/satellite.ts'
import { jobs } from '../tenants/jobs.ts'
import { operations as tenantOperations } from '../tenants/operations/tenants.ts'

export interface Catalogue {
  readonly operations: readonly AnyOperation[]
  /** Errors of satellites' services, in addition to the errors of operations. */
  readonly errors: readonly ErrorType[]
  readonly events: readonly EventType[]
  readonly jobs: readonly JobType[]
  readonly tables: readonly { readonly part: string; readonly migrations: readonly Migration[] }[]
}

export const catalogueOf = (satellites: readonly Satellite[]): Catalogue => ({
  operations: [...tenantOperations, ...satellites.flatMap(({ operations = [] }) => operations), ...systemOperations],
  errors: satellites.flatMap(({ errors = [] }) => errors),
  events: eventsOf(satellites),
  jobs: [...jobs, ...satellites.flatMap(({ jobs = [] }) => jobs)].map(({ type }) => type),
  tables: partsOf(postgresStore(), satellites),
})

export const openApiOf = ({ operations }: Catalogue): object => openApiDocument(operations, DEFAULT_PREFIX)
