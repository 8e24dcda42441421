/**
 * Daily metrics of tenants by key. Guards count `requests`, `errors` and `bytes`; the host counts all other keys.
 *
 *   count ──► this process ──every second──► store ──every five minutes──► one row per day
 *
 * - The store accepts each batch once. A killed process loses its last second; a store that loses its data, the time since the rollup.
 * - Counts in a transaction commit with it, in rows of their own (transaction-counts.ts).
 * - While the store is unavailable, `resilience.redis.metrics` decides. Open: `increment` counts in the process, within limits.
 *   Closed: each `increment` reaches the store before it resolves, or is 503. Counts of guards are always kept for a later flush.
 */

import type { ExportFormat, Formats } from '../../kernel/api/export-format.ts'
import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import type { Traffic } from '../../kernel/api/traffic.ts'
import { asSystem } from '../../kernel/base/context.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { assertDeclared, type DeclaredNames, declaredNames } from '../../kernel/declarations/declared-names.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { joinedOutbox } from '../../kernel/outbox/joining.ts'
import type { OutboxEntry } from '../../kernel/outbox/kinds.ts'
import { DAY_MS, dateOf, dayOf } from '../../kernel/store/counters.ts'
import { SUM_TTL_SECONDS, type SumOfDay } from '../../kernel/store/sums.ts'
import { assertTenantExists } from '../../tenants/registry/tenant-assertions.ts'
import { tenantNotFound } from '../../tenants/tenant/errors.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { checkCount, INCREMENT, type Increment } from './key.ts'
import { LocalCounters } from './local-counters.ts'
import { FORMATS, FORMATS_OF_ALL, type Metric, type MetricOfTenant } from './metric.ts'
import { type MetricFilter, metricsOf, metricsOfAll } from './readings.ts'
import { type Flushed, Rollup } from './rollup.ts'
import { StoreFlush } from './store-flush.ts'
import { type MetricSums, SumsOfMetrics, type SumsRequest } from './sums.ts'
import { TransactionCounts } from './transaction-counts.ts'
import { WriteThrough } from './write-through.ts'

const STORE_FLUSH_INTERVAL_MS = 1_000
/** Metrics of an export in memory at a time. */
export const METRICS_AT_ONCE = 500

export interface MetricsOptions<Key extends string = string> {
  /** Keys of the host. If given, `increment` rejects other keys, and the compiler knows the names. */
  readonly metrics?: readonly Key[] | undefined
  /** Days to keep rows. Absent: unlimited. */
  readonly retentionDays?: number | undefined
}

type FilterOfAll<Key extends string> = MetricFilter<Key> & { readonly tenantId?: string | undefined }

