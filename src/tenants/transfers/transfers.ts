/** Requests and returns transfers of tenants; runner.ts carries them out. */
import type { z } from 'zod'
import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { isUuid, uuidv7 } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { DropOptions, StorageLocation } from '../isolation/driver.ts'
import type { Plans } from '../registry/plans.ts'
import { register } from '../registry/registration.ts'
import { lockTenant } from '../registry/tenant-assertions.ts'
import { TenantState } from '../tenant/errors.ts'
import { TenantCreated } from '../tenant/events.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { type TenantRecord, toTenant } from '../tenant/tenant.ts'
import { type BackupSettings, Backups } from './backups/backups.ts'
import { type DueStep, due, runDueStep } from './backups/scheduler.ts'
import { cancel, cancelAll, cancelClonesOf, cancelUnderWay } from './cancel.ts'
import { TransferState } from './doctor-queries.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import { ACTIONS } from './kinds/index.ts'
import { toTransfer } from './model/tables.ts'
import { hasEnded, type Kind, type State, type Transfer } from './model/transfer.ts'
import { recover } from './recovery.ts'
import { TransferNotFound } from './requests/errors.ts'
import { CloneRequest, MoveRequest } from './requests/request-schemas.ts'
import { assertInstalled, NothingToUndo, request } from './requests/requests.ts'
import { type WorkOptions, work } from './runner.ts'

export interface TransfersConfig extends BackupSettings {
  readonly plans: Plans
  /** Lease duration: time without a renewal after which another attempt may start; default 15,000. */
  readonly leaseMs?: number | undefined
}

export interface TransferFilter {
  readonly state?: State
  readonly kind?: Kind
  readonly placement?: string
}

export interface StartedTransfer {
  readonly tenant: TenantRecord
  readonly transfer: Transfer
}

export class Transfers {
  readonly backups: Backups
  readonly #dependencies: TransferDependencies
  readonly #config: TransfersConfig

  constructor(dependencies: TransferDependencies, config: TransfersConfig) {
    this.#dependencies = dependencies
    this.#config = config
    this.backups = new Backups(dependencies)
  }

