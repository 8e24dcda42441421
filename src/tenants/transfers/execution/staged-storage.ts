/**
 * Keeps records of storage locations in addition to the tenants' own: in creation, former, or abandoned (states:
 * PlaceRow).
 *
 * - The row is inserted before the storage is created and deleted after it is dropped, so a killed process leaves no
 *   unknown storage.
 * - Each attempt creates storage with its own epoch: late writes of a lost attempt reach a location that is not used.
 */
import type { ExpressionBuilder } from 'kysely'
import { AttemptLost } from '../../../kernel/jobs/lease.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { DropOptions, StorageLocation } from '../../isolation/driver.ts'
import type { Storage } from '../../isolation/drivers.ts'
import type { LostPlacements } from '../../lifecycle/lost-placements.ts'
import { tenantNotFound } from '../../tenant/errors.ts'
import { UNKNOWN_VERSION } from '../../tenant/schema-version.ts'
import type { TenantRow, TenantTables } from '../../tenant/tables.ts'
import type { PlaceRow } from '../model/tables.ts'
import type { Attempt } from './attempt.ts'

export type StagedStorageDependencies = Pick<Kernel, 'database' | 'clock' | 'log'>

type OptionsOf = (location: StorageLocation) => DropOptions

export class StagedStorage {
  readonly #kernel: StagedStorageDependencies
  readonly #storage: Storage
  readonly #lost: Pick<LostPlacements, 'drop'>

  constructor(kernel: StagedStorageDependencies, storage: Storage, lost: Pick<LostPlacements, 'drop'>) {
    this.#kernel = kernel
    this.#lost = lost
    this.#storage = storage
  }

  /** Reserves the next, empty storage location of the tenant. */
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

  /** Throws if the location was abandoned: a late process must not create storage without a record. */
  async assertMaking(location: StorageLocation): Promise<void> {
    const making = await this.#kernel.database
      .query<TenantTables>()
      .selectFrom('storageLocations')
      .select('epoch')
      .where(stands(location, 'making'))
      .executeTakeFirst()
    if (!making) throw new AttemptLost(`Storage location ${location.locator} was abandoned.`)
  }

  /**
   * Removes the record of a location that already contained storage. Tenantry did not create it and must not drop it.
   */
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
      'new storage location already exists, for example after a restore of the backoffice; left unchanged',
    )
  }

  /** Removes the record of a location that became the tenant's own. In the transaction of the switch. */
  async take(location: StorageLocation, state: 'making' | 'former'): Promise<void> {
    const taken = await this.#kernel.database
      .query<TenantTables>()
      .deleteFrom('storageLocations')
      .where(stands(location, state))
      .returning('locator')
      .executeTakeFirst()
    if (!taken) throw new Error('The new storage was abandoned before the switch.')
  }

  /** Records the storage that the tenant leaves. In the transaction of the switch. */
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

  /** The tenant's most recent former storage, if it still exists. */
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

  /** Abandons storage created by attempts of this transfer. @param epochs of one attempt, if another may be running */
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

  /** Abandons expired former storage, and storage created by transfers that have ended. */
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
   * Drops abandoned storage of one transfer, one tenant, or all. Continues after a failure and throws the first one at
   * the end; the next call tries again.
   */
  async drop(of: { transferId?: string; tenantId?: string } = {}, options?: OptionsOf): Promise<void> {
    const failures: unknown[] = []
    for (const location of await this.#abandoned(of)) {
      try {
        await this.#lost.drop(location, options?.(location))
        await this.#kernel.database
          .query<TenantTables>()
          .deleteFrom('storageLocations')
          .where(stands(location, 'abandoned'))
          .execute()
      } catch (error) {
        const { tenantId, isolation, placement } = location
        this.#kernel.log.warn(
          { err: error, tenantId, isolation, placement },
          'could not drop abandoned storage; retry in one minute',
        )
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Drops all storage of a purged tenant except its own. */
  async dropAll(tenantId: string, options?: OptionsOf): Promise<void> {
    await this.#kernel.database
      .query<TenantTables>()
      .updateTable('storageLocations')
      .set({ state: 'abandoned', purgeAt: null })
      .where('tenantId', '=', tenantId)
      .execute()
    await this.drop({ tenantId }, options)
  }

  /** Number of locations that cancelled and failed clones of this tenant have left. */
  async countOfEndedClones(sourceId: string): Promise<number> {
    const { rows } = await this.#kernel.database.sql(
      `select count(*)::float8 as count from multitenancy.storage_locations where ${OF_ENDED_CLONES}`,
      [sourceId],
    )
    return rows[0].count
  }

  /** Drops what cancelled and failed clones of this tenant have left. */
  async dropOfEndedClones(sourceId: string): Promise<void> {
    const { rows } = await this.#kernel.database.sql(
      `update multitenancy.storage_locations set state = 'abandoned' where ${OF_ENDED_CLONES}
       returning transfer_id as "transferId"`,
      [sourceId],
    )
    for (const { transferId } of rows) await this.drop({ transferId })
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

const OF_ENDED_CLONES = `state <> 'former' and transfer_id in (
  select id from multitenancy.transfers where source_id = $1 and kind = 'clone' and state not in ('pending', 'running', 'completed'))`

const stands =
  (
    { placement, isolation, locator }: Pick<StorageLocation, 'placement' | 'isolation' | 'locator'>,
    state: PlaceRow['state'],
  ) =>
  ({ eb }: { eb: ExpressionBuilder<TenantTables, 'storageLocations'> }) =>
    eb.and({ placement, isolation, locator, state })
