/** Lists all declarations without a running service: the source of OpenAPI, the reference and schema.sql. */

import { postgresStore } from '../drivers/store/postgres.ts'
import { DEFAULT_PREFIX } from '../http/app.ts'
import { openApiDocument } from '../http/openapi.ts'
import type { ErrorType } from '../kernel/base/errors.ts'
import type { Migration } from '../kernel/database/migrations.ts'
import type { EncryptedColumn } from '../kernel/database/re-encrypt.ts'
import type { EventType } from '../kernel/events/events.ts'
import type { JobType } from '../kernel/jobs/jobs.ts'
import { eventsOf, tablesOf } from '../tenancy/composition.ts'
import { operationsOf, partsOf } from '../tenancy/parts.ts'
import type { AnyOperation, Satellite } from '../tenancy/satellite.ts'

export interface Catalogue {
  readonly operations: readonly AnyOperation[]
  /** Errors of satellites' services, in addition to the errors of operations. */
  readonly errors: readonly ErrorType[]
  readonly events: readonly EventType[]
  readonly jobs: readonly JobType[]
  readonly encryptedColumns: readonly EncryptedColumn[]
  readonly tables: readonly { readonly part: string; readonly migrations: readonly Migration[] }[]
}

export function catalogueOf(satellites: readonly Satellite[]): Catalogue {
  const parts = partsOf(postgresStore(), satellites)
  return {
    operations: operationsOf(parts),
    errors: parts.flatMap(({ errors = [] }) => errors),
    events: eventsOf(parts),
    jobs: parts.flatMap(({ jobs = [] }) => jobs).map(({ type }) => type),
    encryptedColumns: parts.flatMap(({ encryptedColumns = [] }) => encryptedColumns),
    tables: tablesOf(parts),
  }
}

export const openApiOf = ({ operations }: Catalogue): object => openApiDocument(operations, DEFAULT_PREFIX)
