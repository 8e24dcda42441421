/**
 * Rows of the backoffice for adoptions of shared tables. All tenants of one adoption are reserved, activated and deleted
 * by statements for many tenants, in one transaction each.
 *
 *   adopting ──server committed──► adopted ──release──► releasing ──all tenants purged──► (no row)
 *      └──server unchanged──► (no row)
 *
 * During `adopting`, an empty row of `tenants` reserves each id, as that of a purged tenant does.
 */
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type AdoptedTenant, notAdoptable } from '../isolation/adoption.ts'
import { TenantExists, TenantState } from '../tenant/errors.ts'
import type { RowAdoptionRow } from './tables.ts'

/** Longer than an adoption takes; the lock at the server decides in any case. */
const LEASE = `interval '5 minutes'`
const BATCH = 1_000
const SHOWN = 5

const COLUMNS = `adoption_id as "adoptionId", isolation, placement, storage, state, metadata, migrations, digest`

export type RowReservationRequest = Pick<
  RowAdoptionRow,
  'isolation' | 'placement' | 'storage' | 'metadata' | 'migrations' | 'digest'
>

export class RowReservations {
  readonly #kernel: Pick<Kernel, 'database' | 'clock'>

  constructor(kernel: Pick<Kernel, 'database' | 'clock'>) {
    this.#kernel = kernel
  }

  /** Reasons against an adoption of the tables of this placement by these tenants. */
  async reasonsAgainst(isolation: string, placement: string, tenants: readonly AdoptedTenant[]): Promise<string[]> {
    const present = await this.find(isolation, placement)
    const taken = await this.#takenOf(tenants.map(({ id }) => id))
    return [
      ...(present
        ? [`the tables of ${isolation} on "${placement}" are being adopted or released, or were adopted`]
        : []),
      ...((await this.#hasTenants(isolation, placement)) ? [`${isolation} has tenants on "${placement}"`] : []),
      ...(taken.length > 0 ? [`${taken.length} tenant ids are taken: ${listed(taken)}`] : []),
    ]
  }

  /** `E_TENANT_EXISTS` for a taken id, `E_NOT_ADOPTABLE` if the tables are in use. */
  async reserve(request: RowReservationRequest, tenants: readonly AdoptedTenant[]): Promise<RowAdoptionRow> {
    const { database, clock } = this.#kernel
    const { isolation, placement, storage, metadata, migrations, digest } = request
    return database.transaction(async () => {
      const adoptionId = uuidv7()
      const { rows: made } = await database.sql(
        `insert into multitenancy.row_adoptions (adoption_id, isolation, placement, storage, state, metadata, migrations, digest, lease_until)
         values ($1, $2, $3, $4, 'adopting', $5, $6, $7, now() + ${LEASE}) on conflict do nothing returning adoption_id`,
        [adoptionId, isolation, placement, storage, JSON.stringify(metadata), migrations, digest],
      )
      if (made.length === 0 || (await this.#hasTenants(isolation, placement))) {
        throw notAdoptable([`the tables of ${isolation} on "${placement}" are in use`])
      }
      // Concurrent adoptions lock in one order: new ids, then existing ones.
      const batches = batchesOf(tenants.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
      const others: string[] = []
      for (const batch of batches) others.push(...(await this.#insertEmpty(request, batch, clock.now())))
      const taken = new Set(await this.#takeReleased(request, others))
      const erased = await this.#erasedOf(tenants.map(({ id }) => id))
      const refused = [...others.filter((id) => !taken.has(id)), ...erased]
      if (refused.length > 0) throw TenantExists(`${refused.length} tenant ids are taken: ${listed(refused)}.`)
      for (const batch of batches) {
        await database.sql(
          `insert into multitenancy.row_adoption_tenants (tenant_id, adoption_id, name, was_released)
           select id, $1, name, id = any($4) from unnest($2::text[], $3::text[]) as tenant (id, name)`,
          [adoptionId, batch.map(({ id }) => id), batch.map(({ name }) => name), others],
        )
      }
      return { adoptionId, ...request, state: 'adopting' }
    })
  }

  /** Returns the ids that exist. */
  async #insertEmpty(
    { isolation, placement }: RowReservationRequest,
    batch: readonly AdoptedTenant[],
    now: Date,
  ): Promise<string[]> {
    const ids = batch.map(({ id }) => id)
    const { rows: inserted } = await this.#kernel.database.sql(
      `insert into multitenancy.tenants (id, name, status, metadata, domains, isolation, placement, locator, epoch, last_epoch,
         created_at, updated_at, deleted_at, purged_at)
       select id, '', 'deleted', '{}', '{}', $2, $3, id, 1, 0, $4, $4, $4, $4 from unnest($1::text[]) id
       on conflict do nothing returning id`,
      [ids, isolation, placement, now],
    )
    const isNew = new Set(inserted.map(({ id }) => id))
    return ids.filter((id) => !isNew.has(id))
  }

  /** Returns the ids of released tenants. */
  async #takeReleased({ isolation, placement }: RowReservationRequest, ids: readonly string[]): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql(
      `with released as (
         select id from multitenancy.tenants
         where id = any($1) and locator = 'released ' || id and purged_at is not null order by id for update)
       update multitenancy.tenants t set isolation = $2, placement = $3, locator = t.id from released where t.id = released.id
       returning t.id`,
      [ids, isolation, placement],
    )
    return rows.map(({ id }) => id)
  }

  /** Throws if another process has removed the reservation. */
  async assertHeld({ adoptionId }: RowAdoptionRow): Promise<void> {
    const { rows } = await this.#kernel.database.sql(
      `select from multitenancy.row_adoptions where adoption_id = $1 and state = 'adopting'`,
      [adoptionId],
    )
    if (rows.length === 0) throw notAdoptable(['the adoption took too long and was abandoned: make the plan again'])
  }

  async find(isolation: string, placement: string): Promise<RowAdoptionRow | undefined> {
    const { rows } = await this.#kernel.database.sql(
      `select ${COLUMNS} from multitenancy.row_adoptions where isolation = $1 and placement = $2`,
      [isolation, placement],
    )
    return rows[0]
  }

  /** Adoptions whose process was probably killed, and releases whose statements at the server may be incomplete. */
  async unfinished(): Promise<RowAdoptionRow[]> {
    const { rows } = await this.#kernel.database.sql(
      `select ${COLUMNS} from multitenancy.row_adoptions where lease_until < now() and state <> 'adopted' order by lease_until`,
    )
    return rows
  }

