/**
 * Reserves the id and the locator of an adoption in the backoffice. The indexes of `tenants` decide between concurrent
 * adoptions and creations: exactly one of them has the id, and one the locator.
 */
import { uuidv7 } from '../../kernel/base/ids.ts'
import { violatedConstraint } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type AdoptionRequest, notAdoptable } from '../isolation/adoption.ts'
import type { StorageLocation } from '../isolation/location.ts'
import { lockExistingTenant } from '../registry/tenant-assertions.ts'
import { TenantExists, TenantState } from '../tenant/errors.ts'
import { releasedLocator } from '../tenant/released.ts'
import type { TenantTables } from '../tenant/tables.ts'
import type { AdoptionRow } from './tables.ts'

/** Longer than an adoption takes; the lock at the server decides in any case. */
const LEASE = `interval '2 minutes'`
const LOCATOR_INDEX = 'tenants_locator'
const SETTLED_AT_ONCE = 100

export interface AdoptionTables extends Pick<TenantTables, 'tenants'> {
  adoptions: AdoptionRow
}

export type ReservationRequest = Pick<AdoptionRow, 'name' | 'metadata' | 'digest'>

export class Reservations {
  readonly #kernel: Pick<Kernel, 'database' | 'clock'>

  constructor(kernel: Pick<Kernel, 'database' | 'clock'>) {
    this.#kernel = kernel
  }

  /** `E_TENANT_EXISTS` for a taken id, `E_NOT_ADOPTABLE` for storage of another tenant. */
  async reserve(request: AdoptionRequest, reservation: ReservationRequest): Promise<AdoptionRow> {
    try {
      return await this.#insert(request, reservation)
    } catch (error) {
      if (violatedConstraint(error) === LOCATOR_INDEX) throw ownedBy(await this.ownerOf(request.location))
      throw error
    }
  }

