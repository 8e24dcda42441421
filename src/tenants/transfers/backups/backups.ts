/** Creates, restores, lists and deletes backups of tenants. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { z } from 'zod'
import type { PageOf } from '../../../kernel/api/page.ts'
import { isUuid, uuidv7 } from '../../../kernel/base/ids.ts'
import { parsed } from '../../../kernel/base/validate.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import { BackupIncompatible } from '../../isolation/copy.ts'
import { lockTenant } from '../../registry/tenant-assertions.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import type { CountedArchives } from '../archive/port.ts'
import { archivesOf, removeArchives } from '../kinds/backup.ts'
import { lockedRow } from '../kinds/cutover.ts'
import type { TransferDependencies } from '../kinds/dependencies.ts'
import { ACTIONS } from '../kinds/index.ts'
import { archiveBytes } from '../kinds/source.ts'
import { toTransfer } from '../model/tables.ts'
import type { Transfer } from '../model/transfer.ts'
import { BackupNotFound, TransferInProgress } from '../requests/errors.ts'
import { BackupRequest, RestoreRequest } from '../requests/request-schemas.ts'
import { assertInstalled, request } from '../requests/requests.ts'
import { registerArchive } from './register-archive.ts'
import { type Backup, type BackupWithTransfer, toBackup } from './resource.ts'

export interface BackupSettings {
  /** Number of scheduled backups that are kept per tenant; default 7. */
  readonly keep: number
  /** Interval of scheduled backups; undefined: none are scheduled. */
  readonly everyHours: number | undefined
}

export interface StartedRestore {
  readonly backup: Backup
  readonly transfer: Transfer
}

export class Backups {
  readonly #dependencies: TransferDependencies

