/** Runs of the host's migrations as a part of a tenancy. */
import { handles } from '../../kernel/jobs/jobs.ts'
import { cachedGauges, SMALL_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import { RecoverMigrationRuns, WorkMigrationRun } from './job-types.ts'
import { MigrationRuns } from './runs.ts'
import { SchemaVersions } from './schema-versions.ts'

interface Dependencies {
  readonly configuration: { readonly migrations: readonly TenantMigration[] }
  readonly storage: Storage
  readonly tableChanges: TableChanges
}

export const migrationsPart: Part<'migrations', MigrationRuns, Dependencies> = {
  name: 'migrations',
  tenantTables: ['migration_items'],
  service: (kernel, { configuration, storage, tableChanges }) =>
    new MigrationRuns(kernel, storage, new SchemaVersions(kernel.database, configuration.migrations), tableChanges),
  jobs: [
    handles(WorkMigrationRun, ({ background }: MigrationRuns, { runId }, attempt) => background.work(runId, attempt)),
    handles(RecoverMigrationRuns, ({ background }: MigrationRuns) => background.recover()),
  ],
  schedule: [{ type: RecoverMigrationRuns, cron: '* * * * *' }],
  metrics: ({ status }) =>
    cachedGauges(
      () => status.pendingTenants(),
      [
        {
          name: 'multitenancy_migration_pending_tenants',
          help: 'Active and suspended tenants without some of the migrations of this process',
          samples: (value) => [{ value }],
        },
      ],
      { maxShare: SMALL_SHARE },
    ),
}