  /** Activates all tenants. In a transaction. Undefined if another process has done so. */
  async finish(
    { adoptionId, metadata }: RowAdoptionRow,
    schemaVersion: string | null,
  ): Promise<AdoptedTenant[] | undefined> {
    const { database, clock } = this.#kernel
    const { rows: finished } = await database.sql(
      `update multitenancy.row_adoptions set state = 'adopted' where adoption_id = $1 and state = 'adopting' returning adoption_id`,
      [adoptionId],
    )
    if (finished.length === 0) return undefined
    const { rows } = await database.sql(
      `update multitenancy.tenants t set name = a.name, metadata = $2, schema_version = $3, status = 'active', created_at = $4,
         updated_at = $4, activated_at = $4, epoch = t.last_epoch + 1, last_epoch = t.last_epoch + 1, suspended_at = null,
         status_before = null, deleted_at = null, purge_at = null, purge_started_at = null, purged_at = null
       from multitenancy.row_adoption_tenants a where a.adoption_id = $1 and t.id = a.tenant_id returning t.id, t.name`,
      [adoptionId, JSON.stringify(metadata), schemaVersion, clock.now()],
    )
    await database.sql('delete from multitenancy.row_adoption_tenants where adoption_id = $1', [adoptionId])
    return rows
  }

  /** Removes the reservation of an adoption that changed nothing at the server. Idempotent. */
  async remove({ adoptionId }: RowAdoptionRow): Promise<void> {
    const { database } = this.#kernel
    await database.transaction(async () => {
      const { rows: removed } = await database.sql(
        `delete from multitenancy.row_adoptions where adoption_id = $1 and state = 'adopting' returning adoption_id`,
        [adoptionId],
      )
      if (removed.length === 0) return
      await database.sql(
        `with reserved as (delete from multitenancy.row_adoption_tenants where adoption_id = $1 returning tenant_id, was_released),
           freed as (update multitenancy.tenants t set locator = 'released ' || t.id from reserved where t.id = tenant_id and was_released)
         delete from multitenancy.tenants t using reserved where t.id = tenant_id and not was_released and purged_at is not null`,
        [adoptionId],
      )
    })
  }

