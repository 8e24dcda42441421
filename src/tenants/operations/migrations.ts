/** Operations on the host's migrations: versions of tenants, and migrations of one. */
import { z } from 'zod'
import { MigrationRun, MigrationVersion, TenantMigration, toRunResource } from '../migrations/resources.ts'
import type { VersionSummary } from '../migrations/status.ts'
import { operation } from '../part.ts'
import { TenantNotFound } from '../tenant/errors.ts'
import { migrationRunOperations } from './migration-runs.ts'
import { byId } from './tenant-reads.ts'

const MigrationStatus = z.object({
  versions: z.array(MigrationVersion).meta({ description: 'The most frequent first' }),
  lastRun: MigrationRun.nullable(),
})
export type MigrationStatus = z.output<typeof MigrationStatus>

const MigrationsOfTenant = z.object({ data: z.array(TenantMigration) })
export type MigrationsOfTenant = z.output<typeof MigrationsOfTenant>

const toVersion = ({ pending, unknown, edited, ...one }: VersionSummary): z.output<typeof MigrationVersion> => ({
  ...one,
  pending: [...pending],
  unknown: [...unknown],
  edited: [...edited],
})

export const getMigrationStatus = operation({
  name: 'migrations.status',
  method: 'GET',
  path: '/migrations',
  summary: 'Count tenants by the migrations that were run for them, and read the last run',
  description:
    'Compares the recorded versions of active and suspended tenants with the migrations of the process that responds. The storages are ' +
    'not queried.',
  reply: MigrationStatus,
  handle: async ({ migrations }) => {
    const { versions, lastRun } = await migrations.status.summary()
    return { versions: versions.map(toVersion), lastRun: lastRun && toRunResource(lastRun) }
  },
})

export const listMigrations = operation({
  name: 'migrations.list',
  method: 'GET',
  path: '/tenants/{id}/migrations',
  summary: 'List the migrations of one tenant, with their states',
  description: 'In the order in which they run. The list has no pages.',
  params: byId,
  query: z.strictObject({
    verify: z
      .enum(['true', 'false'])
      .default('false')
      .meta({ description: "Queries the tenant's storage; otherwise only if its version is unknown" }),
  }),
  reply: MigrationsOfTenant,
  errors: [TenantNotFound],
  handle: async ({ migrations }, { params, query }) => {
    const states = await migrations.status.ofTenant(params.id, { verify: query.verify === 'true' })
    return { data: states.map((one) => ({ ...one })) }
  },
})

export const migrationOperations = [getMigrationStatus, listMigrations, ...migrationRunOperations]
