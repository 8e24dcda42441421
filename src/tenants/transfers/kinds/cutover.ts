/**
 * The one moment in which a tenant's storage becomes another: its row names the new place, with the next epoch, in a transaction
 * that either happens as a whole or not at all. Before its commit the place that is left is closed at its server, and nothing that
 * was begun there can change it any more; whoever meets that fence reads the registry again and finds the new one.
 *
 * What is left stays as it is until its time is over, so that the switch can be taken back.
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
  readonly circuits: Pick<Circuits, 'startAnew'>
  readonly stagedStorage: StagedStorage
  /** How long what a tenant has left is kept. */
  readonly keptForMs: number
}

export interface Destination {
  readonly location: StorageLocation
  readonly was: 'making' | 'former'
  /** What it has run. */
  readonly migrations: readonly string[]
}

export interface SwitchOptions {
  /** The tenant's row as it was when what is in the new place was read. */
  readonly from: TenantRow
  readonly action: string
  /** In the transaction, after everything else. */
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
    await database.sql('set local idle_in_transaction_session_timeout = 0') // while rows change places at their server
    const version = await versionOnArrival({ database, versions, changes }, driver, location, migrations)
    const row = await lockedRow(dependencies, from.id)
    await attempt.hold()
    if (row.status !== 'active' && row.status !== 'suspended') throw rejection(row)
    if (row.epoch !== from.epoch) throw new Error('the tenant has got other storage meanwhile')
    if (row.status === 'suspended') await driver.fence(location)
    await close(dependencies, attempt, row)
    const lastEpoch = row.lastEpoch ?? row.epoch
    const epoch = was === 'making' ? location.epoch : lastEpoch + 1 // what it had before is another time
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
    database.afterCommit(() => circuits.startAnew(row.id))
    database.afterCommit(() => fences.repair(row.id)) // one that was left behind is closed
  })
  await fences.opened(from.id)
}

/** The row that all changes of a tenant wait for, whatever its status. */
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

/** A server that is gone for good must not keep its tenants from being restored on another one. */
async function close({ kernel, storage }: SwitchDependencies, attempt: Attempt, row: TenantRow): Promise<void> {
  const location = toLocation(row)
  const mayBeUnavailable = attempt.transfer.kind === 'restore'
  const isUnavailable =
    mayBeUnavailable && (!storage.placements.includes(row.placement) || (await isUnresponsive(storage, location)))
  if (isUnavailable) {
    const of = { tenantId: row.id, placement: row.placement }
    kernel.log.warn(of, 'the server that the tenant leaves is away; RecoverFences closes its storage when it is back')
    return
  }
  const driver = storage.driver(row.isolation)
  await driver.fence(location)
  await driver.drain(location, { signal: attempt.signal })
}

/** Not once, which a busy one may be. What it says is for whoever asks it next. */
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
  TenantState(`The tenant "${id}" is ${status}; its storage cannot be replaced.`, { extras: { from: status } })
