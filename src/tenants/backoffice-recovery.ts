/**
 * A backoffice that was brought back from a dump says what was true then. Tenants have moved since, and what it takes for storage in
 * the making, left behind or to be purged may hold the newest rows of one. So nothing that it was about to drop is dropped, and nobody
 * is let into storage that was closed since, before an operator has looked.
 */
import { z } from 'zod'
import { recordChange } from '../kernel/events/changes.ts'
import { event } from '../kernel/events/events.ts'
import type { Kernel } from '../kernel/kernel.ts'
import type { StorageReconciliation } from './lifecycle/storage-reconciliation.ts'

/** More places than a tenant was given since. */
const EPOCHS_SKIPPED = 1_000
const MESSAGE = 'The tenant is being looked after.'

/** Within its transaction, satellites bring what they keep up to what is kept elsewhere. */
export const BackofficeRestored = event(
  'BackofficeRestored',
  'The backoffice was brought back from a dump',
  z.object({}),
  { isInternal: true },
)

export interface BackofficeRestore {
  /** Ids of tenants that may be elsewhere by now: they are in maintenance. */
  readonly kept: readonly string[]
  /** Transfers that were under way, and are no more. */
  readonly transfers: number
  /** Storage beside that of tenants, which is left alone from now on. */
  readonly places: number
  /** Deleted tenants whose purge begins its time anew. */
  readonly purges: number
}

/** What is asked of the tenants; `Tenants` is one. */
interface RestoredTenants {
  readonly reconciliation: Pick<StorageReconciliation, 'drivers' | 'placements' | 'mismatches'>
  readonly transfers: { cancelUnderWay(): Promise<number> }
  enterMaintenance(id: string, options: { readonly message: string }): Promise<unknown>
}

/** Before any process serves or works. Throws, and changes nothing, when a server cannot be asked. Safe to repeat. */
export async function reconcileAfterRestore(
  { database, events, clock }: Pick<Kernel, 'database' | 'events' | 'clock'>,
  tenants: RestoredTenants,
  retentionMs: number,
): Promise<BackofficeRestore> {
  const kept = new Set<string>()
  for (const driver of tenants.reconciliation.drivers.filter((one) => one.inventory)) {
    for (const placement of tenants.reconciliation.placements) {
      for (const found of await tenants.reconciliation.mismatches(driver, placement)) {
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
       where status = 'deleted' and purged_at is null and purge_at < $1 returning id`,
      [new Date(clock.now().getTime() + retentionMs)],
    )
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