  /**
   * Creates a tenant with the rows, metadata and settings of this one. `E_TENANT_EXISTS`, `E_TENANT_STATE`,
   * `E_NOT_SUPPORTED`, or a 400.
   */
  async clone(sourceId: string, options: z.input<typeof CloneRequest>): Promise<StartedTransfer> {
    const { id = uuidv7(), name, metadata, data } = parsed(CloneRequest, options)
    if (metadata) this.#config.plans.check(metadata)
    const { kernel, storage } = this.#dependencies
    const { database, events } = kernel
    return database.transaction(async () => {
      const source = await lockTenant(database, sourceId)
      assertInstalled(source)
      const { isolation, placement } = source
      if (data) storage.assertCopies(isolation)
      const row = await register(this.#dependencies, {
        id,
        name,
        metadata: metadata ?? source.metadata,
        domains: [],
        isolation,
        placement,
        clonedFrom: sourceId,
      })
      const transfer = await request(kernel, {
        kind: 'clone',
        tenantId: id,
        sourceId,
        withData: data,
        isolation,
        placement,
      })
      await recordChange(events, {
        action: ACTIONS.clone,
        tenantId: id,
        target: `tenant:${id}`,
        after: { name, metadata: row.metadata, isolation, placement, sourceId, data },
      })
      await events.publish(TenantCreated, { tenantId: id, name, isolation, placement })
      return { tenant: toTenant(row), transfer: toTransfer(transfer) }
    })
  }

  /**
   * Moves the tenant to another driver, another server, or both; or back to its former storage. `E_TENANT_STATE`,
   * `E_TRANSFER_IN_PROGRESS`, `E_NOT_SUPPORTED`, or a 400.
   */
  async move(id: string, options: z.input<typeof MoveRequest>): Promise<StartedTransfer> {
    const { undo, ...where } = parsed(MoveRequest, options)
    const { kernel, storage, stagedStorage } = this.#dependencies
    return kernel.database.transaction(async () => {
      const row = await lockTenant(kernel.database, id)
      assertInstalled(row)
      const to = undo
        ? await stagedStorage.former(id)
        : chosen(storage.choose(where.isolation ?? row.isolation, where.placement ?? row.placement))
      if (!to) throw NothingToUndo(id)
      if (!undo && to.isolation === row.isolation && to.placement === row.placement) {
        throw TenantState(`Tenant "${id}" is already on ${to.isolation} at placement "${to.placement}".`)
      }
      if (!undo) {
        storage.assertCopies(row.isolation)
        storage.assertFits(to.isolation, id)
      }
      const kind = undo ? 'undo' : 'move'
      const { isolation, placement } = to
      const transfer = await request(kernel, { kind, tenantId: id, isolation, placement })
      await recordChange(kernel.events, {
        action: ACTIONS[kind],
        tenantId: id,
        target: `transfer:${transfer.id}`,
        before: { isolation: row.isolation, placement: row.placement },
        after: { isolation, placement, undo },
      })
      return { tenant: toTenant(row), transfer: toTransfer(transfer) }
    })
  }

  /** Transfers of one tenant, newest first. */
  async list(tenantId: string, page: { limit: number; cursor?: string }): Promise<PageOf<Transfer>> {
    await this.#dependencies.registry.get(tenantId)
    const { database, cursors } = this.#dependencies.kernel
    const query = database.query<TenantTables>().selectFrom('transfers').selectAll().where('tenantId', '=', tenantId)
    const keyset = { name: 'transfers', filters: [tenantId], order: NEWEST_FIRST, item: toTransfer }
    return cursors.keysetPage(query, keyset, page)
  }

  /** Transfers of all tenants, newest first. */
  listAll({ state, kind, placement, limit, cursor }: TransferFilter & PageOptions = {}): Promise<PageOf<Transfer>> {
    const { database, cursors } = this.#dependencies.kernel
    let query = database.query<TenantTables>().selectFrom('transfers').selectAll()
    if (state) query = query.where('state', '=', state)
    if (kind) query = query.where('kind', '=', kind)
    if (placement !== undefined) query = query.where('placement', '=', placement)
    const keyset = {
      name: 'all transfers',
      filters: [state, kind, placement],
      order: NEWEST_FIRST,
      item: toTransfer,
    }
    return cursors.keysetPage(query, keyset, { limit, cursor })
  }

  /** `E_TRANSFER_NOT_FOUND`, also for a transfer of another tenant. */
  async get(tenantId: string, id: string): Promise<Transfer> {
    const query = this.#dependencies.kernel.database
      .query<TenantTables>()
      .selectFrom('transfers')
      .selectAll()
      .where('id', '=', id)
      .where('tenantId', '=', tenantId)
    const row = isUuid(id) ? await query.executeTakeFirst() : undefined
    if (!row) throw TransferNotFound(`Transfer "${id}" of tenant "${tenantId}" not found.`)
    return toTransfer(row)
  }

  /** Resolves with the ended transfer, or with its current state if `signal` aborts. */
  settled(tenantId: string, id: string, signal: AbortSignal, onProgress?: (now: Transfer) => void): Promise<Transfer> {
    const look = async () => {
      const transfer = await this.get(tenantId, id)
      onProgress?.(transfer)
      return transfer
    }
    return this.#dependencies.registry.until(tenantId, look, ({ state }) => hasEnded(state), signal)
  }

  /** Cancels a transfer in any process and reverts its changes. `E_TRANSFER_NOT_FOUND`, `E_TRANSFER_ENDED`. */
  async cancel(tenantId: string, id: string): Promise<Transfer> {
    await cancel(this.#dependencies, tenantId, id)
    return this.get(tenantId, id)
  }

  /** Cancels all transfers in progress of all tenants. Returns their number. */
  cancelUnderWay(): Promise<number> {
    return cancelUnderWay(this.#dependencies)
  }

  /** Cancels all transfers of a deleted tenant, in the transaction of its deletion. */
  cancelAll(tenantId: string): Promise<void> {
    return cancelAll(this.#dependencies, tenantId)
  }

  /** Cancels the clones in progress of an erased tenant, in the transaction of the request. */
  cancelClonesOf(sourceId: string): Promise<void> {
    return cancelClonesOf(this.#dependencies, sourceId)
  }

  /** The job of a transfer: one attempt. */
  work(id: string, options: Omit<WorkOptions, 'leaseMs'>): Promise<void> {
    return work(this.#dependencies, id, { ...options, leaseMs: this.#config.leaseMs })
  }

  /** Backups to create and to remove, of all tenants, by the retention rules. */
  due(): AsyncIterable<DueStep> {
    return due(this.#run)
  }

  runDueStep(step: DueStep): Promise<string | undefined> {
    return runDueStep(this.#run, step)
  }

  /** The job of every ten minutes. A failure for one tenant does not affect other tenants. */
  async runDue(): Promise<void> {
    if (!this.#dependencies.archives) return
    const failures: unknown[] = []
    for await (const step of this.due()) {
      try {
        await this.runDueStep(step)
      } catch (error) {
        this.#dependencies.kernel.log.warn(
          { err: error, tenantId: step.tenantId },
          'could not start a scheduled backup',
        )
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  get #run() {
    return {
      dependencies: this.#dependencies,
      plans: this.#config.plans,
      backups: this.backups,
      settings: this.#config,
    }
  }

  /** Drops abandoned storage of a tenant. Safe at any time: a tenant cannot return to it. */
  dropAbandoned(tenantId: string): Promise<void> {
    return this.#dependencies.stagedStorage.drop({ tenantId })
  }

  /** Queries for the doctor. */
  get state(): TransferState {
    return new TransferState(this.#dependencies, this.#run)
  }

  /** Drops all storage of a purged tenant except its own. */
  async drop(tenantId: string): Promise<void> {
    await this.#dependencies.stagedStorage.dropAll(tenantId)
    await this.backups.dropAll(tenantId)
  }

  /** Drops all storage of an erased tenant except its own. @param options for the drop of each location */
  dropStorage(tenantId: string, options: (location: StorageLocation) => DropOptions): Promise<void> {
    return this.#dependencies.stagedStorage.dropAll(tenantId, options)
  }

  /** Number of storage locations that cancelled and failed clones of a tenant have left. */
  countStorageOfEndedClones(sourceId: string): Promise<number> {
    return this.#dependencies.stagedStorage.countOfEndedClones(sourceId)
  }

  dropStorageOfEndedClones(sourceId: string): Promise<void> {
    return this.#dependencies.stagedStorage.dropOfEndedClones(sourceId)
  }

  recover(): Promise<void> {
    return recover(this.#dependencies, this.backups)
  }

  async stop(): Promise<void> {
    await this.#dependencies.archives?.stop()
  }
}

const chosen = ({ driver, placement }: { driver: { name: string }; placement: string }) => ({
  isolation: driver.name,
  placement,
})
