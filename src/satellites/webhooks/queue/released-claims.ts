/** Releases claims without a result: each delivery is ready again. A worker that has lost its claim changes nothing. */
import type { Clock } from '../../../kernel/base/clock.ts'
import type { Logger } from '../../../kernel/base/logger.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { shiftMs } from '../model/database-time.ts'
import { CHANNEL } from '../sql/functions.ts'
import { type Claimed, type Settlement, TIMEOUT_MS } from './queue.ts'

export class ReleasedClaims {
  readonly #database: Database
  readonly #clock: Clock
  readonly #log: Logger

  constructor(database: Database, { clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#database = database
    this.#clock = clock
    this.#log = log
  }

  /** Makes deliveries that were not sent ready again. If the database fails, their leases expire. */
  async release(deliveries: readonly Pick<Claimed, 'id' | 'claim'>[]): Promise<void> {
    if (deliveries.length === 0) return
    await this.#release(deliveries).catch((error) => {
      this.#log.warn({ err: error }, 'claimed webhook deliveries were not released; their leases expire')
    })
  }

  async #release(deliveries: readonly Pick<Claimed, 'id' | 'claim'>[]): Promise<void> {
    await this.#database.sql(
      {
        timeoutMs: TIMEOUT_MS,
        text: `with given as (
            update multitenancy.webhook_deliveries d set is_ready = true, claim = null,
              due_at = clock_timestamp() + $1 * interval '1 millisecond',
              state = case when attempt_count = budget_start then 'pending' else 'retry_scheduled' end
            from unnest($2::uuid[], $3::uuid[]) as o(id, claim)
            where d.id = o.id and d.claim = o.claim and d.state = 'delivering' returning d.id)
          select pg_notify('${CHANNEL}', '') from given limit 1`,
      },
      [shiftMs(this.#clock), deliveries.map(({ id }) => id), deliveries.map(({ claim }) => claim)],
    )
  }

  /** Makes a delivery ready again whose request was aborted. Stores the attempt, which uses nothing of the budget. */
  async abort({ delivery, ...attempt }: Omit<Settlement, 'verdict'>): Promise<void> {
    await this.#database.sql(
      {
        timeoutMs: TIMEOUT_MS,
        text: `with aborted as (
            update multitenancy.webhook_deliveries set is_ready = true, claim = null,
              due_at = clock_timestamp() + $1 * interval '1 millisecond',
              state = case when attempt_count = budget_start then 'pending' else 'retry_scheduled' end,
              attempt_count = attempt_count + 1, budget_start = budget_start + 1, last_error = $4
            where id = $2 and claim = $3 and state = 'delivering' returning id, attempt_count, tenant_id
          ), kept as (
            insert into multitenancy.webhook_attempts
              (delivery_id, number, tenant_id, started_at, duration_ms, error, address, request_headers,
               status, response_headers, response_body)
            select id, attempt_count, tenant_id, to_timestamp($5::float8 / 1000), $6, $4, $7, $8, $9, $10, $11 from aborted)
          select pg_notify('${CHANNEL}', '') from aborted`,
      },
      [
        shiftMs(this.#clock),
        delivery.id,
        delivery.claim,
        attempt.error,
        attempt.startedMs,
        attempt.durationMs,
        attempt.address,
        attempt.requestHeaders,
        attempt.status,
        attempt.responseHeaders,
        attempt.responseBody,
      ],
    )
  }

  /** Schedules a retry of a delivery that this process cannot send. It uses nothing of the budget. */
  async postpone({ id, claim }: Claimed, error: string, delayMs: number): Promise<void> {
    await this.#database.sql(
      {
        timeoutMs: TIMEOUT_MS,
        text: `update multitenancy.webhook_deliveries set state = 'retry_scheduled', claim = null, last_error = $4, last_status = null,
            due_at = clock_timestamp() + ($1::float8 + $5) * interval '1 millisecond'
          where id = $2 and claim = $3 and state = 'delivering'`,
      },
      [shiftMs(this.#clock), id, claim, error, delayMs],
    )
  }
}
