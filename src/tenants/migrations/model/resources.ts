/** Migrations and their runs in the admin API. */
import { z } from 'zod'

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
    state: z
      .enum(['running', 'completed', 'failed', 'cancelled'])
      .meta({ description: '`failed`: at least one storage has failed' }),
    pending: count('Storages that were not started'),
    running: count('Storages in progress'),
    done: count('Migrated storages'),
    failed: count('Storages whose migration failed'),
    skipped: count('Storages that the run left out, because it ended early or their tenant was deleted'),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: 'MigrationRun' })

export const TenantMigration = z
  .object({
    migration: z.string().meta({ example: '0001_projects' }),
    state: z.enum(['applied', 'pending', 'unknown', 'edited']).meta({
      description: '`unknown`: run, but missing in the process that responds. `edited`: changed after it was run',
    }),
  })
  .meta({ id: 'TenantMigration' })
