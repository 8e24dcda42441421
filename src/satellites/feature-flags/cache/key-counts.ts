/**
 * Counts the tenants of each flag key by state. The keys are read from key to key by the index, so other tenants cost nothing. The counts
 * of a key with many tenants are kept for some seconds: they read each of its rows.
 */
import { LRUCache } from 'lru-cache'
import { DEFAULT_LIMIT, type PageOf, type PageOptions } from '../../../kernel/api/page.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import type { FlagKeyCounts } from '../model/flag.ts'

/** Tenants from which the counts of a key are kept. */
const MANY_TENANTS = 10_000
const KEPT_MS = 30_000
const KEPT_KEYS = 5_000
/** Keys that a page of a search compares. */
const MAX_COMPARED = 10_000

/**
 * Found keys in order, and the last compared one if more may follow it.
 *
 * `$1`: the key before; `$2`: part of a key in lower case; `$3`: maximum of keys.
 */
const KEYS = `
  with recursive keys as (
    (select key, 1 as position from multitenancy.feature_flags where $1::text is null or key > $1 order by key limit 1)
    union all
    select (select f.key from multitenancy.feature_flags f where f.key > keys.key order by f.key limit 1), position + 1
    from keys where keys.key is not null and ($2::text is null or position < ${MAX_COMPARED})),
  compared as (
    select key, $2::text is null or strpos(lower(key), $2) > 0 as "isFound", $2::text is not null and position = ${MAX_COMPARED} as "isLast"
    from keys where key is not null)
  select * from compared where "isFound" or "isLast" limit $3`

const COUNTS = `
  select key, count(*) as tenants, count(*) filter (where enabled and rollout_percent is null) as "on",
    count(*) filter (where enabled and rollout_percent is not null) as "inRollout",
    count(*) filter (where not enabled) as off
  from multitenancy.feature_flags where key = any($1) group by key`

export interface KeyFilter {
  /** Part of a key, in any case. */
  readonly q?: string | undefined
}

interface ComparedKey {
  readonly key: string
  readonly isFound: boolean
  readonly isLast: boolean
}

export class KeyCounts {
  readonly #kernel: Pick<Kernel, 'database' | 'cursors'>
  readonly #kept = new LRUCache<string, FlagKeyCounts>({ max: KEPT_KEYS, ttl: KEPT_MS })

  constructor(kernel: Pick<Kernel, 'database' | 'cursors'>) {
    this.#kernel = kernel
  }

  /** A page of a search ends at the last compared key, so it may have fewer keys than the limit, or none, and a cursor. */
  async list({ q, limit = DEFAULT_LIMIT, cursor }: KeyFilter & PageOptions): Promise<PageOf<FlagKeyCounts>> {
    const { database, cursors } = this.#kernel
    const list = JSON.stringify(['featureFlags.keys', q])
    const [after] = cursors.decode(list, cursor) ?? []
    const compared: readonly ComparedKey[] = (
      await database.sql(KEYS, [after ?? null, q?.toLowerCase() ?? null, limit + 1])
    ).rows
    const keys = compared.flatMap(({ key, isFound }) => (isFound ? [key] : []))
    const shown = keys.slice(0, limit)
    const last = keys.length > limit ? shown.at(-1) : compared.find(({ isLast }) => isLast)?.key
    return {
      data: await this.#counts(shown),
      nextCursor: last === undefined ? null : cursors.encode(list, [last]),
    }
  }

  /** In the order of the keys. A key whose last flag was deleted meanwhile is left out. */
  async #counts(keys: readonly string[]): Promise<FlagKeyCounts[]> {
    const found = new Map(keys.map((key) => [key, this.#kept.get(key)]))
    const unknown = keys.filter((key) => !found.get(key))
    const { rows } = unknown.length === 0 ? { rows: [] } : await this.#kernel.database.sql(COUNTS, [unknown])
    for (const counts of rows as FlagKeyCounts[]) {
      found.set(counts.key, counts)
      if (counts.tenants >= MANY_TENANTS) this.#kept.set(counts.key, counts)
    }
    return [...found.values()].flatMap((counts) => counts ?? [])
  }
}
