/**
 * Counts deliveries by step of time and outcome, with percentiles of durations. Ids contain the time of the dispatch, so a step is a range of
 * ids in few partitions.
 *
 * The cost is bounded: more than `maxRows` deliveries are sampled. Each step has slices of equal length, and the sample is a part of each
 * slice, at a place that is not aligned with minutes. The part grows until the sample is large enough.
 */
import { invalid } from '../../../kernel/base/errors.ts'
import { floorOfUuidsAt } from '../../../kernel/base/ids.ts'
import type { Kernel } from '../../../kernel/kernel.ts'
import { assertTenantExists } from '../../../tenants/registry/tenant-assertions.ts'
import { WebhookNotFound } from '../model/errors.ts'
import { type Stats, type StatsRequest, stepsOf } from '../model/stats.ts'

const MAX_ROWS = 20_000
/** Ranges of ids that one query reads, for each subscription. */
const MAX_RANGES = 20_000
const SLICES = 480
/** Maximum of sampled deliveries of a slice, as a multiple of the average in a full sample. */
const SKEW = 5
const FIRST_SHARE = 1 / 512
const GROWTH = 8
const GOLDEN_RATIO = 0.618_033_988_75

interface Range {
  readonly step: number
  readonly fromMs: number
  readonly toMs: number
}

export class DeliveryStats {
  readonly #kernel: Kernel
  readonly #maxRows: number

  constructor(kernel: Kernel, maxRows = MAX_ROWS) {
    this.#kernel = kernel
    this.#maxRows = maxRows
  }

  /** @throws `E_TENANT_NOT_FOUND`, `E_WEBHOOK_NOT_FOUND`, `E_INVALID_REQUEST` for too many steps */
  async of(query: StatsRequest): Promise<Stats> {
    const steps = stepsOf(query, this.#kernel.clock.now())
    const webhookIds = await this.#webhookIds(query)
    const perSlice = webhookIds?.length ?? 1
    if ((steps.length - 1) * perSlice > MAX_RANGES) {
      throw invalid([{ path: 'from', message: 'must be later: the tenant has many subscriptions' }])
    }
    const whole = steps.slice(0, -1).map((fromMs, step): Range => ({ step, fromMs, toMs: steps[step + 1] as number }))
    const isEstimated = await this.#exceeds(steps, webhookIds)
    const [rows, scale] = isEstimated
      ? await this.#sample(whole, webhookIds)
      : [await this.#read(whole, webhookIds, this.#maxRows), 1]
    const found = new Map(rows.map((row) => [row.step, row]))
    return {
      step: query.step,
      isEstimated,
      data: whole.map(({ step, fromMs }) => {
        const { delivered = 0, failed = 0, waiting = 0, p50Ms = null, p95Ms = null } = found.get(step) ?? {}
        const [all, bad, open] = [delivered, failed, waiting].map((count) => Math.round(count * scale)) as [
          number,
          number,
          number,
        ]
        return { at: new Date(fromMs).toISOString(), delivered: all, failed: bad, waiting: open, p50Ms, p95Ms }
      }),
    }
  }

  /** Ids of the subscriptions; null for all. */
  async #webhookIds({ tenantId, webhookId }: StatsRequest): Promise<string[] | null> {
    const { database } = this.#kernel
    if (tenantId) await assertTenantExists(database, tenantId)
    if (!tenantId && !webhookId) return null
    const { rows } = await database.sql(
      `select id from multitenancy.webhook_subscriptions
       where ($1::text is null or tenant_id = $1) and ($2::uuid is null or id = $2) order by id`,
      [tenantId ?? null, webhookId ?? null],
    )
    if (webhookId && rows.length === 0) throw WebhookNotFound(`Subscription "${webhookId}" not found.`)
    return rows.map(({ id }) => id)
  }

  async #exceeds(steps: readonly number[], webhookIds: readonly string[] | null): Promise<boolean> {
    const bounds = [steps[0], steps.at(-1)].map((ms) => floorOfUuidsAt(ms as number))
    const { rows } = await this.#kernel.database.sql(
      `select count(*) as count from (select from multitenancy.webhook_deliveries
       where id >= $1 and id < $2 ${webhookIds ? 'and webhook_id = any($4::uuid[])' : ''} limit $3::int + 1) found`,
      [...bounds, this.#maxRows, ...(webhookIds ? [webhookIds] : [])],
    )
    return rows[0].count > this.#maxRows
  }

  async #sample(whole: readonly Range[], webhookIds: readonly string[] | null): Promise<[rows: any[], scale: number]> {
    const perStep = Math.max(1, Math.floor(SLICES / whole.length / (webhookIds?.length ?? 1)))
    const perSlice = Math.ceil((this.#maxRows * SKEW) / (perStep * whole.length))
    for (let share = FIRST_SHARE; ; share = Math.min(1, share * GROWTH)) {
      const rows = await this.#read(
        whole.flatMap((range) => slicesOf(range, perStep, share)),
        webhookIds,
        perSlice,
      )
      const size = rows.reduce((sum, { delivered, failed, waiting }) => sum + delivered + failed + waiting, 0)
      if (share === 1 || size * GROWTH >= this.#maxRows) return [rows, 1 / share]
    }
  }

  /** @param most maximum of deliveries of a range and subscription */
  async #read(ranges: readonly Range[], webhookIds: readonly string[] | null, most: number): Promise<any[]> {
    const { rows } = await this.#kernel.database.sql(
      `select r.step, count(*) filter (where state = 'delivered') as delivered, count(*) filter (where state = 'failed') as failed,
         count(*) filter (where state not in ('delivered', 'failed')) as waiting,
         percentile_disc(0.5) within group (order by duration_ms) as "p50Ms",
         percentile_disc(0.95) within group (order by duration_ms) as "p95Ms"
       from unnest($1::int[], $2::uuid[], $3::uuid[]) r(step, low, high)
       ${webhookIds ? 'cross join unnest($5::uuid[]) webhook(id)' : ''}
       cross join lateral (
         select d.id, state, attempt_count from multitenancy.webhook_deliveries d
         where d.id >= r.low and d.id < r.high ${webhookIds ? 'and d.webhook_id = webhook.id' : ''} order by d.id limit $4) d
       left join lateral (
         select duration_ms from multitenancy.webhook_attempts where delivery_id = d.id and number = d.attempt_count limit 1) a on true
       group by 1`,
      [
        ranges.map(({ step }) => step),
        ranges.map(({ fromMs }) => floorOfUuidsAt(fromMs)),
        ranges.map(({ toMs }) => floorOfUuidsAt(toMs)),
        most,
        ...(webhookIds ? [webhookIds] : []),
      ],
    )
    return rows
  }
}

/** A part of each slice of a range. Its place depends on the number of the slice only, so a repeated request has the same sample. */
function slicesOf({ step, fromMs, toMs }: Range, count: number, share: number): Range[] {
  const sliceMs = (toMs - fromMs) / count
  return Array.from({ length: count }, (_, index) => {
    const offset = ((step * count + index) * GOLDEN_RATIO) % 1
    const start = Math.round(fromMs + sliceMs * (index + offset * (1 - share)))
    return { step, fromMs: start, toMs: start + Math.round(sliceMs * share) }
  })
}
