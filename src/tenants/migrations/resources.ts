/** Migrations and their runs in the admin API. */
import { z } from 'zod'
import type { MigrationItemRow } from '../tenant/tables.ts'
import { TenantId } from '../tenant/tenant.ts'
import { type CountedRun, ITEM_STATES, isVerified } from './model/run.ts'

const names = (description: string) => z.array(z.string()).meta({ description })
const count = (description: string) => z.int().meta({ description })

export const MigrationVersion = z
  .object({
    last: z
      .string()
      .nullable()
      .meta({ description: 'The last migration of these tenants; null if there is none, or if it is unknown' }),
    isKnown: z
      .boolean()
      .meta({ description: 'Whether the migrations of these tenants are known without a query of their storage' }),
    tenants: count('Number of active and suspended tenants with these migrations'),
    failed: count('Tenants of them whose storage failed in its last run or rollback'),
    pending: names('Migrations of the process that responds, not run for these tenants'),
    unknown: names('Run for these tenants, and missing in the process that responds'),
    edited: names('Changed after they were run'),
  })
  .meta({ id: 'MigrationVersion' })

export const MigrationRun = z
  .object({
    id: z.uuid(),
    direction: z.enum(['up', 'down']).meta({ description: '`down`: a rollback' }),
    steps: z.int().nullable().meta({ description: 'Number of migrations that a rollback reverts; otherwise null' }),
    state: z
      .enum(['running', 'completed', 'failed', 'cancelled'])
      .meta({ description: '`failed`: at least one storage has failed' }),
    isCancelled: z.boolean().meta({ description: 'Whether it was cancelled; it ends after the storages in progress' }),
    isBackground: z
      .boolean()
      .meta({ description: 'Whether workers carry it out; otherwise the process of a command or of the host' }),
    isVerified: z.boolean().meta({ description: 'Whether it queries every storage' }),
    startedBy: z.string().nullable().meta({ description: 'Name of the actor; null if it is unknown' }),
    total: count('Number of storages. Tenants with shared tables have one storage for each placement'),
    pending: count('Not started'),
    running: count('In progress'),
    done: count('Migrated'),
    failed: count('Failed'),
    skipped: count('Left out, because the run has ended early, or because the tenant was deleted'),
    stopAfterFailures: z.int().nullable().meta({ description: 'Number of failures that ends it; null if none does' }),
    isStopped: z.boolean().meta({ description: 'Whether this number of failures has ended it' }),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: 'MigrationRun' })
export type MigrationRunResource = z.output<typeof MigrationRun>

export const MigrationItem = z
  .object({
    tenantId: z.string().nullable().meta({ description: 'Null for tables that several tenants share' }),
    isolation: z.string(),
    placement: z.string(),
    state: z.enum(ITEM_STATES),
    migrations: names('Migrations that were run or rolled back'),
    attempts: z.int(),
    durationMs: z.int().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'MigrationItem' })
export type MigrationItemResource = z.output<typeof MigrationItem>

export const StartRequest = z.strictObject({
  tenantIds: z
    .array(TenantId)
    .min(1)
    .max(10_000)
    .optional()
    .meta({ description: 'Ids of tenants; absent: all active and suspended tenants' }),
  verify: z
    .boolean()
    .default(false)
    .meta({ description: 'Queries every storage, also those that are recorded as up to date' }),
  retries: z
    .int()
    .min(0)
    .max(100)
    .default(3)
    .meta({ description: 'Further attempts for a storage with a locked table or an unavailable server' }),
  lockTimeoutMs: z
    .int()
    .min(1)
    .max(86_400_000)
    .default(10_000)
    .meta({ description: 'Maximum wait of a statement for a lock' }),
  stopAfterFailures: z
    .int()
    .min(1)
    .optional()
    .meta({ description: 'Number of failures that ends the run; default: 1 % of the storages, at least 10' }),
})
export type StartRequest = z.input<typeof StartRequest>

export function toRunResource(run: CountedRun): MigrationRunResource {
  const { id, direction, steps, state, isCancelled, isBackground, actor, stopAfterFailures } = run
  const { pending, running, done, failed, skipped, createdAt, finishedAt } = run
  return {
    id,
    direction,
    steps,
    state,
    isCancelled,
    isBackground,
    isVerified: isVerified(run),
    startedBy: actor?.name ?? null,
    total: pending + running + done + failed + skipped,
    pending,
    running,
    done,
    failed,
    skipped,
    stopAfterFailures,
    isStopped: stopAfterFailures !== null && failed >= stopAfterFailures && skipped > 0,
    createdAt: createdAt.toISOString(),
    finishedAt: finishedAt?.toISOString() ?? null,
  }
}

export function toItemResource(row: MigrationItemRow): MigrationItemResource {
  const { tenantId, isolation, placement, state, migrations, attempts, durationMs, errorCode, errorMessage } = row
  return {
    tenantId,
    isolation,
    placement,
    state,
    migrations: migrations ?? [],
    attempts,
    durationMs,
    error: errorCode === null ? null : { code: errorCode, message: errorMessage ?? '' },
  }
}

export const TenantMigration = z
  .object({
    migration: z.string().meta({ example: '0001_projects' }),
    state: z.enum(['applied', 'pending', 'unknown', 'edited']).meta({
      description: '`unknown`: run, but missing in the process that responds. `edited`: changed after it was run',
    }),
  })
  .meta({ id: 'TenantMigration' })
