/**
 * Creates due backups and removes expired ones, for all tenants. Safe in several processes: the database admits one
 * backup per tenant at a time, and removals are idempotent.
 */

import { installedTenants } from '../../registry/installed.ts'
import type { Plans, ResolvedPlan } from '../../registry/plans.ts'
import { lockTenant } from '../../registry/tenant-assertions.ts'
import { TenantNotFound, TenantState } from '../../tenant/errors.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import { toTenant } from '../../tenant/tenant.ts'
import type { TransferDependencies } from '../kinds/dependencies.ts'
import { BackupNotFound, TransferInProgress } from '../requests/errors.ts'
import type { BackupSettings, Backups } from './backups.ts'
import { expired, isDue, type Retention, type ScheduledBackup } from './retention.ts'

export interface DueStep {
  readonly tenantId: string
  readonly what: 'make' | 'remove'
  /** The backup to remove. */
  readonly backupId: string | null
  /** The rule that causes the step. */
  readonly retention: Retention
}

export interface BackupRunDependencies {
  readonly dependencies: TransferDependencies
  readonly plans: Plans
  readonly backups: Backups
  readonly settings: BackupSettings
}

/** Yields due steps, tenant by tenant. No new backups on drivers without copies. */
export async function* due({ dependencies, plans, settings }: BackupRunDependencies): AsyncIterable<DueStep> {
  const { clock, database } = dependencies.kernel
  const { storage } = dependencies
  for await (const rows of installedTenants(database)) {
    const scheduled = await scheduledOf(
      dependencies,
      rows.map(({ id }) => id),
    )
    for (const row of rows) {
      const of = scheduled.get(row.id) ?? []
      const retention = retentionOf(settings, (await plans.resolve(toTenant(row))).backups)
      const canCopy = storage.supportsCopies(row.isolation)
      if (canCopy && isDue(retention, of, clock.now()))
        yield { tenantId: row.id, what: 'make', backupId: null, retention }
      for (const backupId of expired(retention, of)) {
        yield { tenantId: row.id, what: 'remove', backupId, retention }
      }
    }
  }
}

/** Returns undefined if another process has done the step, or the tenant has changed. */
export async function runDueStep(run: BackupRunDependencies, step: DueStep): Promise<string | undefined> {
  const { tenantId, what, backupId } = step
  try {
    if (what === 'make') return await make(run, step)
    await run.backups.delete(tenantId, backupId ?? '')
    return backupId ?? undefined
  } catch (error) {
    const isDone = [TransferInProgress, BackupNotFound, TenantState, TenantNotFound].some((one) => one.matches(error))
    if (!isDone) throw error
    return undefined
  }
}

/** Checks again with the tenant's row locked: another process may have been faster. */
async function make(
  { dependencies, backups }: BackupRunDependencies,
  { tenantId, retention }: DueStep,
): Promise<string | undefined> {
  const { database, clock } = dependencies.kernel
  return database.transaction(async () => {
    await lockTenant(database, tenantId)
    const of = await scheduledOf(dependencies, [tenantId])
    if (!isDue(retention, of.get(tenantId) ?? [], clock.now())) return undefined
    return (await backups.create(tenantId, {}, true)).id
  })
}

/** The plan's values take precedence over the settings. */
export const retentionOf = (settings: BackupSettings, ofPlan: ResolvedPlan['backups'] = {}): Retention => ({
  keep: ofPlan.keep ?? settings.keep,
  everyHours: ofPlan.everyHours === false ? undefined : (ofPlan.everyHours ?? settings.everyHours),
})

async function scheduledOf(
  { kernel }: TransferDependencies,
  tenantIds: readonly string[],
): Promise<Map<string, ScheduledBackup[]>> {
  if (tenantIds.length === 0) return new Map()
  const rows = await kernel.database
    .query<TenantTables>()
    .selectFrom('backups')
    .innerJoin('transfers', 'transfers.id', 'backups.id')
    .select(['backups.id', 'backups.tenantId', 'backups.createdAt', 'transfers.state'])
    .where('backups.tenantId', 'in', tenantIds)
    .where('backups.isScheduled', '=', true)
    .where('backups.deletedAt', 'is', null)
    .orderBy('backups.createdAt', 'desc')
    .orderBy('backups.id', 'desc')
    .execute()
  return Map.groupBy(rows, ({ tenantId }) => tenantId)
}
