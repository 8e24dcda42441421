/**
 * Turns counted usage into batches. Every `flushMs` the growth of a quota's daily counter becomes a batch, in the
 * transaction that advances the watermark. So each unit is in exactly one batch, with any number of closing processes.
 *
 * - A watermark belongs to one store, or to one process if the store ends with its process, because counters start at
 *   zero. A counter below its watermark means that the store lost data; counting continues from the counter.
 * - Usage is not billed on days before the tenant has a customer, nor before a quota becomes metered: the first look
 *   at an existing payer sets its watermarks to the counters.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import { uuidv7 } from '../../../kernel/base/ids.ts'
import { DAY_MS, dateOf, dayOf } from '../../../kernel/store/counters.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import type { Customers, Payer } from '../subscriptions/customers.ts'
import { meteredSince } from '../subscriptions/paid-quotas.ts'
import type { Usage } from './usage.ts'

const PAYERS_PER_READ = 50
/** Limits the number of connections. */
const MAX_CONCURRENT_CLOSES = 4

/** Time from which each quota is metered, by quota. */
type Since = ReadonlyMap<string, Date>

interface Counted {
  readonly quota: string
  readonly day: string
  readonly count: number
  readonly at: Date
  /** Without a watermark, the whole count is usage from before the quota was metered. */
  readonly isBefore: boolean
}

/** Unreported usage of one meter. */
export interface Unreported {
  readonly meter: string
  readonly quantity: number
  readonly since: Date
}

export class UsageWindows {
  readonly #dependencies: BillingDependencies
  readonly #customers: Customers
  readonly #usage: Usage
  readonly #store: string
  readonly #timers: NodeJS.Timeout[] = []
  readonly #closing = new Set<Promise<void>>()
  readonly #stopping = new AbortController()

  constructor(dependencies: BillingDependencies, customers: Customers, usage: Usage) {
    this.#dependencies = dependencies
    this.#customers = customers
    this.#usage = usage
    const { name, sums } = dependencies.kernel.store
    this.#store = sums.outliveProcess ? name : `${name} ${uuidv7()}`
  }