  /**
   * Deletes all tenants of the tables, to be purged. In a transaction. `E_TENANT_STATE` if the tables were not adopted,
   * or are in use by a transfer or an installation. Returns the tenants that were not deleted before.
   */
  async beginRelease(
    isolation: string,
    placement: string,
  ): Promise<{
    readonly row: RowAdoptionRow
    readonly tenants: readonly string[]
    readonly deleted: readonly string[]
  }> {
    const { database, clock } = this.#kernel
    const { rows: found } = await database.sql(
      `select ${COLUMNS} from multitenancy.row_adoptions where isolation = $1 and placement = $2 for update`,
      [isolation, placement],
    )
    const row: RowAdoptionRow | undefined = found[0]
    if (!row || row.state === 'adopting') {
      throw TenantState(`The tables of "${isolation}" on "${placement}" were not adopted.`)
    }
    const { rows: before } = await database.sql(
      `select id, status from multitenancy.tenants where isolation = $1 and placement = $2 and purged_at is null order by id for update`,
      [isolation, placement],
    )
    const busy = await this.#busyOf(isolation, placement)
    if (busy.length > 0) {
      throw TenantState(
        `Tenants are being created, moved or erased, or have left their rows there: ${listed(busy)}. Wait until this has ended, or drop the rows.`,
      )
    }
    await database.sql(
      `update multitenancy.tenants set status_before = case status when 'deleted' then status_before else status end, status = 'deleted',
         deleted_at = coalesce(deleted_at, $3), purge_at = $3, purge_started_at = coalesce(purge_started_at, $3), updated_at = $3
       where isolation = $1 and placement = $2 and purged_at is null`,
      [isolation, placement, clock.now()],
    )
    await database.sql(
      `update multitenancy.row_adoptions set state = 'releasing', lease_until = now() + ${LEASE} where adoption_id = $1`,
      [row.adoptionId],
    )
    return {
      row,
      tenants: before.map(({ id }) => id),
      deleted: before.filter(({ status }) => status !== 'deleted').map(({ id }) => id),
    }
  }

  /** Removes the row of a release whose tenants are all purged. */
  async endRelease({ adoptionId, isolation, placement }: RowAdoptionRow): Promise<void> {
    await this.#kernel.database.sql(
      `delete from multitenancy.row_adoptions where adoption_id = $1 and state = 'releasing' and not exists (
         select from multitenancy.tenants where isolation = $2 and placement = $3 and purged_at is null)`,
      [adoptionId, isolation, placement],
    )
  }

  async isReleasing(isolation: string, placement: string): Promise<boolean> {
    return (await this.find(isolation, placement))?.state === 'releasing'
  }

  async #hasTenants(isolation: string, placement: string): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql(
      `select from multitenancy.tenants where isolation = $1 and placement = $2 and purged_at is null
       union all select from multitenancy.storage_locations where isolation = $1 and placement = $2 limit 1`,
      [isolation, placement],
    )
    return rows.length > 0
  }

  async #busyOf(isolation: string, placement: string): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql(
      `select id from multitenancy.tenants where isolation = $1 and placement = $2 and purged_at is null
         and (status = 'provisioning' or held_by is not null or id in (select tenant_id from multitenancy.erasures))
       union select tenant_id from multitenancy.storage_locations where isolation = $1 and placement = $2 order by 1`,
      [isolation, placement],
    )
    return rows.map(({ id }) => id)
  }

  async #takenOf(ids: readonly string[]): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql(
      `select id from multitenancy.tenants where id = any($1) and locator <> 'released ' || id
       union select tenant_id from multitenancy.erasures where tenant_id = any($1) order by 1`,
      [ids],
    )
    return rows.map(({ id }) => id)
  }

  async #erasedOf(ids: readonly string[]): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql(
      'select tenant_id as id from multitenancy.erasures where tenant_id = any($1)',
      [ids],
    )
    return rows.map(({ id }) => id)
  }
}

const batchesOf = <T>(all: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(all.length / BATCH) }, (_, index) => all.slice(index * BATCH, (index + 1) * BATCH))

const listed = (ids: readonly string[]): string =>
  `${ids
    .slice(0, SHOWN)
    .map((id) => `"${id}"`)
    .join(', ')}${ids.length > SHOWN ? ', …' : ''}`
