/**
 * Switches a tenant to other storage: one transaction sets the new location with the next epoch in the tenant's row.
 *
 * - Before the commit, the server closes (fences) the old location, and transactions on it have ended. A process that
 *   meets the fence reads the registry again.
 * - The old storage remains unchanged until its retention ends, so the switch can be undone.
 */

import { isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { Circuits } from '../../circuits/circuits.ts'
import type { StorageLocation } from '../../isolation/driver.ts'
import type { Storage } from '../../isolation/drivers.ts'
import type { TableChanges } from '../../isolation/schema-generation.ts'
import type { Fences } from '../../lifecycle/fences.ts'
import type { SchemaVersions } from '../../migrations/schema-versions.ts'
import { versionOnArrival } from '../../migrations/target-version.ts'
import { type Registry, toLocation } from '../../registry/registry.ts'
import { TenantState } from '../../tenant/errors.ts'
import { TenantExitedMaintenance } from '../../tenant/events.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import type { Attempt } from '../execution/attempt.ts'
import type { StagedStorage } from '../execution/staged-storage.ts'

const PROBE_ATTEMPTS = 3

export interface SwitchDependencies {
  readonly kernel: Kernel
  readonly registry: Registry
  readonly storage: Storage
  readonly versions: SchemaVersions
  readonly changes: TableChanges
  readonly fences: Fences
  readonly circuits: Pick<Circuits, 'reset'>
  readonly stagedStorage: StagedStorage
  /** Retention of the former storage. */
  readonly keptForMs: number
}

export interface Destination {
  readonly location: StorageLocation
  readonly was: 'making' | 'former'
  /** Migrations applied to the new storage. */
  readonly migrations: readonly string[]
}

export interface SwitchOptions {
  /** The tenant's row at the time of the copy. */
  readonly from: TenantRow
  readonly action: string
  /** Runs at the end of the transaction. */
  readonly also: () => Promise<unknown>
}

export async function switchTo(
  dependencies: SwitchDependencies,
  attempt: Attempt,
  { location, was, migrations }: Destination,
  { from, action, also }: SwitchOptions,
): Promise<void> {
  const { kernel, registry, storage, versions, changes, fences, circuits, stagedStorage, keptForMs } = dependencies
  const { database, events, clock } = kernel
  const driver = storage.driver(location.isolation)
  await database.transaction(async () => {
    await database.sql('set local idle_in_transaction_session_timeout = 0') // during the exchange of rows on the server
    const version = await versionOnArrival({ database, versions, changes }, driver, location, migrations)
    const row = await lockedRow(dependencies, from.id)
    await attempt.hold()
    if (row.status !== 'active' && row.status !== 'suspended') throw rejection(row)
    if (row.epoch !== from.epoch) throw new Error('The storage of the tenant was replaced by another transfer.')
    if (row.status === 'suspended') await driver.fence(location)
    await close(dependencies, attempt, row)
    const lastEpoch = row.lastEpoch ?? row.epoch
    const epoch = was === 'making' ? location.epoch : lastEpoch + 1 // a return to the former storage gets a new epoch
    await driver.enter?.({ ...location, epoch }, { signal: attempt.signal })
    await stagedStorage.take(location, was)
    await stagedStorage.leave(row, attempt.transfer.id, new Date(clock.now().getTime() + keptForMs))
    const leavesMaintenance = attempt.transfer.enteredMaintenance && row.maintenance !== null
    await database
      .query<TenantTables>()
      .updateTable('tenants')
      .set({
        isolation: location.isolation,
        placement: location.placement,
        locator: location.locator,
        epoch,
        lastEpoch: Math.max(epoch, lastEpoch),
        schemaVersion: version,
        heldBy: null,
        updatedAt: clock.now(),
        ...(leavesMaintenance ? { maintenance: null } : {}),
      })
      .where('id', '=', row.id)
      .execute()
    await attempt.end('completed')
    await changes.notify()
    await registry.changed(row.id)
    await recordChange(events, {
      action,
      tenantId: row.id,
      target: `tenant:${row.id}`,
      before: { isolation: row.isolation, placement: row.placement },
      after: { isolation: location.isolation, placement: location.placement, transferId: attempt.transfer.id },
    })
    if (leavesMaintenance) await events.publish(TenantExitedMaintenance, { tenantId: row.id })
    await also()
    database.afterCommit(() => circuits.reset(row.id))
    database.afterCommit(() => fences.repair(row.id)) // the former storage is closed
  })
  await fences.opened(from.id)
}

/** The tenant's row, locked against all other changes, regardless of its status. */
export async function lockedRow(
  { kernel: { database } }: Pick<SwitchDependencies, 'kernel'>,
  id: string,
): Promise<TenantRow> {
  return database
    .query<TenantTables>()
    .selectFrom('tenants')
    .selectAll()
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirstOrThrow()
}

/** A permanently lost server must not prevent a restore on another one. */
async function close({ kernel, storage }: SwitchDependencies, attempt: Attempt, row: TenantRow): Promise<void> {
  const location = toLocation(row)
  const mayBeUnavailable = attempt.transfer.kind === 'restore'
  const isUnavailable =
    mayBeUnavailable && (!storage.placements.includes(row.placement) || (await isUnresponsive(storage, location)))
  if (isUnavailable) {
    const of = { tenantId: row.id, placement: row.placement }
    kernel.log.warn(
      of,
      'server of the former storage is unavailable; RecoverFences closes the storage after its return',
    )
    return
  }
  const driver = storage.driver(row.isolation)
  await driver.fence(location)
  await driver.drain(location, { signal: attempt.signal })
}

/** Requires several failed probes, as a busy server may miss one. */
async function isUnresponsive(storage: Storage, location: StorageLocation): Promise<boolean> {
  for (let probe = 0; probe < PROBE_ATTEMPTS; probe++) {
    try {
      await storage.driver(location.isolation).isFenced(location)
      return false
    } catch (error) {
      if (!isDatabaseUnavailable(error)) return false
    }
  }
  return true
}

const rejection = ({ id, status }: TenantRow) =>
  TenantState(`Tenant "${id}" is ${status}, so its storage cannot be replaced.`, { extras: { from: status } })
