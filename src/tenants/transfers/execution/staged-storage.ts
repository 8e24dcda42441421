/**
 * Storage beside what tenants have now: in the making, left behind, or to be dropped. The row comes before the storage and goes
 * after it, so whatever is killed, whoever comes next knows what there may be; see PlaceRow for its life.
 *
 * A place that is being made is of an epoch of its own: what a slow process still writes for an attempt that it has lost goes
 * where nobody will look.
 */
import type { ExpressionBuilder } from 'kysely'
import { AttemptLost } from '../../../kernel/jobs/lease.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { StorageLocation } from '../../isolation/driver.ts'
import type { Storage } from '../../isolation/drivers.ts'
import type { LostPlacements } from '../../lifecycle/lost-placements.ts'
import { tenantNotFound } from '../../tenant/errors.ts'
import { UNKNOWN_VERSION } from '../../tenant/schema-version.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import type { PlaceRow } from '../model/tables.ts'
import type { Attempt } from './attempt.ts'

export type StagedStorageDependencies = Pick<Kernel, 'database' | 'clock' | 'log'>

export class StagedStorage {
  readonly #kernel: StagedStorageDependencies
  readonly #storage: Storage
  readonly #lost: Pick<LostPlacements, 'drop'>

  constructor(kernel: StagedStorageDependencies, storage: Storage, lost: Pick<LostPlacements, 'drop'>) {
    this.#kernel = kernel
    this.#lost = lost
    this.#storage = storage
  }

  /** The next place of the tenant, where nothing is yet. */
  async begin(attempt: Attempt): Promise<StorageLocation> {
    const { tenantId, isolation, placement, id } = attempt.transfer
    const { database, clock } = this.#kernel
    return database.transaction(async () => {
      const given = await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set(({ eb }) => ({ lastEpoch: eb('lastEpoch', '+', 1) }))
        .where('id', '=', tenantId)
        .where('purgedAt', 'is', null)
        .returning('lastEpoch')
        .executeTakeFirst()
      if (!given?.lastEpoch) throw tenantNotFound(tenantId)
      await attempt.hold()
      const epoch = given.lastEpoch
      const locator = this.#storage.driver(isolation).locator(tenantId, epoch)
      const location = { tenantId, isolation, placement, locator, epoch }
      await database
        .query<TenantTables>()
        .insertInto('storageLocations')
        .values({
          ...location,
          transferId: id,
          state: 'making',
          schemaVersion: UNKNOWN_VERSION,
          since: clock.now(),
          purgeAt: null,
        })
        .execute()
      attempt.epochs.push(epoch)
      return location
    })
  }

  /** Throws when it was given up meanwhile: whoever would still make it must leave nothing behind that nobody knows of. */
  async assertMaking(location: StorageLocation): Promise<void> {
    const making = await this.#kernel.database
      .query<TenantTables>()
      .selectFrom('storageLocations')
      .select('epoch')
      .where(stands(location, 'making'))
      .executeTakeFirst()
    if (!making) throw new AttemptLost(`the place ${location.locator} was given up`)
  }

