/**
 * Creates and drops the time partitions of messages, deliveries and attempts.
 *
 * - A partition spans a third of the retention. Deliveries stay for `retentionDays` at least, and a third longer at most.
 * - Partitions are created ahead of time. Rows without a partition are in the default partition, until theirs is created.
 * - A step is one transaction: it creates or drops one partition of all three tables. One process at a time takes steps.
 * - A step locks tables and delays other statements, so it is retried on lock timeouts.
 */
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import { LOCK_TIMEOUT_MS, type RetryOptions, retryOnLock } from '../../../kernel/database/lock-retry.ts'
import type { Kernel } from '../../../kernel/kernel.ts'

const DAY_MS = 86_400_000
const KINDS = ['messages', 'deliveries', 'attempts'] as const
const KEYS = { messages: 'id', deliveries: 'id', attempts: 'delivery_id' } as const
/** Number of partitions after the current one. */
const AHEAD = 2
/** Advisory lock; any constant. */
const LOCK_KEY = 7_367_228_007
const COUNTERS_RETENTION = '1 day'

/** From midnight to midnight, UTC. */
export interface Partition {
  readonly from: Date
  readonly to: Date
}

export type Step = { readonly make: Partition } | { readonly drop: Partition }

export interface MaintenanceResult {
  readonly made: number
  readonly dropped: number
  /** False if another session held a lock for too long. The next run continues. */
  readonly isComplete: boolean
}

/** Span of a partition in days. */
export const daysOfPartition = (retentionDays: number): number => Math.max(1, Math.ceil(retentionDays / 3))

/** The next step; undefined if the partitions are complete. @param known the oldest first */
export function nextStep(known: readonly Partition[], now: Date, retentionDays: number): Step | undefined {
  const spanMs = daysOfPartition(retentionDays) * DAY_MS
  const keptFrom = now.getTime() - retentionDays * DAY_MS
  // After a long pause of all processes: skips partitions past the retention.
  const end = Math.max(known.at(-1)?.to.getTime() ?? dayOf(now.getTime()), dayOf(keptFrom))
  if (end < now.getTime() + AHEAD * spanMs) return { make: { from: new Date(end), to: new Date(end + spanMs) } }
  const [oldest] = known
  return oldest && oldest.to.getTime() <= keptFrom ? { drop: oldest } : undefined
}

export class Partitions {
  /** With the partitioned tables. */
  readonly database: Kernel['database']
  readonly #kernel: Kernel
  readonly #retentionDays: number

  constructor(kernel: Kernel, retentionDays: number) {
    this.database = kernel.database
    this.#kernel = kernel
    this.#retentionDays = retentionDays
  }

  /** Creates future partitions, and deletes everything past its retention. */
  async keep(retry?: RetryOptions): Promise<MaintenanceResult> {
    const done = { made: 0, dropped: 0 }
    const isComplete = await retryOnLock(async () => {
      for (let step = await this.#step(); step; step = await this.#step())
        done['make' in step ? 'made' : 'dropped'] += 1
      await this.#alone(() => this.#trim())
      return true
    }, retry)
    if (!isComplete)
      this.#kernel.log.info('webhook tables are locked by another session; the next run maintains their partitions')
    return { ...done, isComplete: isComplete ?? false }
  }

  /** All partitions, oldest first, without the default partition. */
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

  /** True if the default partition has rows whose partition exists or will be created. */
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

  /** Deletes rows of the default partition past their retention, and subscriptions deleted before the oldest delivery. */
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
      `delete from multitenancy.webhook_counters where since < $1::timestamptz - interval '${COUNTERS_RETENTION}'`,
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