  async #insert(
    { location, baseline }: AdoptionRequest,
    { name, metadata, digest }: ReservationRequest,
  ): Promise<AdoptionRow> {
    const { tenantId, isolation, placement, locator } = location
    const { database } = this.#kernel
    const [adoptionId, migrations] = [uuidv7(), [...baseline]]
    return database.transaction(async () => {
      const wasReleased = !(await this.#insertEmpty(location))
      if (wasReleased && !(await this.#takeReleased(location))) {
        throw TenantExists(`Tenant id "${tenantId}" is taken. Ids are never reused, not even after a purge.`)
      }
      const { rows } = await database.sql(
        `insert into multitenancy.adoptions (tenant_id, adoption_id, isolation, placement, locator, state, name, metadata, migrations,
           digest, was_released, lease_until)
         select $1, $2, $3, $4, $5, 'adopting', $6, $7, $8, $9, $10, now() + ${LEASE}
         where not exists (select from multitenancy.erasures where tenant_id = $1)
           and not exists (select from multitenancy.storage_locations where isolation = $3 and placement = $4 and locator = $5)
         returning lease_until as "leaseUntil", created_at as "createdAt"`,
        [
          tenantId,
          adoptionId,
          isolation,
          placement,
          locator,
          name,
          JSON.stringify(metadata),
          migrations,
          digest,
          wasReleased,
        ],
      )
      if (!rows[0]) {
        throw (await this.#isErased(tenantId))
          ? TenantExists(`Tenant id "${tenantId}" is taken: the tenant was erased.`)
          : ownedBy(await this.ownerOf(location))
      }
      const state = 'adopting'
      return {
        tenantId,
        adoptionId,
        isolation,
        placement,
        locator,
        state,
        name,
        metadata,
        migrations,
        digest,
        wasReleased,
        ...rows[0],
      }
    })
  }

  /** Throws if another process has removed the reservation. */
  async assertHeld({ tenantId, adoptionId }: AdoptionRow): Promise<void> {
    const row = await this.find(tenantId)
    if (row?.adoptionId === adoptionId && row.state === 'adopting') return
    throw notAdoptable(['the adoption took too long and was abandoned: make the plan again'])
  }

  async find(tenantId: string): Promise<AdoptionRow | undefined> {
    return this.#tables().selectFrom('adoptions').selectAll().where('tenantId', '=', tenantId).executeTakeFirst()
  }

  /** Adoptions whose process was probably killed. */
  async expired(): Promise<AdoptionRow[]> {
    return this.#tables()
      .selectFrom('adoptions')
      .selectAll()
      .where('state', '=', 'adopting')
      .where(({ eb, fn }) => eb('leaseUntil', '<', fn<Date>('now')))
      .orderBy('leaseUntil')
      .limit(SETTLED_AT_ONCE)
      .execute()
  }

  /** In the transaction that activates the tenant. Returns false if another process has done so. */
  async finish({ tenantId, adoptionId }: AdoptionRow): Promise<boolean> {
    const done = await this.#tables()
      .updateTable('adoptions')
      .set({ state: 'adopted' })
      .where('tenantId', '=', tenantId)
      .where('adoptionId', '=', adoptionId)
      .where('state', '=', 'adopting')
      .returning('tenantId')
      .executeTakeFirst()
    return done !== undefined
  }

  /** Removes the reservation of an adoption that changed nothing at the server. Idempotent. */
  async remove({ tenantId, adoptionId, wasReleased }: AdoptionRow): Promise<void> {
    await this.#kernel.database.transaction(async () => {
      const removed = await this.#tables()
        .deleteFrom('adoptions')
        .where('tenantId', '=', tenantId)
        .where('adoptionId', '=', adoptionId)
        .where('state', '=', 'adopting')
        .returning('tenantId')
        .executeTakeFirst()
      if (!removed) return
      const tenants = this.#tables()
      if (wasReleased) {
        await tenants
          .updateTable('tenants')
          .set({ locator: releasedLocator(tenantId) })
          .where('id', '=', tenantId)
          .execute()
      } else {
        await tenants.deleteFrom('tenants').where('id', '=', tenantId).where('purgedAt', 'is not', null).execute()
      }
    })
  }

  /** Marks the adopted storage of a tenant as to be released. In the transaction that deletes the tenant. */
  async beginRelease(tenantId: string): Promise<AdoptionRow> {
    const tenant = await lockExistingTenant(this.#kernel.database, tenantId)
    const row = await this.find(tenantId)
    if (!row || row.state === 'adopting') throw TenantState(`Tenant "${tenantId}" was not adopted; delete it instead.`)
    if (tenant.purgeStartedAt && row.state !== 'releasing') throw TenantState(`Tenant "${tenantId}" is being purged.`)
    const isThere =
      tenant.isolation === row.isolation && tenant.placement === row.placement && tenant.locator === row.locator
    if (!isThere) {
      throw TenantState(
        `Tenant "${tenantId}" has left the storage "${row.locator}" that it was adopted with. Move it back with tenant:move --undo, or delete it.`,
      )
    }
    await this.#tables().updateTable('adoptions').set({ state: 'releasing' }).where('tenantId', '=', tenantId).execute()
    return row
  }

  async isReleasing(tenantId: string, locator: string): Promise<boolean> {
    const row = await this.find(tenantId)
    return row?.state === 'releasing' && row.locator === locator
  }

  async isIdTaken(tenantId: string): Promise<boolean> {
    const row = await this.#tables()
      .selectFrom('tenants')
      .select('locator')
      .where('id', '=', tenantId)
      .executeTakeFirst()
    return row !== undefined && (row.locator !== releasedLocator(tenantId) || (await this.#isErased(tenantId)))
  }

  /** The tenant with this storage, other than that of the location itself. */
  async ownerOf({ tenantId, isolation, placement, locator }: StorageLocation): Promise<string | undefined> {
    const { rows } = await this.#kernel.database.sql(
      `select id from multitenancy.tenants where isolation = $2 and placement = $3 and locator = $4 and id <> $1
       union all
       select tenant_id from multitenancy.storage_locations where isolation = $2 and placement = $3 and locator = $4 limit 1`,
      [tenantId, isolation, placement, locator],
    )
    return rows[0]?.id
  }

  /** The id of an erased tenant stays taken. The request of an erasure locks the row of the tenant, too. */
  async #isErased(tenantId: string): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql('select from multitenancy.erasures where tenant_id = $1', [
      tenantId,
    ])
    return rows.length > 0
  }

  /** Returns false if the id exists. */
  async #insertEmpty({ tenantId, isolation, placement, locator }: StorageLocation): Promise<boolean> {
    const now = this.#kernel.clock.now()
    const inserted = await this.#tables()
      .insertInto('tenants')
      .values({
        id: tenantId,
        name: '',
        status: 'deleted',
        metadata: {},
        domains: [],
        isolation,
        placement,
        locator,
        epoch: 1,
        lastEpoch: 0,
        createdAt: now,
        updatedAt: now,
        deletedAt: now,
        purgedAt: now,
      })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .returning('id')
      .executeTakeFirst()
    return inserted !== undefined
  }

  async #takeReleased({ tenantId, isolation, placement, locator }: StorageLocation): Promise<boolean> {
    const taken = await this.#tables()
      .updateTable('tenants')
      .set({ isolation, placement, locator })
      .where('id', '=', tenantId)
      .where('locator', '=', releasedLocator(tenantId))
      .where('purgedAt', 'is not', null)
      .returning('id')
      .executeTakeFirst()
    return taken !== undefined
  }

  #tables() {
    return this.#kernel.database.query<AdoptionTables>()
  }
}

const ownedBy = (owner: string | undefined) =>
  notAdoptable([owner === undefined ? 'it is the storage of a tenant' : `it is the storage of the tenant "${owner}"`])
