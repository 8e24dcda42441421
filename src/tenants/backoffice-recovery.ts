/**
 * Reconciles a backoffice that was restored from a dump. Tenants may have moved since, and storage that it considers in
 * creation, former or to be purged may have the newest rows of a tenant. So it drops nothing that was due to be
 * dropped, and keeps tenants with closed storage in maintenance until an operator has checked them.
 */
import { z } from 'zod'
import { recordChange } from '../kernel/events/changes.ts'
import { event } from '../kernel/events/events.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { StorageReconciliation } from './lifecycle/storage-reconciliation.ts'
import type { Outbox } from './outbox/outbox.ts'

/** More than the epochs given to a tenant since the dump. */
const EPOCHS_SKIPPED = 1_000
const MESSAGE = 'The tenant is in maintenance.'

/** In its transaction, satellites reconcile their data with external systems. */
export const BackofficeRestored = event('BackofficeRestored', 'The backoffice was restored from a dump', z.object({}), {
  isInternal: true,
})

export interface BackofficeRestore {
  /** Ids of tenants that may have other storage by now: they are in maintenance. */
  readonly kept: readonly string[]
  /** Number of cancelled transfers. */
  readonly transfers: number
  /** Number of storage locations other than those of tenants; their storage is left unchanged from now on. */
  readonly places: number
  /** Number of deleted tenants whose retention starts again. */
  readonly purges: number
}

/** The functions of tenants that the reconciliation needs; `Tenants` implements it. */
interface RestoredTenants {
  readonly reconciliation: Pick<StorageReconciliation, 'drivers' | 'placements' | 'mismatches'>
  readonly outbox: Pick<Outbox, 'markAll'>
  readonly transfers: { cancelUnderWay(): Promise<number> }
  enterMaintenance(id: string, options: { readonly message: string }): Promise<unknown>
}

/** Call it before any process serves or works. Throws without changes if a server is unavailable. Safe to repeat. */
export async function reconcileAfterRestore(
  { database, events, clock }: Pick<Kernel, 'database' | 'events' | 'clock'>,
  tenants: RestoredTenants,
  retentionMs: number,
): Promise<BackofficeRestore> {
  const kept = new Set<string>()
  for (const driver of tenants.reconciliation.drivers.filter((one) => one.inventory)) {
    for (const placement of tenants.reconciliation.placements) {
      for await (const found of tenants.reconciliation.mismatches(driver, placement)) {
        if (found.kind === 'closed') kept.add(found.tenantId)
      }
    }
  }
  const held = await database.sql('select id from multitenancy.tenants where held_by is not null')
  for (const { id } of held.rows) kept.add(id)
  for (const id of kept) await tenants.enterMaintenance(id, { message: MESSAGE })

  const transfers = await tenants.transfers.cancelUnderWay()
  return database.transaction(async () => {
    const places = await database.sql('delete from multitenancy.storage_locations returning tenant_id')
    await database.sql('update multitenancy.tenants set last_epoch = last_epoch + $1 where purged_at is null', [
      EPOCHS_SKIPPED,
    ])
    const purges = await database.sql(
      `update multitenancy.tenants set purge_at = $1, purge_started_at = null
       where status = 'deleted' and purged_at is null and purge_at < $1
         and not exists (select from multitenancy.erasures where tenant_id = tenants.id) -- it continues
       returning id`,
      [new Date(clock.now().getTime() + retentionMs)],
    )
    await tenants.outbox.markAll()
    await events.publish(BackofficeRestored, {})
    const found = { kept: [...kept].sort(), transfers, places: places.rows.length, purges: purges.rows.length }
    await recordChange(events, {
      action: 'backoffice.restored',
      tenantId: null,
      target: 'backoffice',
      after: { ...found },
    })
    return found
  })
}