  /**
   * Closes windows at the configured intervals, one run at a time per interval. Looks at payers of newly metered quotas
   * first.
   */
  async start(): Promise<void> {
    const { usage } = this.#dependencies.settings
    await this.#safely(() => this.#close(Object.keys(usage), 'new'))
    for (const [flushMs, group] of Map.groupBy(Object.entries(usage), ([, { flushMs }]) => flushMs)) {
      const quotas = group.map(([quota]) => quota)
      let closing: Promise<void> | undefined
      const tick = () => {
        if (closing) return
        const own = this.#safely(() => this.close(quotas)).finally(() => {
          closing = undefined
          this.#closing.delete(own)
        })
        closing = own
        this.#closing.add(own)
      }
      this.#timers.push(setInterval(tick, flushMs).unref())
    }
  }

  /** Resolves when running closes have ended. The usage of other payers is in the next window of any process. */
  async stop(): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    this.#stopping.abort()
    await Promise.all(this.#closing)
  }

  /** Creates batches for the usage of all tenants. Default: all metered quotas. Returns the number of batches. */
  close(quotas: readonly string[] = Object.keys(this.#dependencies.settings.usage)): Promise<number> {
    return this.#close(quotas, 'changed')
  }

  /**
   * Usage of a tenant that the provider has not confirmed: unsent batches and usage that is not in a batch. Only
   * batches while the store is unavailable.
   */
  async unreported(tenantId: string): Promise<Unreported[]> {
    const { database, log } = this.#dependencies.kernel
    // One statement, so that usage that becomes a batch concurrently is not counted twice.
    const { rows } = await database.sql(
      `select meter, null as quota, null as day, sum(quantity)::float8 as quantity, min(used_at) as since
       from multitenancy.billing_usage where tenant_id = $1 and sent_at is null group by meter
       union all
       select null, quota, day::text, counted::float8, null from multitenancy.billing_usage_watermarks where tenant_id = $1 and store = $2`,
      [tenantId, this.#store],
    )
    const waiting: Unreported[] = rows.filter(({ meter }) => meter !== null)
    const marks = new Map<string, number>(
      rows.filter(({ quota }) => quota !== null).map((row) => [keyOf(tenantId, row), row.quantity]),
    )
    let open: Unreported[] = []
    try {
      open = await this.#open(tenantId, marks)
    } catch (error) {
      log.warn({ err: error, tenantId }, 'usage outside of batches could not be read: the store was unavailable')
    }
    return [...Map.groupBy([...waiting, ...open], ({ meter }) => meter)]
      .map(([meter, all]) => ({
        meter,
        quantity: all.reduce((sum, { quantity }) => sum + quantity, 0),
        since: new Date(Math.min(...all.map(({ since }) => since.getTime()))),
      }))
      .sort((a, b) => (a.meter < b.meter ? -1 : 1))
  }

  /**
   * Sets the watermarks of all tenants to their counters, because watermarks restored from a dump are outdated.
   * Includes tenants without a customer, which may have had one after the dump.
   */
  async markAll(): Promise<void> {
    const { database } = this.#dependencies.kernel
    const since = await meteredSince(this.#dependencies)
    if (since.size === 0) return
    const { rows } = await database.sql('select id from multitenancy.tenants where purged_at is null order by id')
    await database.transaction(async () => {
      await database.sql('delete from multitenancy.billing_usage_watermarks where store = $1', [this.#store])
      for (const { id } of rows) {
        for (const one of await this.#counted({ tenantId: id, mappedAt: new Date(0) }, since)) {
          if (one.count > 0) await this.#mark(id, one)
        }
      }
    })
  }

  /** @param which payers with new usage, or payers without a watermark of a newly metered quota */
  async #close(quotas: readonly string[], which: 'changed' | 'new'): Promise<number> {
    if (quotas.length === 0) return 0
    const since = await this.#since(quotas)
    const { signal } = this.#stopping
    const payers = await this.#customers.payers()
    let batches = 0
    for (let first = 0; first < payers.length && !signal.aborted; first += PAYERS_PER_READ) {
      const together = await this.#toClose(payers.slice(first, first + PAYERS_PER_READ), since, which)
      const close = async ({ tenantId }: Payer) => {
        batches += await this.#closeOne(tenantId, since)
      }
      await forEachConcurrent(together, MAX_CONCURRENT_CLOSES, close, signal)
    }
    return batches
  }

  /**
   * Reports the tenant's usage up to now, before its last invoice is created. Failures are only logged and retried
   * later, so they do not block the end of a subscription.
   */
  async reportNow(tenantId: string): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const quotas = Object.keys(this.#dependencies.settings.usage)
    // Outside of the caller's transaction: a sent report cannot be rolled back.
    await database.outside(async () => {
      try {
        if (quotas.length > 0) await this.#closeOne(tenantId, await this.#since(quotas), 'wait')
      } catch (error) {
        log.warn({ err: error, tenantId }, 'usage was not closed before a cancellation; it is in the next window')
      }
      const left = await this.#usage.sendAll(tenantId)
      if (left > 0)
        log.warn({ tenantId, batches: left }, 'usage was not reported before the last invoice and is not part of it')
    })
  }

  async #safely(close: () => Promise<unknown>): Promise<void> {
    try {
      await close()
    } catch (error) {
      this.#dependencies.kernel.log.warn({ err: error }, 'usage could not be closed; the next window contains it')
    }
  }

  /** Payers whose counters differ from their watermarks; most payers have no new usage. */
  async #toClose(payers: readonly Payer[], since: Since, which: 'changed' | 'new'): Promise<Payer[]> {
    const counted = await Promise.all(payers.map((payer) => this.#counted(payer, since)))
    const marks = await this.#marks(payers.map(({ tenantId }) => tenantId))
    return payers.filter(({ tenantId }, at) =>
      (counted[at] ?? []).some((one) => {
        const mark = marks.get(keyOf(tenantId, one))
        return mark === undefined
          ? one.isBefore || (which === 'changed' && one.count > 0)
          : which === 'changed' && one.count !== mark
      }),
    )
  }

  #closeOne(tenantId: string, since: Since, orElse: 'leave' | 'wait' = 'leave'): Promise<number> {
    return this.#dependencies.kernel.database.transaction(async () => {
      if (!(await this.#isOurs(tenantId, orElse))) return 0
      const payer = await this.#customers.payer(tenantId)
      if (!payer) return 0 // purged
      // Read under the lock, so that no watermark is newer than the counters.
      const counted = await this.#counted(payer, since)
      const marks = await this.#marks([tenantId])
      let batches = 0
      for (const one of counted) {
        const marked = marks.get(keyOf(tenantId, one))
        const mark = markOf(one, marked)
        if (one.count !== mark || (marked === undefined && one.isBefore)) await this.#mark(tenantId, one)
        if (one.count > mark) {
          await this.#addBatch(tenantId, one, one.count - mark)
          batches += 1
        } else if (one.count < mark) {
          const { log, store } = this.#dependencies.kernel
          log.warn({ tenantId, quota: one.quota, store: store.name }, 'the store lost counted usage')
        }
      }
      return batches
    })
  }

  async #open(tenantId: string, marks: ReadonlyMap<string, number>): Promise<Unreported[]> {
    const since = await meteredSince(this.#dependencies)
    const payer = since.size > 0 ? await this.#customers.payer(tenantId) : undefined
    if (!payer) return []
    return (await this.#counted(payer, since)).flatMap((one) => {
      const quantity = one.count - markOf(one, marks.get(keyOf(tenantId, one)))
      const { meter } = this.#dependencies.settings.usage[one.quota] ?? {}
      return meter !== undefined && quantity > 0 ? [{ meter, quantity, since: one.at }] : []
    })
  }

  async #since(quotas: readonly string[]): Promise<Since> {
    const since = await meteredSince(this.#dependencies)
    return new Map([...since].filter(([quota]) => quotas.includes(quota)))
  }

  async #counted({ tenantId, mappedAt }: Payer, since: Since): Promise<Counted[]> {
    const quotas = [...since.keys()]
    const { nowMs, today, yesterday } = await this.#dependencies.kernel.store.counters.counted(tenantId, quotas)
    const day = dayOf(nowMs)
    const on = (counts: ReadonlyMap<string, number>, of: number, at: Date): Counted[] =>
      [...since].map(([quota, from]) => {
        const isBefore = mappedAt < from && of <= dayOf(from.getTime())
        return { quota, day: dateOf(of), count: counts.get(quota) ?? 0, at, isBefore }
      })
    const isOwedYesterday = dayOf(mappedAt.getTime()) < day
    return [
      ...on(today, day, new Date(nowMs)),
      ...(isOwedYesterday ? on(yesterday, day - 1, new Date(day * DAY_MS - 1_000)) : []),
    ]
  }

  async #marks(tenantIds: readonly string[]): Promise<Map<string, number>> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `select tenant_id as "tenantId", quota, day::text, counted from multitenancy.billing_usage_watermarks
       where tenant_id = any($1) and store = $2`,
      [tenantIds, this.#store],
    )
    return new Map(rows.map((row) => [keyOf(row.tenantId, row), row.counted]))
  }

  async #mark(tenantId: string, { quota, day, count }: Counted): Promise<void> {
    await this.#dependencies.kernel.database.sql(
      `insert into multitenancy.billing_usage_watermarks (tenant_id, quota, day, store, counted) values ($1, $2, $3::date, $4, $5)
       on conflict (tenant_id, quota, day, store) do update set counted = excluded.counted`,
      [tenantId, quota, day, this.#store, count],
    )
  }

  async #addBatch(tenantId: string, { quota, at }: Counted, quantity: number): Promise<void> {
    const { meter } = this.#dependencies.settings.usage[quota] ?? {}
    if (meter !== undefined) await this.#usage.add(uuidv7(), tenantId, { meter, quantity, at })
  }

  /** Locks the tenant's windows until the transaction ends. @param orElse behavior if another process holds the lock */
  async #isOurs(tenantId: string, orElse: 'leave' | 'wait'): Promise<boolean> {
    const lock = orElse === 'wait' ? 'pg_advisory_xact_lock' : 'pg_try_advisory_xact_lock'
    const { rows } = await this.#dependencies.kernel.database.sql(`select ${lock}(${usageLock('$1')}) as free`, [
      tenantId,
    ])
    return rows[0].free !== false
  }
}

/** SQL of the advisory lock key for closing a tenant's windows. */
export const usageLock = (tenantId: string): string => `hashtextextended('tenantry billing usage ' || ${tenantId}, 0)`

const markOf = ({ count, isBefore }: Counted, marked: number | undefined): number => marked ?? (isBefore ? count : 0)

const keyOf = (tenantId: string, { quota, day }: Pick<Counted, 'quota' | 'day'>): string =>
  `${tenantId} ${quota} ${day}`
