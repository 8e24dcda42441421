/**
 * Rows of high usage, so that the database ranks tenants. The store decides and has the exact counts (docs/decisions/rows-of-high-usage.md).
 *
 * - A row is written when usage has changed by a hundredth of the limit, or after a minute, from half of the smallest limit of any plan on.
 *   So a change of a plan needs no write, and the number of writes is limited.
 * - Each process writes its rows once a second. The store's clock orders rows of several processes.
 * - A row that was lost with a process is written at the next change. No call waits for a row.
 */
import { LRUCache } from 'lru-cache'
import { asSystem } from '../../kernel/base/context.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { type Counters, dateOf, dayOf } from '../../kernel/store/counters.ts'
import type { Plans } from '../../tenants/registry/plans.ts'
import type { Outcome } from './outcome.ts'

const WRITE_INTERVAL_MS = 1_000
const STOP_TIMEOUT_MS = 2_000
const ROWS_AT_ONCE = 1_000
const REMEMBERED = 100_000
/** Limit of waiting rows. Later changes write the others. */
const MAX_WAITING = 50_000
/** Share of the smallest limit from which usage is recorded. */
export const RECORDED_FROM = 0.5
const STEP = 0.01
/** After this time, the same usage is written again: another process may have reset the row. */
const REFRESH_MS = 60_000

const WRITE = `
  insert into multitenancy.quota_usage as kept (tenant_id, quota, used, day, plan, noted_at)
  select u.tenant_id, u.quota, u.used, u.day, u.plan, u.noted_at
  from unnest($1::text[], $2::text[], $3::float8[], $4::date[], $5::text[], $6::timestamptz[])
    as u (tenant_id, quota, used, day, plan, noted_at)
  join multitenancy.tenants t on t.id = u.tenant_id and t.status <> 'deleted'
  order by u.tenant_id collate "C", u.quota collate "C"
  on conflict (tenant_id, quota) do update
    set used = excluded.used, day = excluded.day, plan = excluded.plan, noted_at = excluded.noted_at
    where kept.noted_at <= excluded.noted_at`

/** Also writes rows that do not exist yet: another process may still write its usage from before the reset. */
const WRITE_AFTER_RESET = `
  insert into multitenancy.quota_usage as kept (tenant_id, quota, used, day, plan, noted_at)
  select t.id, q.quota, coalesce(r.used, 0), r.day, '', $4
  from multitenancy.tenants t, (
    select unnest($3::text[]) as quota
    union select quota from multitenancy.quota_usage where tenant_id = $1) q
  left join unnest($5::text[], $6::float8[], $7::date[]) as r (quota, used, day) on r.quota = q.quota
  where t.id = $1 and t.status <> 'deleted' and ($2::text is null or q.quota = $2)
  order by q.quota collate "C"
  on conflict (tenant_id, quota) do update
    set used = excluded.used, noted_at = excluded.noted_at, day = case when excluded.used = 0 then kept.day else excluded.day end
    where kept.noted_at <= excluded.noted_at`

export interface Use {
  readonly tenantId: string
  readonly quota: string
  readonly plan: string
  /** Null: unlimited. */
  readonly limit: number | null
  readonly usage: number
  readonly isGauge?: boolean
  /** By the store's clock. */
  readonly nowMs: number
}

export class UsageRecords {
  readonly #kernel: Pick<Kernel, 'database' | 'log'>
  /** By quota. */
  readonly #smallestLimits = new Map<string, number>()
  readonly #noted = new LRUCache<string, Use>({ maxSize: REMEMBERED, sizeCalculation: () => 1 })
  #waiting = new Map<string, Use>()
  #writing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isFailing = false

  constructor(kernel: Pick<Kernel, 'database' | 'log'>, plans: Pick<Plans, 'describe'>) {
    this.#kernel = kernel
    for (const { limits } of Object.values(plans.describe().definitions)) {
      for (const [quota, limit] of Object.entries(limits)) {
        const smallest = this.#smallestLimits.get(quota) ?? Number.POSITIVE_INFINITY
        if (limit > 0) this.#smallestLimits.set(quota, Math.min(smallest, limit))
      }
    }
  }

