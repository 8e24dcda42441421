/**
 * Resolves the plan of a tenant and its limits: `metadata.plan` by default, or the `getPlan` of a host with its own
 * billing. If `getPlan` fails or takes longer than one second, the last known plan or the default plan is used, and
 * `DependencyDegraded` is published.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { COUNTER_NAME } from '../../kernel/store/counters.ts'
import { PlanResolvedByHost } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import type { PlanCondition } from './search.ts'

const RESOLVER_TIMEOUT_MS = 1_000
const REMEMBERED_PLANS = 10_000
const RECENT_MS = 1_000

/** Set inside `getPlan`, which may use the storage of tenants and so needs their plans. */
const resolving = new AsyncLocalStorage<true>()

export const PlanDefinition = z.strictObject({
  limits: z.record(
    z
      .string()
      .regex(
        COUNTER_NAME,
        'must have letters, digits, ".", "_" and "-"; at most 64 characters; starting with a letter or digit',
      ),
    z.number().min(0),
  ),
  backups: z
    .object({
      keep: z.number().int().min(1).optional(),
      everyHours: z
        .union([z.number().gt(0), z.literal(false)])
        .optional()
        .meta({ description: 'Interval in hours; `false`: no scheduled backups' }),
    })
    .optional()
    .meta({ description: 'Takes precedence over `backups.keep` and `backups.everyHours` of the configuration' }),
  settings: z
    .record(z.string(), z.unknown())
    .optional()
    .meta({ description: 'Values of settings by name, in place of the defaults of their definitions. No secrets' }),
})

export const PlansDescription = z.object({
  defaultPlan: z.string(),
  resolvedBy: z.enum(['metadata', 'host']),
  definitions: z.record(z.string(), PlanDefinition),
})

export interface PlansConfig {
  /** The plan of a tenant without a valid `metadata.plan`; default `free`. */
  readonly defaultPlan: string
  /** Limits of each plan. A quota without a limit is unlimited. */
  readonly definitions: Readonly<Record<string, z.input<typeof PlanDefinition>>>
  /** Returns the plan of a tenant, in place of `metadata.plan`. Called on every request, so it should be fast. */
  readonly getPlan?: (tenant: TenantRecord) => Promise<string> | string
}

export interface ResolvedPlan {
  readonly plan: string
  /** By quota; a quota without an entry is unlimited. */
  readonly limits: ReadonlyMap<string, number>
  readonly backups: z.output<typeof PlanDefinition>['backups']
  /** Values of settings, by name. */
  readonly settings: Readonly<Record<string, unknown>>
}

export const NO_PLANS: PlansConfig = { defaultPlan: 'free', definitions: { free: { limits: {} } } }

