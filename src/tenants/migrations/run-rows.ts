/** Reads rows of migration runs, with the number of their storages by state. */
import { sql } from 'kysely'
import type { Database } from '../../kernel/database/database.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { type CountedRun, type Counts, type MigrationRun, NO_COUNTS } from './model/run.ts'

interface Counted {
  readonly counted: Partial<Counts>
}

/** A run has its counts since its end, because a purge deletes items. */
const COUNTED = sql<Partial<Counts>>`coalesce(counts, (
  select jsonb_object_agg(state, count) from (
    select item.state, count(*) from multitenancy.migration_items item where item.run_id = migration_runs.id group by item.state
  ) by_state), '{}')`

export const countedRuns = (database: Database) =>
  database.query<TenantTables>().selectFrom('migrationRuns').selectAll().select(COUNTED.as('counted'))

export const withCounts = ({ counted, ...run }: MigrationRun & Counted): CountedRun => ({
  ...run,
  ...NO_COUNTS,
  ...counted,
})