export class TenantMetrics<Key extends string = string> {
  /** Receives the requests that guards have accepted. */
  readonly traffic: Traffic
  readonly #kernel: Kernel
  readonly #tenants: Pick<Tenants, 'registry'>
  readonly #localCounters = new LocalCounters()
  readonly #storeFlush: StoreFlush
  readonly #writeThrough: WriteThrough
  readonly #transactionCounts: TransactionCounts
  readonly #rollup: Rollup
  readonly #declared: DeclaredNames
  readonly #sums: SumsOfMetrics
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(kernel: Kernel, tenants: Pick<Tenants, 'registry'>, { retentionDays, metrics }: MetricsOptions = {}) {
    this.#declared = declaredNames(metrics)
    this.#kernel = kernel
    this.#tenants = tenants
    this.#storeFlush = new StoreFlush(kernel, this.#localCounters)
    this.#writeThrough = new WriteThrough(kernel.store)
    this.#transactionCounts = new TransactionCounts(kernel.database)
    this.#rollup = new Rollup(kernel, retentionDays)
    this.#sums = new SumsOfMetrics(kernel.database)
    this.traffic = {
      requestEnded: (tenantId, status, bodyBytes) => {
        this.#localCounters.countResponse(this.#today(), tenantId, status, bodyBytes)
        if (this.#timer === undefined) this.#flushToStoreLater()
      },
    }
  }

  /**
   * Adds `amount` to today's value of a key; inside a transaction of the tenant or the backoffice, with its commit.
   *
   * @throws E_TENANT_NOT_FOUND, E_INVALID_REQUEST, and E_DEPENDENCY_UNAVAILABLE under a closed policy
   * @example await tenancy.metrics.increment('acme', 'pages_rendered', 3)
   */
  async increment(tenantId: string, key: Key, amount = 1): Promise<void> {
    const day = this.#today()
    checkCount(key, amount)
    assertDeclared(this.#declared, key, 'key')
    const { registry } = this.#tenants
    const located = registry.peek(tenantId) ?? (await registry.find(tenantId))
    if (!located || located.tenant.status === 'deleted') throw tenantNotFound(tenantId)
    if (amount === 0) return
    const outbox = joinedOutbox(tenantId)
    if (outbox) return outbox.post(INCREMENT, { key, amount })
    if (this.#kernel.database.inTransaction) {
      return this.#transactionCounts.add({ day: dateOf(day), tenantId, name: key, amount })
    }
    return this.#count(day, tenantId, key, amount)
  }

  /** Counts increments of tenants' transactions, in the transaction with their ids. */
  async posted(entries: readonly OutboxEntry<Increment>[]): Promise<void> {
    for (const { tenantId, payload, postedAt } of entries) {
      const { key, amount } = payload
      checkCount(key, amount)
      const day = dateOf(dayOf(postedAt.getTime()))
      if (amount > 0) await this.#transactionCounts.add({ day, tenantId, name: key, amount })
    }
  }

  async #count(day: number, tenantId: string, key: string, amount: number): Promise<void> {
    if (this.#kernel.resilience.policyOf('redis.metrics') === 'fail-closed') {
      return this.#written(tenantId, this.#writeThrough.add({ day: dateOf(day), tenantId, name: key, amount }))
    }
    this.#localCounters.add(day, tenantId, key, amount)
    if (this.#timer === undefined) this.#flushToStoreLater()
  }

  /** A page of a tenant's metrics, the newest day first, including counts that are not flushed. @throws E_TENANT_NOT_FOUND */
  async list(
    tenantId: string,
    { limit, cursor, ...filter }: MetricFilter<Key> & PageOptions = {},
  ): Promise<PageOf<Metric>> {
    const { database, cursors } = this.#kernel
    const { key, from, to } = filter
    await assertTenantExists(database, tenantId)
    const kept = await this.#kept(tenantId)
    const order = { columns: ['period', 'key'], direction: 'desc' } as const
    return cursors.keysetPage(
      (after, most) => metricsOf(database, tenantId, filter, { limit: most, after, kept }),
      { name: 'metrics', filters: [tenantId, key, from, to], order, item: (metric: Metric) => metric },
      { limit, cursor },
    )
  }

  /** A page of all tenants' metrics, the newest day first, as of the last rollup. */
  async listAll({ limit, cursor, ...filter }: FilterOfAll<Key> & PageOptions = {}): Promise<PageOf<MetricOfTenant>> {
    const { database, cursors } = this.#kernel
    const { tenantId, key, from, to } = filter
    const order = { columns: ['period', 'tenantId', 'key'], direction: 'desc' } as const
    return cursors.keysetPage(
      (after, most) => metricsOfAll(database, filter, { limit: most, after }),
      { name: 'metrics of all', filters: [tenantId, key, from, to], order, item: (metric: MetricOfTenant) => metric },
      { limit, cursor },
    )
  }

  /**
   * Sums of a key by day, or the tenants with the greatest sums; as of the last rollup. Default: 14 days.
   *
   * @example const { data } = await tenancy.metrics.sums({ key: 'requests', by: 'tenant', top: 5 })
   */
  sums(request: SumsRequest<Key>): Promise<MetricSums> {
    return this.#sums.read(request, this.#kernel.clock.now())
  }

  /** All metrics of a tenant as text, as in `list`. */
  async export(tenantId: string, format: ExportFormat, filter: MetricFilter<Key> = {}): Promise<AsyncIterable<string>> {
    const { database } = this.#kernel
    await assertTenantExists(database, tenantId)
    const kept = await this.#kept(tenantId)
    return pieces(FORMATS, format, (after: Metric | undefined) =>
      metricsOf(database, tenantId, filter, { limit: METRICS_AT_ONCE, after, kept }),
    )
  }

  /** Metrics of all tenants as text, as in `listAll`. */
  exportAll(format: ExportFormat, filter: FilterOfAll<Key> = {}): Promise<AsyncIterable<string>> {
    return pieces(FORMATS_OF_ALL, format, (after: MetricOfTenant | undefined) =>
      metricsOfAll(this.#kernel.database, filter, { limit: METRICS_AT_ONCE, after }),
    )
  }

  /** Rolls the store up in rows. Idempotent, also in concurrent processes. */
  async flush(signal?: AbortSignal, onProgress?: (sums: number) => void): Promise<Flushed> {
    await this.#storeFlush.run()
    return this.#kernel.database.outside(() => this.#rollup.run(signal, onProgress))
  }

  /** Flushes remaining counts to the store, and rolls up a store that ends with the process. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    const { store, log } = this.#kernel
    try {
      await (store.sums.outliveProcess ? this.#storeFlush.run() : this.flush())
    } catch (error) {
      log.error({ err: error }, 'the last counts could not be flushed, and are lost')
    }
  }

  #today(): number {
    return dayOf(this.#kernel.clock.now().getTime())
  }

  /** Without context and transaction: the flush serves all callers. */
  #flushToStoreLater(): void {
    if (this.#isStopped) return
    const wait = () => setTimeout(() => void this.#flushToStore(), STORE_FLUSH_INTERVAL_MS).unref()
    this.#timer = asSystem(wait)
  }

  async #flushToStore(): Promise<void> {
    try {
      await this.#storeFlush.run()
    } catch (error) {
      this.#reportUnsent(error)
      this.#storeFlush.reportDropped()
    }
    this.#timer = undefined
    if (!this.#storeFlush.isEmpty) this.#flushToStoreLater()
  }

  /** Keeps the counts under either policy, because counted requests cannot be rejected. */
  #reportUnsent(error: unknown): void {
    if (!DependencyUnavailable.matches(error)) {
      this.#kernel.log.error({ err: error, ...this.#storeFlush.kept }, 'counts could not be flushed; trying again')
      return
    }
    try {
      this.#kernel.resilience.degrade('redis.metrics', 'metrics.handOver', null, error)
    } catch {
      // a 503 has no caller here
    }
  }

  async #written(tenantId: string, work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      this.#kernel.resilience.degrade('redis.metrics', 'metrics.increment', tenantId, error)
    }
  }

  /** The store's sums of a tenant after a flush. Empty if the store is unavailable and the policy is fail-open. */
  async #kept(tenantId: string): Promise<readonly SumOfDay[]> {
    const today = this.#today()
    const days = Array.from({ length: (SUM_TTL_SECONDS * 1_000) / DAY_MS + 2 }, (_, back) => dateOf(today + 1 - back))
    try {
      await this.#storeFlush.run()
      return await this.#kernel.store.sums.read(tenantId, days)
    } catch (error) {
      this.#kernel.resilience.degrade('redis.metrics', 'metrics.read', tenantId, error)
      return []
    }
  }
}

/** Reads the first part before it resolves, so that an unavailable database is an error and not an interrupted stream. */
async function pieces<Item>(
  formats: Formats<Item>,
  format: ExportFormat,
  read: (after: Item | undefined) => Promise<Item[]>,
): Promise<AsyncIterable<string>> {
  const { head, line } = formats[format]
  const first = await read(undefined)
  return (async function* () {
    let items = first
    yield head + items.map(line).join('')
    while (items.length === METRICS_AT_ONCE) {
      items = await read(items.at(-1))
      if (items.length > 0) yield items.map(line).join('')
    }
  })()
}