  constructor(dependencies: TransferDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * `E_TENANT_STATE`, `E_TRANSFER_IN_PROGRESS` if another backup is in progress, `E_BACKUPS_NOT_CONFIGURED`,
   * `E_NOT_SUPPORTED`.
   */
  async create(tenantId: string, options: z.input<typeof BackupRequest> = {}, isScheduled = false): Promise<Backup> {
    const { note = null } = parsed(BackupRequest, options)
    archivesOf(this.#dependencies)
    const { kernel, storage } = this.#dependencies
    const { database, events, clock } = kernel
    return database.transaction(async () => {
      const row = await lockTenant(database, tenantId)
      assertInstalled(row)
      const { isolation, placement } = row
      storage.assertCopies(isolation)
      const id = uuidv7()
      await database
        .query<TenantTables>()
        .insertInto('backups')
        .values({
          id,
          tenantId,
          note,
          isScheduled,
          isolation,
          isSealed: this.#dependencies.isEncrypting,
          createdAt: clock.now(),
        } as never)
        .execute()
      await request(kernel, { id, kind: 'backup', tenantId, backupId: id, isolation, placement })
      await recordChange(events, {
        action: ACTIONS.backup,
        tenantId,
        target: `backup:${id}`,
        after: { note, isScheduled },
      })
      return this.get(tenantId, id)
    })
  }

  /**
   * Restores the tenant into new storage from one of its backups, or rehearses the restore. `E_BACKUP_NOT_FOUND`,
   * `E_BACKUP_INCOMPATIBLE` for an incomplete backup, `E_TENANT_STATE`, `E_TRANSFER_IN_PROGRESS`, `E_NOT_SUPPORTED`,
   * or a 400.
   */
  async restore(tenantId: string, options: z.input<typeof RestoreRequest>): Promise<StartedRestore> {
    const { backupId, rehearse, ...where } = parsed(RestoreRequest, options)
    const { kernel, storage } = this.#dependencies
    archivesOf(this.#dependencies)
    return kernel.database.transaction(async () => {
      const row = await lockTenant(kernel.database, tenantId)
      assertInstalled(row)
      const backup = await this.get(tenantId, backupId)
      if (backup.state === 'failed') throw BackupIncompatible(`Backup "${backupId}" failed and has no archive.`)
      if (backup.state !== 'completed') throw TransferInProgress(`Backup "${backupId}" is not complete yet.`)
      const { driver, placement } = storage.choose(where.isolation ?? row.isolation, where.placement ?? row.placement)
      storage.assertFits(driver.name, tenantId)
      const kind = rehearse ? 'rehearsal' : 'restore'
      const transfer = await request(kernel, { kind, tenantId, backupId, isolation: driver.name, placement })
      await recordChange(kernel.events, {
        action: ACTIONS[kind],
        tenantId,
        target: `backup:${backupId}`,
        after: { isolation: driver.name, placement, rehearse },
      })
      return { backup, transfer: toTransfer(transfer) }
    })
  }

  /** Newest first. */
  async list(tenantId: string, page: { limit: number; cursor?: string }): Promise<PageOf<Backup>> {
    await this.#dependencies.registry.get(tenantId)
    const { cursors } = this.#dependencies.kernel
    const order = { columns: ['backups.createdAt', 'backups.id'], direction: 'desc' } as const
    return cursors.keysetPage(this.#of(tenantId), { name: 'backups', filters: [tenantId], order, item: toBackup }, page)
  }

  /** `E_BACKUP_NOT_FOUND`, also for a backup of another tenant. */
  async get(tenantId: string, id: string): Promise<Backup> {
    const row = isUuid(id) ? await this.#of(tenantId).where('backups.id', '=', id).executeTakeFirst() : undefined
    if (!row) throw notThere(tenantId, id)
    return toBackup(row)
  }

  /**
   * Registers an existing archive as a backup, for example after a restore of the backoffice; see register-archive.ts.
   */
  async registerArchive(tenantId: string, key: string): Promise<Backup> {
    return this.get(tenantId, await registerArchive(this.#dependencies, tenantId, key))
  }

  /** The decrypted archive. Throws `E_BACKUP_INCOMPATIBLE` at its end if the archive was altered. */
  download(tenantId: string, id: string): Promise<AsyncIterable<Uint8Array>> {
    return archiveBytes(this.#dependencies, tenantId, id)
  }

  /**
   * Also removes the archive. `E_BACKUP_NOT_FOUND`, or `E_TRANSFER_IN_PROGRESS` while the backup is created or
   * restored.
   */
  async delete(tenantId: string, id: string): Promise<void> {
    const { database, events, clock, log } = this.#dependencies.kernel
    await this.#dependencies.registry.get(tenantId)
    if (!isUuid(id)) throw notThere(tenantId, id)
    await database.transaction(async () => {
      await lockedRow(this.#dependencies, tenantId) // prevents a concurrent restore request
      const row = await database
        .query<TenantTables>()
        .selectFrom('backups')
        .select('id')
        .where('id', '=', id)
        .where('tenantId', '=', tenantId)
        .where('deletedAt', 'is', null)
        .executeTakeFirst()
      if (!row) throw notThere(tenantId, id)
      const busy = await database
        .query<TenantTables>()
        .selectFrom('transfers')
        .select('kind')
        .where('backupId', '=', id)
        .where('state', 'in', ['pending', 'running'])
        .executeTakeFirst()
      if (busy) throw TransferInProgress(`Backup "${id}" is in use by a ${busy.kind}. Wait until it has ended.`)
      await database
        .query<TenantTables>()
        .updateTable('backups')
        .set({ deletedAt: clock.now() })
        .where('id', '=', id)
        .execute()
      await recordChange(events, { action: 'backups.delete', tenantId, target: `backup:${id}` })
    })
    await this.removeDeleted(id).catch((error) =>
      log.warn({ err: error, tenantId, backupId: id }, 'could not remove an archive; retry in one minute'),
    )
  }

  /**
   * Removes the archives, then the rows, of deleted backups. A failure does not affect other backups.
   * @param id only this backup
   */
  async removeDeleted(id?: string): Promise<void> {
    const { database } = this.#dependencies.kernel
    let query = this.#withAttempts().where('backups.deletedAt', 'is not', null)
    if (id) query = query.where('backups.id', '=', id)
    const failures: unknown[] = []
    for (const backup of await query.execute()) {
      try {
        await removeArchives(archivesOf(this.#dependencies), backup)
        await database.query<TenantTables>().deleteFrom('backups').where('id', '=', backup.id).execute()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Removes the archives of a purged tenant. The purge deletes the rows. */
  async dropAll(tenantId: string): Promise<void> {
    const backups = await this.#withAttempts().where('backups.tenantId', '=', tenantId).execute()
    for (const backup of backups) await removeArchives(archivesOf(this.#dependencies), backup)
  }

  /** All objects of a tenant in the backup storage, registered or not. Without backup storage: the registered ones. */
  async countStored(tenantId: string): Promise<CountedArchives> {
    const { archives, kernel } = this.#dependencies
    if (archives) return archives.count(tenantId)
    const { rows } = await kernel.database.sql(
      'select count(*) as count from multitenancy.backups where tenant_id = $1',
      [tenantId],
    )
    return { objects: rows[0].count, versions: 0 }
  }

  /**
   * Removes these. Waits first until no attempt of a cancelled transfer can write: until the end of its lease.
   * `E_BACKUPS_NOT_CONFIGURED`
   */
  async eraseStored(tenantId: string): Promise<void> {
    const { kernel } = this.#dependencies
    const { rows } = await kernel.database.sql(
      `select coalesce(max(extract(epoch from lease_until - now())), 0)::float8 as seconds
       from multitenancy.transfers where tenant_id = $1 and state = 'cancelled' and attempts > 0`,
      [tenantId],
    )
    if (rows[0].seconds > 0) await sleep(rows[0].seconds * 1_000)
    const { archives } = this.#dependencies
    if (archives || (await this.countStored(tenantId)).objects > 0) await archivesOf(this.#dependencies).erase(tenantId)
  }

  #withAttempts() {
    return this.#dependencies.kernel.database
      .query<TenantTables>()
      .selectFrom('backups')
      .innerJoin('transfers', 'transfers.id', 'backups.id')
      .select(['backups.id', 'backups.tenantId', 'transfers.attempts'])
      .orderBy('backups.id')
  }

  #of(tenantId: string) {
    return this.#dependencies.kernel.database
      .query<TenantTables>()
      .selectFrom('backups')
      .innerJoin('transfers', 'transfers.id', 'backups.id')
      .selectAll('backups')
      .select(['transfers.state', 'transfers.progress', 'transfers.failure'])
      .where('backups.tenantId', '=', tenantId)
      .where('backups.deletedAt', 'is', null)
      .$castTo<BackupWithTransfer>()
  }
}

const notThere = (tenantId: string, id: string) => BackupNotFound(`Backup "${id}" of tenant "${tenantId}" not found.`)
