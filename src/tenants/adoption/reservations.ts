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
import type { TenantRow, TenantTables } from '../tenant/tables.ts'
import type { AdoptionRow } from './tables.ts'

/** Longer than an adoption takes; the lock at the server decides in any case. */
const LEASE = `interval '2 minutes'`
const LOCATOR_INDEX = 'tenants_locator'
const SETTLED_AT_ONCE = 100
const BACKOFFICE_SERVER = 'main'
/**
 * The commit of the reservation does not wait for the disk. The commit at the same server, which follows it in the WAL,
 * does: a crash of the server never keeps an adoption without its reservation.
 */
const WITHOUT_WAITING = `(select set_config('synchronous_commit', 'off', true) offset 0) as asynchronous`

/** Whether no erased tenant has the id and no former storage of a tenant the location. @param id as SQL, as all */
const isFree = (id: string, isolation: string, placement: string, locator: string): string =>
  `(not exists (select from multitenancy.erasures e where e.tenant_id = ${id}) and not exists (select from multitenancy.storage_locations l
    where l.isolation = ${isolation} and l.placement = ${placement} and l.locator = ${locator}))`

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
      const row = await this.#insert(request, reservation)
      if (row) return row
    } catch (error) {
      if (violatedConstraint(error) === LOCATOR_INDEX) throw ownedBy(await this.ownerOf(request.location))
      throw error
    }
    const { tenantId } = request.location
    if (!(await this.#isErased(tenantId)) && (await this.isIdTaken(tenantId))) {
      throw TenantExists(`Tenant id "${tenantId}" is taken. Ids are never reused, not even after a purge.`)
    }
    throw await this.#notFree(request.location)
  }

  /** Takes a new id, or that of a released tenant. Undefined if the id or the storage is not free. */
  async #insert(
    { location, baseline }: AdoptionRequest,
    { name, metadata, digest }: ReservationRequest,
  ): Promise<AdoptionRow | undefined> {
    const { tenantId, isolation, placement, locator } = location
    const { database, clock } = this.#kernel
    const [adoptionId, migrations, state] = [uuidv7(), [...baseline], 'adopting' as const]
    const isDurable = placement !== BACKOFFICE_SERVER || database.inTransaction
    const { rows } = await database.sql(
      `with reserved as (
         insert into multitenancy.tenants as t (id, name, status, metadata, domains, isolation, placement, locator, epoch, last_epoch,
           created_at, updated_at, deleted_at, purged_at)
         select $1, '', 'deleted', '{}', '{}', $3, $4, $5, 1, 0, $10, $10, $10, $10 where ${isFree('$1', '$3', '$4', '$5')}
         on conflict (id) do update set isolation = excluded.isolation, placement = excluded.placement, locator = excluded.locator
           where t.locator = $11 and t.purged_at is not null
         returning xmax <> 0 as was_released)
       insert into multitenancy.adoptions (tenant_id, adoption_id, isolation, placement, locator, state, name, metadata, migrations,
         digest, was_released, lease_until)
       select $1, $2, $3, $4, $5, '${state}', $6, $7, $8, $9, was_released, now() + ${LEASE}
       from reserved${isDurable ? '' : `, ${WITHOUT_WAITING}`}
       returning was_released as "wasReleased", lease_until as "leaseUntil", created_at as "createdAt"`,
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
        clock.now(),
        releasedLocator(tenantId),
      ],
    )
    return (
      rows[0] && {
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
        ...rows[0],
      }
    )
  }

  /**
   * Throws if another process has removed the reservation, or if id or storage was not free: a change that committed
   * while the reservation waited for it.
   */
  async assertHeld({ tenantId, adoptionId, isolation, placement, locator }: AdoptionRow): Promise<void> {
    const { rows } = await this.#kernel.database.sql(
      `select ${isFree('a.tenant_id', 'a.isolation', 'a.placement', 'a.locator')} as "isFree" from multitenancy.adoptions a
       where tenant_id = $1 and adoption_id = $2 and state = 'adopting'`,
      [tenantId, adoptionId],
    )
    if (!rows[0]) throw notAdoptable(['the adoption took too long and was abandoned: make the plan again'])
    if (!rows[0].isFree) throw await this.#notFree({ tenantId, isolation, placement, locator, epoch: 1 })
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

  /** In the transaction that activates the tenant. Undefined if another process has done so. */
  async finish(
    { tenantId, adoptionId, name, metadata }: AdoptionRow,
    schemaVersion: string,
  ): Promise<TenantRow | undefined> {
    const now = this.#kernel.clock.now()
    return this.#tables()
      .with('finished', (one) =>
        one
          .updateTable('adoptions')
          .set({ state: 'adopted' })
          .where('tenantId', '=', tenantId)
          .where('adoptionId', '=', adoptionId)
          .where('state', '=', 'adopting')
          .returning('tenantId'),
      )
      .updateTable('tenants')
      .from('finished')
      .set(({ eb }) => ({
        name,
        metadata,
        schemaVersion,
        status: 'active',
        createdAt: now,
        updatedAt: now,
        activatedAt: now,
        epoch: eb('lastEpoch', '+', 1),
        lastEpoch: eb('lastEpoch', '+', 1),
        suspendedAt: null,
        statusBefore: null,
        deletedAt: null,
        purgeAt: null,
        purgeStartedAt: null,
        purgedAt: null,
      }))
      .whereRef('id', '=', 'finished.tenantId')
      .returningAll('tenants')
      .executeTakeFirst()
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

  async #notFree(location: StorageLocation): Promise<Error> {
    const { tenantId } = location
    return (await this.#isErased(tenantId))
      ? TenantExists(`Tenant id "${tenantId}" is taken: the tenant was erased.`)
      : ownedBy(await this.ownerOf(location))
  }

  #tables() {
    return this.#kernel.database.query<AdoptionTables>()
  }
}

const ownedBy = (owner: string | undefined) =>
  notAdoptable([owner === undefined ? 'it is the storage of a tenant' : `it is the storage of the tenant "${owner}"`])