export class Plans {
  readonly #config: PlansConfig
  readonly #kernel: Kernel
  readonly #resolved = new Map<string, ResolvedPlan>()
  readonly #default: ResolvedPlan
  readonly #lastKnown = new LRUCache<string, string>({ max: REMEMBERED_PLANS })
  readonly #recent = new LRUCache<string, { readonly name: Promise<string>; readonly at: number }>({
    max: REMEMBERED_PLANS,
  })
  readonly #resolverTimeoutMs: number

  /** Throws `E_INVALID_REQUEST` for invalid definitions at the start, not at the first request. */
  constructor(config: PlansConfig, kernel: Kernel, resolverTimeoutMs = RESOLVER_TIMEOUT_MS) {
    parsed(z.record(z.string(), PlanDefinition), config.definitions, 'plans.definitions')
    this.#config = config
    this.#kernel = kernel
    this.#resolverTimeoutMs = resolverTimeoutMs
    for (const [plan, { limits, backups, settings = {} }] of Object.entries(config.definitions)) {
      this.#resolved.set(plan, { plan, limits: new Map(Object.entries(limits)), backups, settings })
    }
    const byDefault = this.#resolved.get(config.defaultPlan)
    if (!byDefault) throw new Error(`plans.defaultPlan "${config.defaultPlan}" is not among plans.definitions`)
    this.#default = byDefault
  }

  get isDecidedByHost(): boolean {
    return this.#config.getPlan !== undefined
  }

  isDefined(plan: string): boolean {
    return this.#resolved.has(plan)
  }

  /** Names of all limits of the plans. */
  limitedQuotas(): readonly string[] {
    return [...this.#resolved.values()].flatMap(({ limits }) => [...limits.keys()])
  }

  /** Whether any plan limits the quota. */
  limitsAnywhere(quota: string): boolean {
    return [...this.#resolved.values()].some(({ limits }) => limits.has(quota))
  }

  /** Rejects metadata with an undefined plan. */
  check({ plan }: Record<string, unknown>): void {
    if (plan === undefined || (typeof plan === 'string' && this.isDefined(plan))) return
    const known = Object.keys(this.#config.definitions).join(', ')
    throw invalid([{ path: 'metadata.plan', message: `must be one of ${known}` }])
  }

  /** Selects the tenants of a plan by `metadata.plan`. `E_PLAN_RESOLVED_BY_HOST`, or a 400 for an undefined plan. */
  condition(plan: string): PlanCondition {
    this.assertInMetadata()
    const { defaultPlan, definitions } = this.#config
    const names = Object.keys(definitions)
    if (!this.isDefined(plan)) throw invalid([{ path: 'plan', message: `must be one of ${names.join(', ')}` }])
    return plan === defaultPlan ? { isNoneOf: names.filter((name) => name !== plan) } : { is: plan }
  }

  assertInMetadata(): void {
    if (!this.isDecidedByHost) return
    throw PlanResolvedByHost("The host's getPlan decides the plan of a tenant, so tenants are not selected by plan.")
  }

  describe(): z.output<typeof PlansDescription> {
    const { defaultPlan, definitions } = this.#config
    return { defaultPlan, resolvedBy: this.isDecidedByHost ? 'host' : 'metadata', definitions: { ...definitions } }
  }

  /** The tenant's plan, always one of the definitions. Synchronous for plans in metadata, as every request calls it. */
  resolve(tenant: TenantRecord): ResolvedPlan | Promise<ResolvedPlan> {
    const { getPlan } = this.#config
    if (!getPlan) return this.#named(tenant.metadata.plan)
    return this.#resolveName(getPlan, tenant).then((plan) => this.#named(plan))
  }

  /**
   * The name of the tenant's plan. With `getPlan` it is a promise and at most a second old, as handles need it often.
   * Inside `getPlan` it is the last known plan.
   */
  nameOf(tenant: TenantRecord): string | Promise<string> {
    const { getPlan } = this.#config
    if (!getPlan) return this.#named(tenant.metadata.plan).plan
    if (resolving.getStore()) return this.#named(this.#lastKnown.get(tenant.id)).plan
    const nowMs = this.#kernel.clock.now().getTime()
    const recent = this.#recent.get(tenant.id)
    if (recent && Math.abs(nowMs - recent.at) < RECENT_MS) return recent.name
    const name = this.#resolveName(getPlan, tenant).then((plan) => this.#named(plan).plan)
    this.#recent.set(tenant.id, { name, at: nowMs })
    return name
  }

  /** The name of the plan of tenants with this `metadata.plan`. */
  named(plan: unknown): string {
    return this.#named(plan).plan
  }

  #named(plan: unknown): ResolvedPlan {
    const named = typeof plan === 'string' ? this.#resolved.get(plan) : undefined
    return named ?? this.#default
  }

  async #resolveName(getPlan: NonNullable<PlansConfig['getPlan']>, tenant: TenantRecord): Promise<string | undefined> {
    try {
      const resolution = resolving.run(true, () => Promise.resolve(tenant).then(getPlan))
      const plan = await withTimeout(resolution, this.#resolverTimeoutMs, () => new Error('getPlan timed out'))
      this.#lastKnown.set(tenant.id, plan)
      return plan
    } catch (error) {
      this.#kernel.resilience.report(
        {
          dependency: 'plans',
          operation: 'plans.resolve',
          tenantId: tenant.id,
          policy: 'fail-open',
          errorCode: 'E_PLAN_RESOLVER_FAILED',
        },
        error,
      )
      return this.#lastKnown.get(tenant.id)
    }
  }
}