  note(use: Use): void {
    const smallest = this.#smallestLimits.get(use.quota)
    if (smallest === undefined) return
    const key = keyOf(use)
    const last = this.#noted.get(key)
    if (!isWorthARow(use, last, smallest) || (this.#waiting.size >= MAX_WAITING && !this.#waiting.has(key))) return
    this.#noted.set(key, use)
    this.#waiting.set(key, use)
    this.#timer ??= asSystem(() => setTimeout(() => void this.write(), WRITE_INTERVAL_MS).unref())
  }

  noteAll(tenantId: string, { plan: { plan }, requests, taken: { usages, nowMs } }: Outcome): void {
    for (const [index, request] of requests.entries()) {
      this.note({ tenantId, plan, ...request, usage: usages[index] ?? 0, nowMs })
    }
  }

  /** Writes rows with the usage since a reset: it is 0 without concurrent use. After a failure, the next changes write them. */
  async cleared(tenantId: string, quota: string | undefined, counters: Pick<Counters, 'readAll'>): Promise<void> {
    const quotas = [...this.#smallestLimits.keys()].filter((one) => (quota ?? one) === one)
    const keys = quotas.map((one) => keyOf({ tenantId, quota: one }))
    for (const key of keys) this.#waiting.delete(key)
    try {
      const { today, gauges, nowMs } = await counters.readAll(tenantId)
      const used = [...new Map([...gauges, ...today])]
      await this.#kernel.database.sql(WRITE_AFTER_RESET, [
        tenantId,
        quota ?? null,
        quotas,
        new Date(nowMs),
        used.map(([name]) => name),
        used.map(([, usage]) => usage),
        used.map(([name]) => (today.has(name) ? dateOf(dayOf(nowMs)) : null)),
      ])
    } catch (error) {
      this.#kernel.log.warn({ err: error, tenantId }, 'rows of usage could not be written after a reset')
    }
    // The next use is written, also if it equals the use before.
    for (const key of keys) this.#noted.delete(key)
  }

  /** Writes waiting rows; a failure keeps them for the next write. */
  async write(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#writing ??= this.#kernel.database
      .outside(() => this.#writeAll())
      .finally(() => {
        this.#writing = undefined
      })
    await this.#writing
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    await withTimeout(this.write(), STOP_TIMEOUT_MS, () => new Error('rows of usage are still being written')).catch(
      (error) => this.#kernel.log.warn({ err: error }, 'rows of usage could not be written before the stop'),
    )
    clearTimeout(this.#timer)
  }

  async #writeAll(): Promise<void> {
    if (this.#waiting.size === 0) return
    const waiting = this.#waiting
    this.#waiting = new Map()
    try {
      const uses = [...waiting.values()]
      for (let first = 0; first < uses.length; first += ROWS_AT_ONCE) {
        await this.#writeSome(uses.slice(first, first + ROWS_AT_ONCE))
      }
      this.#isFailing = false
    } catch (error) {
      if (!this.#isFailing) this.#kernel.log.warn({ err: error }, 'rows of usage could not be written; trying again')
      this.#isFailing = true
      this.#waiting = new Map([...waiting, ...this.#waiting])
      this.#timer ??= asSystem(() => setTimeout(() => void this.write(), WRITE_INTERVAL_MS).unref())
    }
  }

  async #writeSome(uses: readonly Use[]): Promise<void> {
    await this.#kernel.database.sql(WRITE, [
      uses.map(({ tenantId }) => tenantId),
      uses.map(({ quota }) => quota),
      uses.map(({ usage }) => usage),
      uses.map(({ isGauge, nowMs }) => (isGauge ? null : dateOf(dayOf(nowMs)))),
      uses.map(({ plan }) => plan),
      uses.map(({ nowMs }) => new Date(nowMs)),
    ])
  }
}

const keyOf = ({ tenantId, quota }: Pick<Use, 'tenantId' | 'quota'>): string => `${tenantId} ${quota}`

/** Above the limit, steps are tenths of the usage, because usage without enforcement has no end. */
function isWorthARow({ usage, limit, isGauge, nowMs }: Use, last: Use | undefined, smallest: number): boolean {
  const ofThisDay = last !== undefined && (isGauge || dayOf(last.nowMs) === dayOf(nowMs)) ? last : undefined
  if (ofThisDay === undefined) return usage >= smallest * RECORDED_FROM
  const full = limit || smallest
  const isCrossed = usage >= full !== ofThisDay.usage >= full
  const step = Math.max(full * STEP, ofThisDay.usage > full ? ofThisDay.usage * 0.1 : 0)
  const isRefreshed = usage >= smallest * RECORDED_FROM && nowMs - ofThisDay.nowMs >= REFRESH_MS
  return isCrossed || isRefreshed || Math.abs(usage - ofThisDay.usage) >= step
}
