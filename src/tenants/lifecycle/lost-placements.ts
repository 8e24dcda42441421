/**
 * Records permanently lost servers, whose storage needs no drop. Only an operator can declare a server lost, after it
 * was removed from the configuration. Before that, drops on it fail and are repeated, as for an unavailable server.
 */
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { DropOptions, StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { PlacementInUse, PlacementNotFound } from '../tenant/errors.ts'

export interface LostPlacement {
  readonly placement: string
  /** Number of tenants with storage there. They are not deleted: an active tenant can be restored on another server. */
  readonly tenants: number
  /** Number of former storage locations there. */
  readonly left: number
}

export interface DropRequest extends DropOptions {
  readonly release?: ((location: StorageLocation) => Promise<unknown>) | undefined
}

export class LostPlacements {
  readonly #kernel: Pick<Kernel, 'database' | 'canWrite' | 'events' | 'clock'>
  readonly #storage: Storage
  readonly #outbox: Pick<Outbox, 'empty' | 'forget'>

  constructor(
    kernel: Pick<Kernel, 'database' | 'canWrite' | 'events' | 'clock'>,
    storage: Storage,
    outbox: Pick<Outbox, 'empty' | 'forget'>,
  ) {
    this.#kernel = kernel
    this.#storage = storage
    this.#outbox = outbox
  }

  /** A configured placement is not lost: its name may be used for a new server. */
  async start(): Promise<void> {
    if (!this.#kernel.canWrite) return
    await this.#kernel.database.sql('delete from multitenancy.lost_placements where placement = any ($1)', [
      this.#storage.placements,
    ])
  }

  /** `E_PLACEMENT_IN_USE` if this process has it configured, `E_PLACEMENT_NOT_FOUND` if no storage was ever there. */
  async forget(placement: string): Promise<LostPlacement> {
    const { database, events, clock } = this.#kernel
    if (this.#storage.placements.includes(placement)) {
      throw PlacementInUse(
        `Placement "${placement}" is configured. Remove it from the configuration of every process first.`,
      )
    }
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `select (select count(*) from multitenancy.tenants where placement = $1 and purged_at is null) as tenants,
           (select count(*) from multitenancy.storage_locations where placement = $1) as left`,
        [placement],
      )
      const found: LostPlacement = { placement, ...rows[0] }
      if (found.tenants + found.left === 0)
        throw PlacementNotFound(`Placement "${placement}" not found: no tenant has storage there.`)
      const inserted = await database.sql(
        'insert into multitenancy.lost_placements (placement, lost_at) values ($1, $2) on conflict do nothing returning placement',
        [placement, clock.now()],
      )
      if (inserted.rows.length > 0) {
        await recordChange(events, {
          action: 'placements.forget',
          tenantId: null,
          target: `placement:${placement}`,
          after: { tenants: found.tenants, left: found.left },
        })
      }
      return found
    })
  }

  /**
   * Relays the outbox of storage, then drops the storage. No effect on a lost server.
   * @param options `release` is called instead of the drop
   */
  async drop(location: StorageLocation, { release, onRows }: DropRequest = {}): Promise<void> {
    if (this.#storage.placements.includes(location.placement) || !(await this.#isLost(location.placement))) {
      await this.#outbox.empty(location)
      await (release?.(location) ?? this.#storage.driver(location.isolation).drop(location, { onRows }))
    }
    await this.#outbox.forget(location)
  }

  async #isLost(placement: string): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql('select from multitenancy.lost_placements where placement = $1', [
      placement,
    ])
    return rows.length > 0
  }
}
