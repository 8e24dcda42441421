/**
 * Counts tenants by status, plan, isolation driver and placement. One statement reads all tenants, so the counts are cached: each process
 * loads them every ten seconds while they are requested.
 */
import { LOADED_WITHIN_MS, type Refreshed, refreshed } from '../../kernel/base/cached-query.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { Plans } from '../registry/plans.ts'
import { STATUSES, type Status } from '../tenant/lifecycle.ts'

const EVERY_MS = 10_000

export const COUNTED = ['status', 'plan', 'isolation', 'placement'] as const
export type Counted = (typeof COUNTED)[number]

export interface TenantCount {
  readonly by: Counted
  readonly value: string
  readonly count: number
}

export interface TenantCounts {
  readonly data: TenantCount[]
  /** Time of the count, RFC 3339. */
  readonly asOf: string
}

interface Loaded {
  readonly groups: readonly Group[]
  readonly at: Date
}

interface Group {
  readonly status: Status
  readonly plan: string | null
  readonly isolation: string
  readonly placement: string
  readonly count: number
}

interface CountsDependencies {
  readonly kernel: Pick<Kernel, 'database' | 'clock'>
  readonly plans: Plans
  readonly storage: Storage
}

export class Counts {
  readonly #dependencies: CountsDependencies
  readonly #cached: Refreshed<Loaded>

  constructor(dependencies: CountsDependencies) {
    this.#dependencies = dependencies
    this.#cached = refreshed(() => this.#load(), { everyMs: EVERY_MS })
  }

  /**
   * Values in use and configured values, each with its number of tenants. Deleted tenants are counted by status only. Without `by`, by all
   * members; by plan unless the host resolves plans. `E_PLAN_RESOLVED_BY_HOST`
   */
  async get(by?: readonly Counted[]): Promise<TenantCounts> {
    const { plans } = this.#dependencies
    if (by?.includes('plan')) plans.assertInMetadata()
    const { groups, at } = await this.#cached.get()
    const members = by ?? COUNTED.filter((one) => one !== 'plan' || !plans.isDecidedByHost)
    return { data: members.flatMap((one) => this.#countsBy(one, groups)), asOf: at.toISOString() }
  }

  stop(): void {
    this.#cached.stop()
  }

  #countsBy(by: Counted, groups: readonly Group[]): TenantCount[] {
    const counts = new Map(this.#configured(by).map((value) => [value, 0]))
    for (const group of groups) {
      if (by !== 'status' && group.status === 'deleted') continue
      const value = by === 'plan' ? this.#dependencies.plans.named(group.plan) : group[by]
      counts.set(value, (counts.get(value) ?? 0) + group.count)
    }
    return Array.from(counts, ([value, count]) => ({ by, value, count }))
  }

  #configured(by: Counted): readonly string[] {
    const { plans, storage } = this.#dependencies
    if (by === 'status') return STATUSES
    if (by === 'plan') return Object.keys(plans.describe().definitions)
    return by === 'placement' ? storage.placements : storage.drivers.map(({ name }) => name)
  }

  async #load(): Promise<Loaded> {
    const { database, clock } = this.#dependencies.kernel
    const at = clock.now()
    const { rows } = await database.sql({
      text: `select status, metadata->>'plan' as plan, isolation, placement, count(*)::int as count
        from multitenancy.tenants where purged_at is null group by 1, 2, 3, 4`,
      timeoutMs: LOADED_WITHIN_MS,
    })
    return { groups: rows, at }
  }
}
