/**
 * Windows of usage. A quota's counter of a day is what was used: it is counted in the same step of the store as the quota, and only
 * grows. Every `flushMs` what has come since the last time becomes a batch, in the transaction that moves the mark up to which a counter
 * is reported. So each unit is in exactly one batch, whoever closes a window, and how often; who finds somebody at it leaves it to them.
 *
 * A mark is of the store whose counters it is about, because another one begins at nothing; of a store that ends with its process, each
 * has its own. Where a counter is less than its mark the store has lost what it had, and goes on from there.
 *
 * What a tenant uses before it has a customer, on a day before, is nobody's to pay; nor what payers have used when a quota becomes one
 * that is paid for: at the first look at them their marks are put to where the counters are.
 */

import { forEachConcurrent } from '../../../kernel/base/concurrency.ts'
import { uuidv7 } from '../../../kernel/base/ids.ts'
import { DAY_MS, dateOf, dayOf } from '../../../kernel/store/counters.ts'
import type { BillingDependencies } from '../model/dependencies.ts'
import type { Customers, Payer } from '../subscriptions/customers.ts'
import { meteredSince } from '../subscriptions/paid-quotas.ts'
import type { Usage } from './usage.ts'

const LOOKED_AT_TOGETHER = 50
/** Each has a connection for as long as it takes. */
const CLOSED_AT_ONCE = 4

/** By quota: since when it is paid for. */
type Since = ReadonlyMap<string, Date>

interface Counted {
  readonly quota: string
  readonly day: string
  readonly count: number
  readonly at: Date
  /** Without a mark, all of it counts as used before the quota was paid for. */
  readonly isBefore: boolean
}

/** Of one meter. */
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

  /** From now on each quota's are closed as often as it is configured, one at a time. Of quotas that are new, the first look is now. */
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

  /** Resolves when what was begun has ended; what was not is in the next window of whoever closes it. */
  async stop(): Promise<void> {
    for (const timer of this.#timers.splice(0)) clearInterval(timer)
    this.#stopping.abort()
    await Promise.all(this.#closing)
  }

  /** Flushes what all tenants have used of these quotas; default all. Returns how many batches that came to. */
  close(quotas: readonly string[] = Object.keys(this.#dependencies.settings.usage)): Promise<number> {
    return this.#close(quotas, 'changed')
  }

  /**
   * What of a tenant's usage the provider has not confirmed: batches, and what has come since the last one. While the store is away, as
   * far as it is in batches.
   */
  async unreported(tenantId: string): Promise<Unreported[]> {
    const { database, log } = this.#dependencies.kernel
    // At one moment, so that what becomes a batch meanwhile is told once.
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
      log.warn({ err: error, tenantId }, 'usage that is not in a batch yet cannot be told: the store is away')
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
   * Nothing that is counted by now becomes a batch: marks that were brought back from a dump know of none that was made since. Also of
   * tenants that have no customer, for they may have had one.
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

  /** @param which of which payers: those that have used something, or at whom nobody has looked yet since a quota is paid for */
  async #close(quotas: readonly string[], which: 'changed' | 'new'): Promise<number> {
    if (quotas.length === 0) return 0
    const since = await this.#since(quotas)
    const { signal } = this.#stopping
    const payers = await this.#customers.payers()
    let batches = 0
    for (let first = 0; first < payers.length && !signal.aborted; first += LOOKED_AT_TOGETHER) {
      const together = await this.#toClose(payers.slice(first, first + LOOKED_AT_TOGETHER), since, which)
      const close = async ({ tenantId }: Payer) => {
        batches += await this.#closeOne(tenantId, since)
      }
      await forEachConcurrent(together, CLOSED_AT_ONCE, close, signal)
    }
    return batches
  }

  /**
   * Reports what a tenant has used until now, before its last invoice is made. What cannot be is logged and goes its usual way: nobody
   * who wants to end something has to wait for it.
   */
  async reportNow(tenantId: string): Promise<void> {
    const { database, log } = this.#dependencies.kernel
    const quotas = Object.keys(this.#dependencies.settings.usage)
    // What was reported stays reported, whatever becomes of the transaction in which something is ended.
    await database.outside(async () => {
      try {
        if (quotas.length > 0) await this.#closeOne(tenantId, await this.#since(quotas), 'wait')
      } catch (error) {
        log.warn({ err: error, tenantId }, 'usage could not be closed before an end; it is in the next window')
      }
      const left = await this.#usage.sendAll(tenantId)
      if (left > 0)
        log.warn({ tenantId, batches: left }, 'usage is not reported before an end: the last invoice is without it')
    })
  }

  async #safely(close: () => Promise<unknown>): Promise<void> {
    try {
      await close()
    } catch (error) {
      this.#dependencies.kernel.log.warn({ err: error }, 'usage could not be closed; it is in the next window')
    }
  }

  /** Those whose counters are not what their marks say: of most there is nothing new. */
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
      if (!payer) return 0 // purged by now
      // Under the lock, so that no mark is of a later moment.
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
          log.warn({ tenantId, quota: one.quota, store: store.name }, 'the store has lost what it had counted')
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

  /** Until the transaction ends. @param orElse what to do while somebody else is at it */
  async #isOurs(tenantId: string, orElse: 'leave' | 'wait'): Promise<boolean> {
    const lock = orElse === 'wait' ? 'pg_advisory_xact_lock' : 'pg_try_advisory_xact_lock'
    const { rows } = await this.#dependencies.kernel.database.sql(`select ${lock}(${usageLock('$1')}) as free`, [
      tenantId,
    ])
    return rows[0].free !== false
  }
}

/** Of the key under which a tenant's windows are closed, as SQL. */
export const usageLock = (tenantId: string): string => `hashtextextended('tenantry billing usage ' || ${tenantId}, 0)`

const markOf = ({ count, isBefore }: Counted, marked: number | undefined): number => marked ?? (isBefore ? count : 0)

const keyOf = (tenantId: string, { quota, day }: Pick<Counted, 'quota' | 'day'>): string =>
  `${tenantId} ${quota} ${day}`
