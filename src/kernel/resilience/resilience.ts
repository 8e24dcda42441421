/**
 * Applies a policy to each use of an unavailable dependency: *fail-open* continues with a fallback, *fail-closed* responds 503 with
 * `Retry-After`. Each application is reported by the event `DependencyDegraded`, an event on the active OpenTelemetry span, a counter,
 * and a log line (at most one a minute for each operation). Only the log contains the message of the dependency.
 */
import { z } from 'zod'
import { DependencyUnavailable, TenancyError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { isDatabaseUnavailable } from '../database/availability.ts'
import { writeFailure } from '../database/write-failures.ts'
import { type Events, event } from '../events/events.ts'
import type { Series } from '../metrics/metrics.ts'
import type { Tracing } from './tracing.ts'

const LOGGED_EVERY_MS = 60_000

const Policy = z.enum(['fail-open', 'fail-closed'])
export type Policy = z.output<typeof Policy>

export const DependencyDegraded = event(
  'DependencyDegraded',
  'A dependency failed and a policy decided in its place',
  z.object({
    dependency: z.string(),
    operation: z.string(),
    tenantId: z.string().nullable(),
    policy: Policy,
    errorCode: z.string(),
  }),
  { isInternal: true },
)

/** `resilience` of the configuration. `redis` is the store of any driver. */
export const ResilienceSettings = z.strictObject({
  redis: z
    .strictObject({
      quota: Policy.default('fail-open').describe('`track`, `consume`, `decide`, and reading of quotas'),
      cache: Policy.default('fail-open').describe(
        'Reading flags by way of the store; open: past it, from the database',
      ),
      metrics: Policy.default('fail-open').describe(
        '`increment` and reading of metrics; open: kept in the process until it can be handed over',
      ),
    })
    .prefault({}),
  database: z
    .strictObject({
      flags: Policy.default('fail-open').describe('Evaluating flags; open: the last known value, else false'),
    })
    .prefault({}),
  provider: z
    .strictObject({
      checkout: Policy.default('fail-closed').describe(
        "Checkouts at the payment provider; open: the browser goes to the checkout's `cancelUrl`",
      ),
    })
    .prefault({}),
  retryAfterSeconds: z.int().min(1).max(3_600).default(5).describe('`Retry-After` of a 503 by a policy'),
})

export type ResilienceConfig = z.input<typeof ResilienceSettings>

/** The uses of a dependency, by their names in the configuration. */
export type Use = 'redis.quota' | 'redis.cache' | 'redis.metrics' | 'database.flags' | 'provider.checkout'
export type Dependency = 'redis' | 'database' | 'provider'

const WORDS: Readonly<Record<Dependency, string>> = {
  redis: 'store',
  database: 'database',
  provider: 'payment provider',
}

const dependencyOf = (use: Use): Dependency => use.slice(0, use.indexOf('.')) as Dependency

export interface Degradation {
  readonly dependency: string
  readonly operation: string
  readonly tenantId: string | null
  readonly policy: Policy
  readonly errorCode: string
}

export interface ResilienceDependencies {
  readonly events: Events
  readonly log: Logger
  readonly tracing: Tracing
}

export class Resilience {
  readonly retryAfterSeconds: number
  readonly #policies: Readonly<Record<Use, Policy>>
  readonly #dependencies: ResilienceDependencies
  readonly #counts = new Map<string, { readonly labels: { dependency: string; policy: string }; value: number }>()
  readonly #loggedAt = new Map<string, number>()

  constructor(config: ResilienceConfig, dependencies: ResilienceDependencies) {
    const { redis, database, provider, retryAfterSeconds } = ResilienceSettings.parse(config)
    this.retryAfterSeconds = retryAfterSeconds
    this.#policies = {
      'redis.quota': redis.quota,
      'redis.cache': redis.cache,
      'redis.metrics': redis.metrics,
      'database.flags': database.flags,
      'provider.checkout': provider.checkout,
    }
    this.#dependencies = dependencies
    for (const [use, policy] of Object.entries(this.#policies)) this.#count(dependencyOf(use as Use), policy, 0)
  }

  policyOf(use: Use): Policy {
    return this.#policies[use]
  }

  /**
   * The policy takes effect: returns if the use continues without its dependency, otherwise throws `E_DEPENDENCY_UNAVAILABLE`.
   * Other errors are thrown unchanged.
   */
  degrade(use: Use, operation: string, tenantId: string | null, error: unknown): void {
    if (!DependencyUnavailable.matches(error)) throw error
    const policy = this.policyOf(use)
    const dependency = dependencyOf(use)
    this.report({ dependency, operation, tenantId, policy, errorCode: error.code }, error)
    if (policy === 'fail-open') return
    throw this.rejection(dependency, error)
  }

  /** The error of a use without a policy, which must not be lost: a write. */
  rejection(dependency: Dependency, cause: unknown): TenancyError {
    const problem = writeFailure(cause) === undefined ? 'cannot be reached' : 'cannot store data'
    return DependencyUnavailable(`The ${WORDS[dependency]} ${problem} at the moment. Try again.`, {
      retryAfterSeconds: this.retryAfterSeconds,
      cause,
    })
  }

  /** Awaits a use of the backoffice without a policy. @throws E_DEPENDENCY_UNAVAILABLE if the backoffice is unavailable */
  async whileAvailable<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      throw isDatabaseUnavailable(error) ? this.rejection('database', error) : error
    }
  }

  /** Reports that a policy took effect. Does not wait. */
  report(degradation: Degradation, error?: unknown): void {
    const { events, log, tracing } = this.#dependencies
    const { dependency, operation, tenantId, policy, errorCode } = degradation
    tracing.event(DependencyDegraded.name, {
      'tenantry.dependency': dependency,
      'tenantry.operation': operation,
      'tenantry.policy': policy,
      'error.type': errorCode,
      ...(tenantId === null ? {} : { 'tenantry.tenant_id': tenantId }),
    })
    this.#count(dependency, policy)
    this.#log(degradation, error)
    if (!events.hasHandlers(DependencyDegraded)) return // with a dependency away this may be on every request
    events
      .announce(DependencyDegraded, degradation)
      .catch((failure) => log.error({ err: failure }, 'that a dependency is degraded could not be said'))
  }

  series(): readonly Series[] {
    return [
      {
        name: 'multitenancy_dependency_degraded_total',
        help: 'How often a policy decided in the place of a dependency',
        type: 'counter',
        collect: () => this.#counts.values(),
      },
    ]
  }

  #count(dependency: string, policy: string, times = 1): void {
    const key = `${dependency} ${policy}`
    const count = this.#counts.get(key)
    if (count) count.value += times
    else this.#counts.set(key, { labels: { dependency, policy }, value: times })
  }

  #log({ operation, policy, tenantId }: Degradation, error: unknown): void {
    const now = performance.now()
    if (now - (this.#loggedAt.get(operation) ?? Number.NEGATIVE_INFINITY) < LOGGED_EVERY_MS) return
    this.#loggedAt.set(operation, now)
    this.#dependencies.log.warn(
      { err: error, operation, policy, tenantId },
      'a dependency is unavailable; its policy applies',
    )
  }
}

/** The code of an error, for callers that report a degradation themselves. */
export const codeOf = (error: unknown): string =>
  error instanceof TenancyError ? error.code : DependencyUnavailable.code
