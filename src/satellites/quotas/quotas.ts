/**
 * Quotas of tenants by plan: counters of a UTC day, and gauges that keep their value until they are set again.
 *
 *   track     counts without a limit                    returns the usage after it
 *   consume   counts below the limit, otherwise 429     returns the usage after it, without a rejected amount
 *   decide    as consume, with the rejection as a result
 *   check     decides over `getUsage` without counting: for gauges
 *
 * Check and count are one step of the store. While the store is unavailable, `resilience.redis.quota` decides: open allows everything
 * and publishes `DependencyDegraded` each time; closed is 503, never 429. `setUsage`, `reset` and `snapshot` are always 503.
 */
import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { assertDeclared, type DeclaredNames, declaredNames } from '../../kernel/declarations/declared-names.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { joinedOutbox } from '../../kernel/outbox/joining.ts'
import { checkCounterName, checkGauge, checkTakes, type Take, type Taken } from '../../kernel/store/counters.ts'
import type { QuotaOptions, RouteCheck } from '../../tenants/guard/quota-hook.ts'
import type { ResolvedPlan } from '../../tenants/registry/plans.ts'
import type { TenantRecord } from '../../tenants/tenant/tenant.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { Alerts } from './alerts.ts'
import { type Decision, decisionOver } from './decision.ts'
import { QuotaNotFound } from './errors.ts'
import { QuotaTracked } from './events.ts'
import type { QuotasOptions } from './options.ts'
import {
  decisionOf,
  headersOf,
  type Outcome,
  type QuotaAmount,
  type QuotaRequest,
  type QuotaResult,
  type QuotaSnapshot,
  rejectionOf,
  snapshotOf,
} from './outcome.ts'
import { postTrack } from './posted-tracks.ts'
import { type QuotaUse, type RankingFilter, rankingOf } from './ranking.ts'
import { recorded } from './recorded.ts'
import { DecisionCounts } from './series.ts'
import { knownTenant, usableTenant } from './tenants.ts'
import { UsageRecords } from './usage-records.ts'

type UsageMode = 'track' | 'consume'
type KnownTenants = Pick<Tenants, 'registry' | 'plans'>

export class Quotas<Quota extends string = string> {
  readonly counts = new DecisionCounts()
  readonly alerts: Alerts
  readonly usageRecords: UsageRecords
  readonly readCounter = (tenantId: string, quota: string) => this.#kernel.store.counters.read(tenantId, quota)
  readonly #kernel: Kernel
  readonly #tenants: KnownTenants
  readonly #hasHeaders: boolean
  readonly #declared: DeclaredNames

  constructor(kernel: Kernel, tenants: KnownTenants, { headers = true, unlimited }: QuotasOptions = {}) {
    this.#kernel = kernel
    this.#tenants = tenants
    this.#hasHeaders = headers
    this.#declared = declaredNames(unlimited && [...unlimited, ...tenants.plans.limitedQuotas()])
    this.alerts = new Alerts(kernel)
    this.usageRecords = new UsageRecords(kernel, tenants.plans)
  }

  /**
   * Counts without a limit; inside a transaction of the tenant or the backoffice, after its commit. Returns today's counter with the
   * amount, inside a transaction without its other amounts.
   * @throws E_TENANT_NOT_FOUND, E_DEPENDENCY_UNAVAILABLE, E_INVALID_REQUEST
   */
  async track(tenantId: string, quota: Quota, amount = 1): Promise<number> {
    const tenant = await this.#usable(tenantId)
    const outbox = joinedOutbox(tenantId)
    if (outbox || this.#kernel.database.inTransaction) {
      const reading = await this.#read(tenantId, quota, amount)
      await (outbox ? postTrack(outbox, quota, amount) : this.trackAfterCommit(tenantId, quota, amount))
      return (reading?.today ?? 0) + amount
    }
    const { taken } = await this.#apply(tenant, 'track', [{ quota, amount }])
    return taken.usages[0] ?? 0
  }

  /** Also of entries from a process with other declared names. */
  trackAfterCommit(tenantId: string, quota: string, amount: number): void {
    const wanted = [{ quota, amount }]
    this.#kernel.database.afterCommit(async () => this.#step(await this.#usable(tenantId), 'track', wanted))
  }

  /**
   * Counts an amount below the limit of the tenant's plan. Returns the usage after it. A rejected amount is not counted.
   *
   * @throws E_TENANT_QUOTA_EXCEEDED, E_TENANT_NOT_FOUND, E_DEPENDENCY_UNAVAILABLE, E_INVALID_REQUEST
   * @example const usage = await tenancy.quotas.consume('acme', 'exports')
   */
  async consume(tenantId: string, quota: Quota, amount = 1): Promise<number> {
    const outcome = await this.#apply(await this.#usable(tenantId), 'consume', [{ quota, amount }])
    this.#assertAllowed(outcome)
    return outcome.taken.usages[0] ?? 0
  }

