/**
 * Retention. Messages, deliveries and attempts are kept in partitions by time; what is past its retention goes by dropping one of
 * each, at once, however many rows they have. A partition spans a third of the retention, so that claims have few to look at:
 * deliveries are kept for `retentionDays` at least, and for a third more at most. When that is changed, those that were made before
 * keep their span.
 *
 * - Partitions are made ahead of time. What came when there was none is in the default one, and is moved out of it when its
 *   partition is made.
 * - Each step is a transaction that makes, or drops, one partition of all three tables; which one is decided anew from what there
 *   is. Only one process takes steps at a time, the others leave it to that one.
 * - A step locks tables, and whoever needs them meanwhile waits behind it: it is retried on locks.
 */
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import { LOCK_TIMEOUT_MS, type RetryOptions, retryOnLock } from '../../../kernel/database/lock-retry.ts'
import type { Kernel } from '../../../kernel/kernel.ts'

const DAY_MS = 86_400_000
const KINDS = ['messages', 'deliveries', 'attempts'] as const
const KEYS = { messages: 'id', deliveries: 'id', attempts: 'delivery_id' } as const
/** Partitions beyond the present one. */
const AHEAD = 2
/** Any constant will do; it is ours in every database. */
const LOCK_KEY = 7_367_228_007
const TALLIES_KEPT = '1 day'

/** From midnight to midnight, UTC. */
export interface Partition {
  readonly from: Date
  readonly to: Date
}

export type Step = { readonly make: Partition } | { readonly drop: Partition }

export interface Kept {
  readonly made: number
  readonly dropped: number
  /** False when somebody held a lock for too long; the next run does the rest. */
  readonly isComplete: boolean
}

/** How many days one spans. */
export const daysOfPartition = (retentionDays: number): number => Math.max(1, Math.ceil(retentionDays / 3))

/** What is to be done first; undefined when everything is as it is to be. @param known the oldest first */
export function nextStep(known: readonly Partition[], now: Date, retentionDays: number): Step | undefined {
  const spanMs = daysOfPartition(retentionDays) * DAY_MS
  const keptFrom = now.getTime() - retentionDays * DAY_MS
  // When nobody has made any for long: of what is not kept any more none is needed.
  const end = Math.max(known.at(-1)?.to.getTime() ?? dayOf(now.getTime()), dayOf(keptFrom))
  if (end < now.getTime() + AHEAD * spanMs) return { make: { from: new Date(end), to: new Date(end + spanMs) } }
  const [oldest] = known
  return oldest && oldest.to.getTime() <= keptFrom ? { drop: oldest } : undefined
}

export class Partitions {
  readonly #kernel: Kernel
  readonly #retentionDays: number

  constructor(kernel: Kernel, retentionDays: number) {
    this.#kernel = kernel
    this.#retentionDays = retentionDays
  }

