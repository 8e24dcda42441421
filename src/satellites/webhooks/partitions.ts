/**
 * Retention. Messages, deliveries and attempts are kept in partitions by time; what is past its retention goes by dropping one, at
 * once, however many rows it has. A partition spans a third of the retention, so that claims have few to look at: deliveries are kept
 * for `retentionDays` at least, and for a third more at most.
 *
 * Partitions are made ahead of time; what came when there was none is in the default one, and is moved out of it when its
 * partition is made. Any number of processes may do this at once: one does, the others find it done.
 */

import { floorOfUuidsAt } from '../../kernel/ids.ts'
import type { Kernel } from '../../kernel/kernel.ts'

const DAY_MS = 86_400_000
const KINDS = ['messages', 'deliveries', 'attempts'] as const
const KEYS = { messages: 'id', deliveries: 'id', attempts: 'delivery_id' } as const
/** Partitions beyond the present one. */
const AHEAD = 2
/** Others wait behind a lock on a whole table: rather this is tried again later. */
const LOCK_TIMEOUT_MS = 3_000
/** Any constant will do; it is ours in every database. */
const LOCK_KEY = 7_367_228_007
const TALLIES_KEPT = '1 day'

interface Partition {
  /** `20261122`: the day it begins. */
  readonly suffix: string
  readonly from: Date
  readonly to: Date
}

export interface Kept {
  readonly made: number
  readonly dropped: number
}

/** How many days one spans. */
export const daysOfPartition = (retentionDays: number): number => Math.max(1, Math.ceil(retentionDays / 3))

export class Partitions {
  readonly #kernel: Kernel
  readonly #retentionDays: number

  constructor(kernel: Kernel, retentionDays: number) {
    this.#kernel = kernel
    this.#retentionDays = retentionDays
  }

  /** Makes those that will be needed, and drops those whose time is over. */
  async keep(): Promise<Kept> {
    const { database, clock } = this.#kernel
    return database.transaction(async () => {
      await database.sql(`select set_config('lock_timeout', $1, true)`, [`${LOCK_TIMEOUT_MS}`])
      await database.sql('select pg_advisory_xact_lock($1)', [LOCK_KEY])
      const now = clock.now()
      const known = await this.#known()
      const made = await this.#make(known, now)
      const dropped = await this.#drop(known, now)
      return { made, dropped }
    })
  }

  async #make(known: readonly Partition[], now: Date): Promise<number> {
    const spanMs = daysOfPartition(this.#retentionDays) * DAY_MS
    let last = known.at(-1)?.to ?? new Date(Math.floor(now.getTime() / DAY_MS) * DAY_MS)
    let made = 0
    while (last.getTime() < now.getTime() + AHEAD * spanMs) {
      const to = new Date(last.getTime() + spanMs)
      for (const kind of KINDS) await this.#makeOne(kind, last, to)
      last = to
      made += 1
    }
    return made
  }

  async #makeOne(kind: (typeof KINDS)[number], from: Date, to: Date): Promise<void> {
    const { database } = this.#kernel
    const table = `multitenancy.webhook_${kind}`
    const one = `${table}_${suffixOf(from)}`
    const [low, high] = [floorOfUuidsAt(from.getTime()), floorOfUuidsAt(to.getTime())]
    await database.sql(`lock table ${table}_others in access exclusive mode`)
    await database.sql(`create table ${one} (like ${table} including defaults including constraints)`)
    await database.sql(
      `with moved as (delete from ${table}_others where ${KEYS[kind]} >= $1 and ${KEYS[kind]} < $2 returning *)
       insert into ${one} select * from moved`,
      [low, high],
    )
    await database.sql(`alter table ${table} attach partition ${one} for values from ('${low}') to ('${high}')`)
  }

  async #drop(known: readonly Partition[], now: Date): Promise<number> {
    const { database } = this.#kernel
    const until = new Date(now.getTime() - this.#retentionDays * DAY_MS)
    const over = known.filter(({ to }) => to <= until)
    for (const { suffix } of over) {
      const tables = KINDS.map((kind) => `multitenancy.webhook_${kind}_${suffix}`)
      await database.sql(`drop table ${tables.join(', ')}`)
    }
    for (const kind of KINDS) {
      await database.sql(`delete from multitenancy.webhook_${kind}_others where ${KEYS[kind]} < $1`, [
        floorOfUuidsAt(until.getTime()),
      ])
    }
    await database.sql(
      `delete from multitenancy.webhook_tallies where since < $1::timestamptz - interval '${TALLIES_KEPT}'`,
      [now],
    )
    await database.sql(
      'delete from multitenancy.webhook_subscriptions where coalesce(deleted_at, listening_until) < $1',
      [until],
    )
    return over.length
  }

  /** Those there are, the oldest first; the default one apart. */
  async #known(): Promise<Partition[]> {
    const { rows } = await this.#kernel.database.sql(
      `select relname as name, pg_get_expr(relpartbound, pg_class.oid) as bounds
       from pg_inherits join pg_class on pg_class.oid = inhrelid
       where inhparent = 'multitenancy.webhook_deliveries'::regclass order by relname`,
    )
    return rows.flatMap(({ name, bounds }) => {
      const [, low, high] = /FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)/.exec(bounds) ?? []
      if (!low || !high) return []
      return [{ suffix: name.replace('webhook_deliveries_', ''), from: timeOf(low), to: timeOf(high) }]
    })
  }
}

const suffixOf = (from: Date): string => from.toISOString().slice(0, 10).replaceAll('-', '')

const timeOf = (floor: string): Date => new Date(Number.parseInt(floor.replace('-', '').slice(0, 12), 16))
