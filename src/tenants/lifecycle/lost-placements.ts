/**
 * Servers that are gone for good. Nothing can be dropped on them, and nothing has to be: what tenants had there is gone with them. That
 * is for an operator to say, of a server that is configured no more; until then a drop there fails and is tried again, as it must be
 * of a server that is only away, or that somebody forgot to configure.
 */
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { StorageLocation } from '../isolation/driver.ts'
import type { Storage } from '../isolation/drivers.ts'
import { PlacementInUse, PlacementNotFound } from '../tenant/errors.ts'

export interface LostPlacement {
  readonly placement: string
  /** Tenants whose storage was there. They are not deleted by this: one that is active can be restored elsewhere. */
  readonly tenants: number
  /** Storage that tenants had left there. */
  readonly left: number
}

export class LostPlacements {
  readonly #kernel: Pick<Kernel, 'database' | 'events' | 'clock'>
  readonly #storage: Storage

  constructor(kernel: Pick<Kernel, 'database' | 'events' | 'clock'>, storage: Storage) {
    this.#kernel = kernel
    this.#storage = storage
  }

  /** What is configured is not lost, whatever was said of another server with this name. */
  async start(): Promise<void> {
    await this.#kernel.database.sql('delete from multitenancy.lost_placements where placement = any ($1)', [
      this.#storage.placements,
    ])
  }

  /** `E_PLACEMENT_IN_USE` while this process is configured with it, `E_PLACEMENT_NOT_FOUND` when nothing was ever there. */
  async forget(placement: string): Promise<LostPlacement> {
    const { database, events, clock } = this.#kernel
    if (this.#storage.placements.includes(placement)) {
      throw PlacementInUse(
        `The placement "${placement}" is configured: take it out of the configuration of every process first.`,
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
        throw PlacementNotFound(`No tenant has anything on a placement "${placement}".`)
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

  /** Drops storage; of a server that is lost there is none. */
  async drop(location: StorageLocation): Promise<void> {
    if (!this.#storage.placements.includes(location.placement) && (await this.#isLost(location.placement))) return
    await this.#storage.driver(location.isolation).drop(location)
  }

  async #isLost(placement: string): Promise<boolean> {
    const { rows } = await this.#kernel.database.sql('select from multitenancy.lost_placements where placement = $1', [
      placement,
    ])
    return rows.length > 0
  }
}
