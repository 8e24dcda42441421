/**
 * A move, and its undo. The tenant is in maintenance and its storage is fenced at the server before the copy: the copy
 * has all acknowledged writes, and later writes are rejected regardless of a process's cache.
 *
 *   closing ─► copy, verify ─► switch: the new storage is the tenant's, open
 *      │            └──failed──► released: the old storage is open, nothing has changed
 *      └──undo────────────────► switch to the former storage, unchanged except for migrations
 *
 * An attempt that fails opens the storage again. After a kill, the tenant stays closed until the next attempt or the
 * permanent failure of the transfer.
 */

import { toLocation } from '../../registry/registry.ts'
import { TenantEnteredMaintenance, TenantExitedMaintenance, TenantMoved } from '../../tenant/events.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { TransferRow } from '../model/tables.ts'
import { NothingToUndo } from '../requests/requests.ts'
import { lockedRow, switchTo } from './cutover.ts'
import type { TransferDependencies, TransferHandler } from './dependencies.ts'
import { fill } from './fill.ts'

const MESSAGE = 'The tenant is being moved.'
const RETRY_AFTER_SECONDS = 5

export const move: TransferHandler = {
  async run(dependencies, attempt) {
    const from = await close(dependencies, attempt)
    const filled = await dependencies.storage
      .driver(from.isolation)
      .export(toLocation(from), (copy) => fill(dependencies, attempt, copy), attempt.options)
    await attempt.phase('switching')
    await switchTo(
      dependencies,
      attempt,
      { ...filled, was: 'making' },
      arrival(dependencies, from, attempt, 'tenants.move'),
    )
  },
  release,
}

/** Later writes stay in the left storage, which the tenant can return to in the same way. */
export const undo: TransferHandler = {
  async run(dependencies, attempt) {
    const { storage, stagedStorage } = dependencies
    const from = await close(dependencies, attempt)
    const former = await stagedStorage.former(from.id)
    if (!former) throw NothingToUndo(from.id)
    const driver = storage.driver(former.isolation)
    await attempt.phase('migrating')
    if (driver.capabilities.separateStorage) await driver.migrate(former) // otherwise, the tables were migrated with those of other tenants
    const migrations = await driver.applied(former)
    await attempt.phase('switching')
    await switchTo(
      dependencies,
      attempt,
      { location: former, was: 'former', migrations },
      arrival(dependencies, from, attempt, 'tenants.move'),
    )
  },
  release,
}

function arrival({ kernel, registry }: TransferDependencies, from: TenantRow, attempt: Attempt, action: string) {
  const also = async () => {
    const { isolation, placement } = await registry.row(from.id)
    await kernel.events.publish(TenantMoved, {
      tenantId: from.id,
      from: { isolation: from.isolation, placement: from.placement },
      to: { isolation, placement },
      isUndone: attempt.transfer.kind === 'undo',
    })
  }
  return { from, action, also }
}

/** Closes the tenant's storage for all writers. */
async function close(dependencies: TransferDependencies, attempt: Attempt): Promise<TenantRow> {
  const { kernel, registry, storage } = dependencies
  const { database, events, clock } = kernel
  const { tenantId, id } = attempt.transfer
  await attempt.phase('closing')
  const closed = await database.transaction(async () => {
    const row = await lockedRow(dependencies, tenantId)
    await attempt.hold()
    const enters = row.maintenance === null && row.status === 'active'
    await database
      .query<TenantTables>()
      .updateTable('tenants')
      .set({
        heldBy: id,
        ...(enters
          ? {
              maintenance: {
                message: MESSAGE,
                retryAfterSeconds: RETRY_AFTER_SECONDS,
                since: clock.now().toISOString(),
              },
            }
          : {}),
      })
      .where('id', '=', tenantId)
      .execute()
    if (enters) {
      await database
        .query<TenantTables>()
        .updateTable('transfers')
        .set({ enteredMaintenance: true })
        .where('id', '=', id)
        .execute()
      await events.publish(TenantEnteredMaintenance, {
        tenantId,
        message: MESSAGE,
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    }
    await registry.changed(tenantId)
    await storage.driver(row.isolation).fence(toLocation(row))
    return row
  })
  await storage.driver(closed.isolation).drain(toLocation(closed), { signal: attempt.signal })
  return closed
}

async function release(dependencies: TransferDependencies, transfer: TransferRow): Promise<void> {
  const { kernel, registry, fences } = dependencies
  const { database, events } = kernel
  const row = await registry.row(transfer.tenantId)
  if (row.heldBy !== transfer.id) return
  const leaves = transfer.enteredMaintenance && row.maintenance !== null
  const table = database.query<TenantTables>()
  await table
    .updateTable('tenants')
    .set({ heldBy: null, ...(leaves ? { maintenance: null } : {}) })
    .where('id', '=', transfer.tenantId)
    .execute()
  await table.updateTable('transfers').set({ enteredMaintenance: false }).where('id', '=', transfer.id).execute()
  await registry.changed(transfer.tenantId)
  if (leaves) await events.publish(TenantExitedMaintenance, { tenantId: transfer.tenantId })
  database.afterCommit(() => fences.repair(transfer.tenantId))
}
