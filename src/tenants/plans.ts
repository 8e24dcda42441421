/**
 * Plans: what each allows, and which one a tenant has. By default a tenant's plan is `metadata.plan`; a host with billing of
 * its own gives `getPlan` instead. A resolver that fails or takes longer than a second does not take the host down: the plan
 * last known counts, else the default one, and `DependencyDegraded` says so.
 */
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { invalid } from '../kernel/errors.ts'
import type { Kernel } from '../kernel/kernel.ts'
import { DependencyDegraded } from '../kernel/resilience.ts'
import type { Tenant } from './tenant.ts'

const RESOLVER_TIMEOUT_MS = 1_000
const REMEMBERED_PLANS = 10_000

export const PlanDefinition = z.object({
  limits: z.record(z.string(), z.number().min(0)),
  backups: z
    .object({
      keep: z.number().int().min(1).optional(),
      everyHours: z
        .union([z.number().gt(0), z.literal(false)])
        .optional()
        .meta({ description: '`false`: none is made by itself' }),
    })
    .optional()
    .meta({ description: 'In place of the `backups.keep` and `backups.everyHours` of the configuration' }),
})

export const PlansDescription = z.object({
  defaultPlan: z.string(),
  resolvedBy: z.enum(['metadata', 'host']),
  definitions: z.record(z.string(), PlanDefinition),
})

export interface PlansConfig {
  /** The plan of a tenant that names none; default `free`. */
  readonly defaultPlan: string
  /** What each plan allows. A quota that `limits` does not name is unlimited. */
  readonly definitions: Readonly<Record<string, z.input<typeof PlanDefinition>>>
  /** Decides a tenant's plan in place of `metadata.plan`. Called on every request, so it should be quick. */
  readonly getPlan?: (tenant: Tenant) => Promise<string> | string
}

export interface ResolvedPlan {
  readonly plan: string
  readonly limits: Readonly<Record<string, number>>
  readonly backups: z.output<typeof PlanDefinition>['backups']
}

export const NO_PLANS: PlansConfig = { defaultPlan: 'free', definitions: { free: { limits: {} } } }

export class Plans {
  readonly #config: PlansConfig
  readonly #kernel: Kernel
  readonly #lastKnown = new LRUCache<string, string>({ max: REMEMBERED_PLANS })

  constructor(config: PlansConfig, kernel: Kernel) {
    if (!Object.hasOwn(config.definitions, config.defaultPlan)) {
      throw new Error(`plans.defaultPlan "${config.defaultPlan}" is not among plans.definitions`)
    }
    this.#config = config
    this.#kernel = kernel
  }

  get isDecidedByHost(): boolean {
    return this.#config.getPlan !== undefined
  }

  isDefined(plan: string): boolean {
    return Object.hasOwn(this.#config.definitions, plan)
  }

  /** Refuses metadata that name a plan which does not exist. */
  check({ plan }: Record<string, unknown>): void {
    if (plan === undefined || (typeof plan === 'string' && this.isDefined(plan))) return
    const known = Object.keys(this.#config.definitions).join(', ')
    throw invalid([{ path: 'metadata.plan', message: `not a plan; one of ${known}` }])
  }

  describe(): z.output<typeof PlansDescription> {
    const { defaultPlan, definitions } = this.#config
    return { defaultPlan, resolvedBy: this.isDecidedByHost ? 'host' : 'metadata', definitions: { ...definitions } }
  }

  /** The tenant's plan: always one of the definitions. */
  async resolve(tenant: Tenant): Promise<ResolvedPlan> {
    const named = this.#config.getPlan ? await this.#ask(this.#config.getPlan, tenant) : tenant.metadata.plan
    const plan = typeof named === 'string' && this.isDefined(named) ? named : this.#config.defaultPlan
    const { limits = {}, backups } = this.#config.definitions[plan] ?? {}
    return { plan, limits, backups }
  }

  async #ask(getPlan: NonNullable<PlansConfig['getPlan']>, tenant: Tenant): Promise<string | undefined> {
    let timer: NodeJS.Timeout | undefined
    try {
      const deadline = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('getPlan took too long')), RESOLVER_TIMEOUT_MS)
      })
      const plan = await Promise.race([Promise.resolve(tenant).then(getPlan), deadline])
      this.#lastKnown.set(tenant.id, plan)
      return plan
    } catch (error) {
      this.#kernel.log.warn({ err: error, tenantId: tenant.id }, 'the plan could not be resolved')
      await this.#kernel.events.publish(DependencyDegraded, {
        dependency: 'plans',
        operation: 'plans.resolve',
        tenantId: tenant.id,
        policy: 'fail-open',
        errorCode: 'E_PLAN_RESOLVER_FAILED',
      })
      return this.#lastKnown.get(tenant.id)
    } finally {
      clearTimeout(timer)
    }
  }
}
