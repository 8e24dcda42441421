/**
 * Assesses the health of billing from stored data, without requests to the provider.
 *
 * - A job pings the provider every minute and stores the result.
 * - With active subscriptions, the age of the last processed event counts. Endpoint tests and fetched events do not.
 */
import { CheckFailure } from '../../../kernel/resilience/health.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import { paymentErrorOf, TEST_TYPE } from '../model/provider.ts'
import { secretsOf } from '../model/settings.ts'

export const SLOW_API_THRESHOLD_MS = 3_000
const PING_TIMEOUT_MS = 10_000
const MINUTE_MS = 60_000
const WARN_AFTER_MS = 5 * MINUTE_MS
const FAIL_AFTER_MS = 15 * MINUTE_MS
const UNMEASURED_MS = 3 * MINUTE_MS

export type HealthAssessment =
  | { readonly status: 'good' }
  | { readonly status: 'warn' | 'fail'; readonly code: string; readonly message: string }

export class ProviderHealth {
  readonly #dependencies: BillingDependencies
  readonly #startedAt: Date

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
    this.#startedAt = dependencies.kernel.clock.now()
  }

  async measure(): Promise<void> {
    const { payments, kernel } = this.#dependencies
    const started = performance.now()
    let errorCode: string | null = null
    try {
      await payments.ping(PING_TIMEOUT_MS)
    } catch (error) {
      errorCode = paymentErrorOf(error).code
    }
    await kernel.database.sql(
      `insert into multitenancy.billing_health (measured_at, duration_ms, error_code) values ($1, $2, $3)
       on conflict (is_only) do update
       set measured_at = excluded.measured_at, duration_ms = excluded.duration_ms, error_code = excluded.error_code`,
      [kernel.clock.now(), Math.round(performance.now() - started), errorCode],
    )
  }

  /** For `health.register('billing', …)`: returns a warning or undefined, and throws CheckFailure. */
  async check(): Promise<string | undefined> {
    const assessments = await this.assessments()
    const failed = assessments.find(({ status }) => status === 'fail')
    if (failed && failed.status !== 'good') throw new CheckFailure(failed.message)
    const warned = assessments.find(({ status }) => status === 'warn')
    return warned && warned.status !== 'good' ? warned.message : undefined
  }

  async assessments(): Promise<HealthAssessment[]> {
    return [this.#ofSecret(), await this.#ofProvider(), await this.#ofEvents()]
  }

  #ofSecret(): HealthAssessment {
    return secretsOf(this.#dependencies.settings.stripe.webhookSecret).length > 0
      ? { status: 'good' }
      : { status: 'fail', code: 'no-secret', message: 'the webhook secret is missing' }
  }

  async #ofProvider(): Promise<HealthAssessment> {
    const { clock } = this.#dependencies.kernel
    const row = await queryOf(this.#dependencies).selectFrom('billingHealth').selectAll().executeTakeFirst()
    const now = clock.now().getTime()
    const since = row?.measuredAt ?? this.#startedAt
    if (now - since.getTime() > UNMEASURED_MS) {
      return {
        status: 'fail',
        code: 'not-measured',
        message: 'the payment provider has not been measured for more than 3 minutes',
      }
    }
    if (!row) return { status: 'good' }
    const { errorCode, durationMs } = row
    if (errorCode !== null) {
      return { status: 'fail', code: 'unreachable', message: `the payment provider does not respond: ${errorCode}` }
    }
    return (durationMs ?? 0) > SLOW_API_THRESHOLD_MS
      ? { status: 'warn', code: 'slow', message: `degraded: the payment provider took ${durationMs} ms to respond` }
      : { status: 'good' }
  }

  async #ofEvents(): Promise<HealthAssessment> {
    const last = await this.lastEventAt()
    if (last === null) return { status: 'good' }
    const ageMs = this.#dependencies.kernel.clock.now().getTime() - last.getTime()
    if (ageMs <= WARN_AFTER_MS) return { status: 'good' }
    const minutes = Math.floor(ageMs / MINUTE_MS)
    const message = `no event of the payment provider was processed for ${minutes} minutes, while subscriptions are active`
    return ageMs > FAIL_AFTER_MS
      ? { status: 'fail', code: 'silent', message }
      : { status: 'warn', code: 'quiet', message: `warning: ${message}` }
  }

  /** Time of the last processed event, or of the first active subscription. Null without an active subscription. */
  async lastEventAt(): Promise<Date | null> {
    const { database } = this.#dependencies.kernel
    const { rows } = await database.sql(
      // Events of a detached customer are not processed, so its stored subscriptions may be outdated.
      `select (select max(received_at) from multitenancy.billing_inbox
           where not is_fetched and status = 'completed' and type <> $1) as "receivedAt",
         (select min(created_at) from multitenancy.billing_subscriptions left join multitenancy.billing_customers using (customer_id)
           where status in ('active', 'trialing', 'past_due') and closed_as is distinct from 'detached') as "activeSince"`,
      [TEST_TYPE],
    )
    const [{ receivedAt, activeSince }] = rows as [{ receivedAt: Date | null; activeSince: Date | null }]
    return activeSince === null ? null : (receivedAt ?? activeSince)
  }
}
