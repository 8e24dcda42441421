/** Selects the storages of a run by their versions in the backoffice. */
import type { Database } from '../../kernel/database/database.ts'
import { TenantState, tenantNotFound } from '../tenant/errors.ts'
import { type AppliedMigration, versionOf } from '../tenant/schema-version.ts'
import type { Direction, MigrationItem } from './model/run.ts'

/** A tenant and the values that decide whether a run includes it. */
export interface Candidate {
  readonly id: string
  readonly isolation: string
  readonly placement: string
  readonly locator: string
  readonly epoch: number
  readonly version: string
}

export interface Selection {
  readonly direction: Direction
  /** Absent: all active and suspended tenants. */
  readonly ids?: readonly string[] | undefined
  /** Includes storages with an up-to-date version. */
  readonly verify: boolean
}

/** `E_TENANT_NOT_FOUND`, or `E_TENANT_STATE` for a tenant that is neither active nor suspended. */
export async function assertMigratable(database: Database, ids: readonly string[]): Promise<void> {
  const { rows } = await database.sql(
    'select id, status from multitenancy.tenants where id = any ($1) and purged_at is null',
    [ids],
  )
  const statuses = new Map<string, string>(rows.map(({ id, status }) => [id, status]))
  for (const id of ids) {
    const status = statuses.get(id)
    if (!status) throw tenantNotFound(id)
    if (status === 'active' || status === 'suspended') continue
    throw TenantState(`The tenant "${id}" is ${status}; only active and suspended ones are migrated.`, {
      extras: { from: status },
    })
  }
}

/**
 * The `where` clause of a query of `tenants`, and its values. Migrations exclude tenants whose version contains the whole folder
 * unchanged. Rollbacks exclude tenants without migrations.
 */
function condition(
  { direction, ids, verify }: Selection,
  folder: readonly AppliedMigration[],
): { where: string; values: unknown[] } {
  const values: unknown[] = [
    ids ?? null,
    versionOf(direction === 'up' ? folder : []),
    JSON.stringify(direction === 'up' ? folder : []),
  ]
  const chosen = `tenant.status in ('active', 'suspended') and ($1::text[] is null or tenant.id = any ($1))`
  const isOther = '(tenant.schema_version < $2 or tenant.schema_version > $2)' // <> would use no index
  const isAhead = `exists (select from multitenancy.schema_versions
    where version = tenant.schema_version and migrations @> $3::jsonb)`
  if (verify) return { where: `${chosen} and $2::text is not null and $3::jsonb is not null`, values }
  if (direction === 'down') return { where: `${chosen} and ${isOther} and $3::jsonb is not null`, values }
  return { where: `${chosen} and ${isOther} and not ${isAhead}`, values }
}

export async function hasCandidates(
  database: Database,
  selection: Selection,
  folder: readonly AppliedMigration[],
): Promise<boolean> {
  const { where, values } = condition(selection, folder)
  const { rows } = await database.sql(
    `select exists (select from multitenancy.tenants tenant where ${where}) as some`,
    values,
  )
  return rows[0].some
}

export async function candidates(
  database: Database,
  selection: Selection,
  folder: readonly AppliedMigration[],
): Promise<Candidate[]> {
  const { where, values } = condition(selection, folder)
  const { rows } = await database.sql(
    `select id, isolation, placement, locator, epoch, schema_version as version
     from multitenancy.tenants tenant where ${where} order by id`,
    values,
  )
  return rows
}

/** Adds one item for each storage. Returns their number. @param sharing names of drivers with shared storage */
export async function addItems(
  database: Database,
  runId: string,
  selection: Selection,
  folder: readonly AppliedMigration[],
  sharing: readonly string[],
): Promise<number> {
  const { where, values } = condition(selection, folder)
  const { rows } = await database.sql(
    `with added as (
       insert into multitenancy.migration_items (run_id, storage, tenant_id, isolation, placement)
       select distinct $4::uuid,
         case when isolation = any ($5) then isolation || '/' || placement else id end,
         case when isolation = any ($5) then null else id end, isolation, placement
       from multitenancy.tenants tenant where ${where}
       returning storage)
     select count(*) as count from added`,
    [...values, runId, sharing],
  )
  return rows[0].count
}

/** Names of the drivers of all tenants. */
export async function isolationsInUse(database: Database): Promise<string[]> {
  const { rows } = await database.sql('select distinct isolation from multitenancy.tenants where purged_at is null')
  return rows.map(({ isolation }) => isolation)
}

/** The name of an item in output. */
export const nameOf = ({
  tenantId,
  isolation,
  placement,
}: Pick<MigrationItem, 'tenantId' | 'isolation' | 'placement'>) => tenantId ?? `${isolation}/${placement}`