  /** Counts all of several quotas or none, in one step. Returns the usage of each, in their order. */
  async consumeAll(tenantId: string, requests: readonly QuotaAmount<Quota>[]): Promise<readonly number[]> {
    const outcome = await this.#apply(await this.#usable(tenantId), 'consume', requests)
    this.#assertAllowed(outcome)
    return outcome.taken.usages
  }

  /** As `consume`, and returns the whole decision in place of an error. */
  async decide(tenantId: string, quota: Quota, amount = 1): Promise<Decision> {
    return decisionOf(await this.#apply(await this.#usable(tenantId), 'consume', [{ quota, amount }]))
  }

  /** Whether `amount` more would fit, over `getUsage`. It reserves nothing. */
  async check(tenantId: string, quota: Quota, amount = 1): Promise<Decision> {
    const { limits } = await this.#tenants.plans.resolve(await this.#usable(tenantId))
    const reading = await this.#read(tenantId, quota, amount)
    return decisionOver(reading, amount, limits.get(quota) ?? null, this.#kernel.clock.now())
  }

  /** Today's counter if it exists, otherwise the gauge, otherwise 0. */
  async getUsage(tenantId: string, quota: Quota): Promise<number> {
    await knownTenant(this.#tenants.registry, tenantId)
    const reading = await this.#read(tenantId, quota)
    return reading?.today ?? reading?.gauge ?? 0
  }

  /** Sets a gauge to a number of 0 or more, regardless of the limit. Use `check` for the limit. */
  async setUsage(tenantId: string, quota: Quota, value: number): Promise<void> {
    assertDeclared(this.#declared, quota, 'quota')
    const tenant = await this.#usable(tenantId)
    const plan = await this.#tenants.plans.resolve(tenant)
    const nowMs = await this.#written(this.#kernel.store.counters.put(tenantId, quota, value))
    const request = { quota, amount: value, limit: plan.limits.get(quota) ?? null }
    this.alerts.ofUse(tenantId, plan.plan, request, value, nowMs)
    this.usageRecords.note({ tenantId, plan: plan.plan, ...request, usage: value, nowMs, isGauge: true })
  }

  /** Plan, limits, and usage by quota, including unlimited ones. One round trip. */
  async snapshot(tenantId: string): Promise<QuotaSnapshot> {
    const plan = await this.#tenants.plans.resolve(await knownTenant(this.#tenants.registry, tenantId))
    return snapshotOf(plan, await this.#written(this.#kernel.store.counters.readAll(tenantId)))
  }

  /** Sets counter and gauge of a quota to 0; of all quotas if no quota is named. */
  async reset(tenantId: string, quota?: Quota): Promise<void> {
    const { counters } = this.#kernel.store
    if (quota !== undefined) await this.#assertQuota(tenantId, quota)
    const after = quota === undefined ? {} : { quota }
    await recorded(this.#kernel, { action: 'quotas.reset', tenantId, after }, () =>
      this.#written(counters.clear(tenantId, quota)),
    )
    await this.usageRecords.cleared(tenantId, quota, counters)
  }

  /** Tenants by the share of a limit that they have used, the greatest first; as of the last recorded change. */
  top(options: RankingFilter<Quota> & PageOptions = {}): Promise<PageOf<QuotaUse>> {
    return rankingOf(this.#kernel, this.#tenants.plans, options)
  }

  /** `setUsage` by an administrator, with an entry in the audit log. */
  async correct(tenantId: string, quota: Quota, value: number): Promise<void> {
    checkGauge(quota, value)
    const change = { action: 'quotas.setUsage', tenantId, after: { quota, value } }
    const write = () => this.setUsage(tenantId, quota, value)
    await recorded(this.#kernel, change, write, async () => {
      const { gauge } = await this.#written(this.#kernel.store.counters.read(tenantId, quota))
      return gauge === value ? undefined : { quota, value: gauge }
    })
  }

  /** `track` and `consume` with the headers of their HTTP responses. */
  async apply(tenantId: string, mode: UsageMode, wanted: readonly QuotaAmount<Quota>[]): Promise<QuotaResult> {
    return this.#resultOf(await this.#apply(await this.#usable(tenantId), mode, wanted))
  }

  /**
   * Prepares the quota check of a guarded route, once for all requests. The check throws the errors of `consume` and returns headers.
   * With `enforce: false` it only tracks.
   */
  enforcement<Raw>(quota: Quota, { enforce = true, amount = 1 }: QuotaOptions<Raw> = {}): RouteCheck<Raw> {
    assertDeclared(this.#declared, quota, 'quota')
    const amountOf = typeof amount === 'function' ? amount : () => amount
    checkTakes([{ name: quota, amount: typeof amount === 'function' ? 0 : amount, limit: null }])
    const mode = enforce ? 'consume' : 'track'
    return {
      run: async (request, tenant) => {
        const wanted = [{ quota, amount: await amountOf(request) }]
        return this.#resultOf(await this.#apply(tenant, mode, wanted)).headers
      },
    }
  }

  #apply(tenant: TenantRecord, mode: UsageMode, wanted: readonly QuotaAmount[]): Promise<Outcome> {
    for (const { quota } of wanted) assertDeclared(this.#declared, quota, 'quota')
    return this.#step(tenant, mode, wanted)
  }

  /** The step of `track` and `consume`. A rejection is an outcome. */
  async #step(tenant: TenantRecord, mode: UsageMode, wanted: readonly QuotaAmount[]): Promise<Outcome> {
    const resolved = this.#tenants.plans.resolve(tenant)
    const plan = resolved instanceof Promise ? await resolved : resolved
    const requests = wanted.map(({ quota, amount = 1 }) => ({ quota, amount, limit: plan.limits.get(quota) ?? null }))
    const takes: Take[] = requests.map(({ quota, amount, limit }) => ({
      name: quota,
      amount,
      limit: mode === 'track' ? null : limit,
    }))
    let taken: Taken
    try {
      taken = await this.#kernel.store.counters.take(tenant.id, takes)
    } catch (error) {
      return this.#withoutStore(error, tenant.id, mode, plan, requests)
    }
    this.counts.add(mode === 'track' ? 'tracked' : taken.isAllowed ? 'allowed' : 'refused')
    const outcome = { plan, requests, taken, isDegraded: false }
    this.usageRecords.noteAll(tenant.id, outcome)
    if (taken.isAllowed) await this.#used(tenant.id, outcome)
    else this.alerts.ofRejection(tenant.id, outcome)
    return outcome
  }

  #resultOf(outcome: Outcome): QuotaResult {
    this.#assertAllowed(outcome)
    return {
      decisions: outcome.requests.map(({ quota }, index) => ({ quota, ...decisionOf(outcome, index) })),
      headers: this.#hasHeaders ? headersOf(outcome) : {},
    }
  }

  #assertAllowed(outcome: Outcome): void {
    if (!outcome.taken.isAllowed) throw rejectionOf(outcome, this.#hasHeaders)
  }

  #withoutStore(
    error: unknown,
    tenantId: string,
    mode: UsageMode,
    plan: ResolvedPlan,
    requests: readonly QuotaRequest[],
  ): Outcome {
    if (!DependencyUnavailable.matches(error)) throw error
    this.counts.add(this.#kernel.resilience.policyOf('redis.quota') === 'fail-open' ? 'degraded' : 'unavailable')
    this.#kernel.resilience.degrade('redis.quota', `quotas.${mode}`, tenantId, error)
    const usages = requests.map(() => 0)
    const nowMs = this.#kernel.clock.now().getTime()
    return { plan, requests, taken: { isAllowed: true, usages, nowMs }, isDegraded: true }
  }

  async #used(tenantId: string, { plan, requests, taken }: Outcome): Promise<void> {
    const { events, log } = this.#kernel
    const hasHandlers = events.hasHandlers(QuotaTracked)
    for (const [index, request] of requests.entries()) {
      if (request.amount === 0) continue
      const usage = taken.usages[index] ?? 0
      this.alerts.ofUse(tenantId, plan.plan, request, usage, taken.nowMs)
      if (!hasHandlers) continue
      try {
        await events.announce(QuotaTracked, { tenantId, quota: request.quota, amount: request.amount, usage })
      } catch (error) {
        log.error({ err: error, tenantId, quota: request.quota }, 'usage events could not be published') // the amount is counted already
      }
    }
  }

  /** Undefined if the store is unavailable and the policy is fail-open. */
  async #read(tenantId: string, quota: string, amount = 0) {
    assertDeclared(this.#declared, quota, 'quota')
    checkTakes([{ name: quota, amount, limit: null }])
    try {
      return await this.#kernel.store.counters.read(tenantId, quota)
    } catch (error) {
      this.#kernel.resilience.degrade('redis.quota', 'quotas.read', tenantId, error)
      return undefined
    }
  }

  async #written<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      throw DependencyUnavailable.matches(error) ? this.#kernel.resilience.rejection('redis', error) : error
    }
  }

  /** Rejects a quota without a limit in any plan and without a count: probably a typing error. */
  async #assertQuota(tenantId: string, quota: string): Promise<void> {
    checkCounterName(quota)
    await knownTenant(this.#tenants.registry, tenantId)
    if (this.#tenants.plans.limitsAnywhere(quota)) return
    const { today, gauge } = await this.#written(this.#kernel.store.counters.read(tenantId, quota))
    if (today === null && gauge === null) {
      throw QuotaNotFound(`Quota "${quota}" not found: no plan limits it, and it has no usage.`)
    }
  }

  #usable(tenantId: string): TenantRecord | Promise<TenantRecord> {
    return usableTenant(this.#tenants.registry, tenantId)
  }
}