  /** Makes those that will be needed, and drops those whose time is over, with what has no partitions. */
  async keep(retry?: RetryOptions): Promise<Kept> {
    const done = { made: 0, dropped: 0 }
    const isComplete = await retryOnLock(async () => {
      for (let step = await this.#step(); step; step = await this.#step())
        done['make' in step ? 'made' : 'dropped'] += 1
      await this.#alone(() => this.#trim())
      return true
    }, retry)
    if (!isComplete)
      this.#kernel.log.info('somebody has locked the tables of webhooks; their partitions are kept later')
    return { ...done, isComplete: isComplete ?? false }
  }

  /** Those there are, the oldest first; the default one apart. */
  async known(): Promise<Partition[]> {
    const { rows } = await this.#kernel.database.sql(
      `select pg_get_expr(relpartbound, pg_class.oid) as bounds
       from pg_inherits join pg_class on pg_class.oid = inhrelid
       where inhparent = 'multitenancy.webhook_deliveries'::regclass order by relname`,
    )
    return rows.flatMap(({ bounds }) => {
      const [, low, high] = /FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)/.exec(bounds) ?? []
      return low && high ? [{ from: timeOf(low), to: timeOf(high) }] : []
    })
  }

  /** Whether something is in no partition that has, or will have, one of its time. */
  async hasUnpartitioned(known: readonly Partition[]): Promise<boolean> {
    const { database, clock } = this.#kernel
    const until = known.at(-1)?.to.getTime() ?? 0
    const rows = KINDS.map(
      (kind) => `select from multitenancy.webhook_${kind}_others where ${KEYS[kind]} >= $1 and ${KEYS[kind]} < $2`,
    )
    const result = await database.sql(`select exists (${rows.join(' union all ')}) as "hasUnpartitioned"`, [
      floorOfUuidsAt(known[0]?.from.getTime() ?? 0),
      floorOfUuidsAt(Math.max(until, clock.now().getTime() + DAY_MS)),
    ])
    return result.rows[0].hasUnpartitioned
  }

  #step(): Promise<Step | undefined> {
    return this.#alone(async () => {
      const step = nextStep(await this.known(), this.#kernel.clock.now(), this.#retentionDays)
      if (step && 'make' in step) await this.#make(step.make)
      else if (step) await this.#drop(step.drop)
      return step
    })
  }

  /** Nothing when another process is at it. */
  #alone<T>(work: () => Promise<T>): Promise<T | undefined> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      const { rows } = await database.sql(
        `select set_config('lock_timeout', '${LOCK_TIMEOUT_MS}ms', true), pg_try_advisory_xact_lock(${LOCK_KEY}) as is_ours`,
      )
      return rows[0].is_ours ? work() : undefined
    })
  }

  async #make({ from, to }: Partition): Promise<void> {
    const { database } = this.#kernel
    const [low, high] = [floorOfUuidsAt(from.getTime()), floorOfUuidsAt(to.getTime())]
    for (const kind of KINDS) {
      const like = `multitenancy.webhook_${kind} including defaults including constraints`
      await database.sql(`create table ${nameOf(kind, from)} (like ${like})`)
    }
    const others = KINDS.map((kind) => `multitenancy.webhook_${kind}_others`)
    await database.sql(`lock table ${others.join(', ')} in access exclusive mode`)
    for (const kind of KINDS) {
      await database.sql(
        `with moved as (
           delete from multitenancy.webhook_${kind}_others where ${KEYS[kind]} >= $1 and ${KEYS[kind]} < $2 returning *)
         insert into ${nameOf(kind, from)} select * from moved`,
        [low, high],
      )
      await database.sql(
        `alter table multitenancy.webhook_${kind} attach partition ${nameOf(kind, from)} for values from ('${low}') to ('${high}')`,
      )
    }
  }

  async #drop({ from }: Partition): Promise<void> {
    await this.#kernel.database.sql(`drop table ${KINDS.map((kind) => nameOf(kind, from)).join(', ')}`)
  }

  /** What is past its retention and in no partition, and subscriptions that were deleted before the oldest delivery there is. */
  async #trim(): Promise<void> {
    const { database, clock } = this.#kernel
    const now = clock.now()
    const keptFrom = new Date(now.getTime() - this.#retentionDays * DAY_MS)
    for (const kind of KINDS) {
      await database.sql(`delete from multitenancy.webhook_${kind}_others where ${KEYS[kind]} < $1`, [
        floorOfUuidsAt(keptFrom.getTime()),
      ])
    }
    await database.sql(
      `delete from multitenancy.webhook_counters where since < $1::timestamptz - interval '${TALLIES_KEPT}'`,
      [now],
    )
    const [oldest] = await this.known()
    const first = oldest && oldest.from < keptFrom ? oldest.from : keptFrom
    await database.sql(
      'delete from multitenancy.webhook_subscriptions where coalesce(deleted_at, listening_until) < $1',
      [first],
    )
  }
}

const dayOf = (ms: number): number => Math.floor(ms / DAY_MS) * DAY_MS

const nameOf = (kind: (typeof KINDS)[number], from: Date): string =>
  `multitenancy.webhook_${kind}_${from.toISOString().slice(0, 10).replaceAll('-', '')}`

const timeOf = (floor: string): Date => new Date(Number.parseInt(floor.replace('-', '').slice(0, 12), 16))