  /** Forgets a place at which there was something before: nobody here has made that, and nobody here drops it. */
  async leaveAlone(location: StorageLocation, attempt: Attempt): Promise<void> {
    const { isolation, placement, locator, epoch } = location
    await this.#kernel.database
      .query<TenantTables>()
      .deleteFrom('storageLocations')
      .where(stands(location, 'making'))
      .execute()
    attempt.epochs.splice(attempt.epochs.indexOf(epoch), 1)
    this.#kernel.log.warn(
      { isolation, placement, locator },
      'storage with the name of a new place is there already, as after a backoffice was brought back; it is left alone',
    )
  }

  /** The place that was in the making is the tenant's own now. In the transaction of the switch. */
  async take(location: StorageLocation, state: 'making' | 'former'): Promise<void> {
    const taken = await this.#kernel.database
      .query<TenantTables>()
      .deleteFrom('storageLocations')
      .where(stands(location, state))
      .returning('locator')
      .executeTakeFirst()
    if (!taken) throw new Error('the storage that was to be switched to has been given up meanwhile')
  }

  /** Keeps what the tenant leaves. In the transaction of the switch. */
  async leave(row: TenantRow, transferId: string, purgeAt: Date): Promise<void> {
    const { id: tenantId, isolation, placement, locator, epoch, schemaVersion = UNKNOWN_VERSION } = row
    await this.#kernel.database
      .query<TenantTables>()
      .insertInto('storageLocations')
      .values({
        tenantId,
        isolation,
        placement,
        locator,
        epoch,
        transferId,
        schemaVersion,
        state: 'former',
        since: this.#kernel.clock.now(),
        purgeAt,
      })
      .execute()
  }

  /** What the tenant left last, as long as it is there. */
  former(tenantId: string): Promise<PlaceRow | undefined> {
    return this.#kernel.database
      .query<TenantTables>()
      .selectFrom('storageLocations')
      .selectAll()
      .where('tenantId', '=', tenantId)
      .where('state', '=', 'former')
      .orderBy('since', 'desc')
      .orderBy('epoch', 'desc')
      .limit(1)
      .executeTakeFirst()
  }

  /** Gives up what attempts at this transfer have been making. @param epochs of one attempt: another may be at work by now */
  async abandon(transferId: string, epochs?: readonly number[]): Promise<void> {
    if (epochs?.length === 0) return
    let update = this.#kernel.database
      .query<TenantTables>()
      .updateTable('storageLocations')
      .set({ state: 'abandoned' })
      .where('transferId', '=', transferId)
      .where('state', '=', 'making')
    if (epochs) update = update.where('epoch', 'in', epochs)
    await update.execute()
  }

  /** Gives up what is past its time, and what transfers that have ended were making. */
  async abandonExpired(): Promise<void> {
    const { database, clock } = this.#kernel
    const table = database.query<TenantTables>()
    await table
      .updateTable('storageLocations')
      .set({ state: 'abandoned', purgeAt: null })
      .where('state', '=', 'former')
      .where('purgeAt', '<=', clock.now())
      .execute()
    await table
      .updateTable('storageLocations')
      .set({ state: 'abandoned' })
      .where('state', '=', 'making')
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('transfers')
              .select('transfers.id')
              .whereRef('transfers.id', '=', 'storageLocations.transferId')
              .where('transfers.state', 'in', ['pending', 'running']),
          ),
        ),
      )
      .execute()
  }

  /**
   * Drops what was given up; of one transfer, one tenant, or all. What cannot be dropped now stays for the next time; the first
   * failure is thrown once everything else is done.
   */
  async drop(of: { transferId?: string; tenantId?: string } = {}): Promise<void> {
    const failures: unknown[] = []
    for (const location of await this.#abandoned(of)) {
      try {
        await this.#lost.drop(location)
        await this.#kernel.database
          .query<TenantTables>()
          .deleteFrom('storageLocations')
          .where(stands(location, 'abandoned'))
          .execute()
      } catch (error) {
        const { tenantId, isolation, placement } = location
        this.#kernel.log.warn(
          { err: error, tenantId, isolation, placement },
          'storage that was given up could not be dropped; it is tried again in a minute',
        )
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Everything that a tenant has beside its own, for its purge. */
  async dropAll(tenantId: string): Promise<void> {
    await this.#kernel.database
      .query<TenantTables>()
      .updateTable('storageLocations')
      .set({ state: 'abandoned', purgeAt: null })
      .where('tenantId', '=', tenantId)
      .execute()
    await this.drop({ tenantId })
  }

  #abandoned({ transferId, tenantId }: { transferId?: string; tenantId?: string }): Promise<PlaceRow[]> {
    let query = this.#kernel.database
      .query<TenantTables>()
      .selectFrom('storageLocations')
      .selectAll()
      .where('state', '=', 'abandoned')
      .orderBy('since')
    if (transferId) query = query.where('transferId', '=', transferId)
    if (tenantId) query = query.where('tenantId', '=', tenantId)
    return query.execute()
  }
}

const stands =
  (
    { placement, isolation, locator }: Pick<StorageLocation, 'placement' | 'isolation' | 'locator'>,
    state: PlaceRow['state'],
  ) =>
  ({ eb }: { eb: ExpressionBuilder<TenantTables, 'storageLocations'> }) =>
    eb.and({ placement, isolation, locator, state })
