/** Claims, loads and settles many deliveries by one statement each. The rules are in the SQL functions of `sql/`. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../../kernel/base/clock.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { shiftMs } from '../model/database-time.ts'
import type { Verdict } from '../model/delivery.ts'
import { FAILING } from '../sql/settings.ts'

/** Timeout of a statement, for connections that no longer respond. */
export const TIMEOUT_MS = 15_000
const CLAIM_WAIT_MS = 25

export interface Claimed {
  readonly id: string
  readonly claim: string
  readonly webhookId: string
  readonly tenantId: string | null
  /** Tenant of the subscription; `-` for a subscription of the host. */
  readonly partitionKey: string
  readonly event: string
  /** Number of completed attempts. */
  readonly attemptCount: number
  readonly budgetStart: number
  readonly createdAt: Date
  /** Null: past its retention. */
  readonly body: string | null
  /** The trace of the dispatch, read with the body. */
  readonly traceparent: string | null
  readonly url: string
  /** The subscription has only failures since some time, or its receiver is slow. */
  readonly isFailing: boolean
  /** Encrypted. */
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: Date | null
  /** Generation of the subscription, read with the body; null: deleted, or not read yet. */
  readonly generation: number | null
  /** Whether the body is sent in an envelope; read with the body. */
  readonly envelope: boolean
}

/** Number of ready deliveries that a worker can take, and the length of their leases. */
export interface Offer {
  /** Unique id of the claim. */
  readonly claim: string
  readonly wanted: number
  readonly leaseMs: number
  /** Maximum of deliveries in flight over all processes. */
  readonly perSubscription: number
  readonly perTenant: number
  /** Subscriptions with slow receivers, which are treated like failing ones. */
  readonly slowWebhooks: readonly string[]
  /** Milliseconds of `performance.now()`. */
  readonly madeAt: number
}

/** Last served partition key under `''`, and last served tenant under each subscription of the host. The next claim starts after them. */
export type RoundRobinCursor = Readonly<Record<string, string>>

export interface ClaimOptions extends Omit<Offer, 'madeAt'> {
  /** Maximum of deliveries to failing or slow receivers. */
  readonly wantedFailing: number
  /** Result of the previous claim; `{}` for the first claim. */
  readonly cursor: RoundRobinCursor
  /** Subscription of a listener: other workers do not claim its deliveries. */
  readonly onlyWebhook: string | null
}

/** A delivery without its body, for the settlement. */
export type Sent = Omit<Claimed, 'body' | 'traceparent'>

/** A row of a message, or the generation of a subscription. */
interface Loaded {
  readonly body: string
  readonly traceparent: string | null
  readonly generation: number
  readonly envelope: boolean
}

/** A claimed delivery without its body. */
export interface Head extends Sent {
  readonly messageId: string
  /** Size of the body. */
  readonly bytes: number
}

export interface Claim {
  readonly deliveries: readonly Head[]
  readonly cursor: RoundRobinCursor
  /** Time until the next unclaimed delivery is due; null if none waits. */
  readonly nextDueMs: number | null
  /** A further claim would return more deliveries now. */
  readonly isMore: boolean
  /** Partition keys and subscriptions at their limit of deliveries in flight. */
  readonly full: ReadonlySet<string>
}

export interface Settlement {
  readonly delivery: Sent
  readonly verdict: Verdict
  readonly status: number | null
  readonly error: string | null
  /** A failure was caused by the receiver. */
  readonly isBlamed: boolean
  readonly startedMs: number
  readonly durationMs: number
  readonly address: string | null
  readonly requestHeaders: string
  readonly responseHeaders: string | null
  readonly responseBody: string | null
}

/** The keys under which `Claim.full` may contain the limits of a delivery. */
export const cursorKeysOf = ({ partitionKey, webhookId, isFailing }: Sent): readonly string[] =>
  isFailing ? [partitionKey, webhookId, FAILING] : [partitionKey, webhookId]

/** Result of a settlement. */
export interface Settled {
  /** False: the lease had expired, and another worker has claimed the delivery. */
  readonly isOurs: boolean
  /** Start of an unbroken series of failures of the subscription. */
  readonly failingSince: Date | null
}

export class DeliveryQueue {
  readonly #database: Database
  readonly #clock: Clock
  /** The claim in progress of this process. */
  #claiming: Promise<void> | undefined

  constructor(database: Database, clock: Clock) {
    this.#database = database
    this.#clock = clock
  }

  /** Claims ready deliveries. Call it again only after the last claim has ended. */
  async claim(options: ClaimOptions): Promise<Claim> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#claiming = promise
    try {
      return await this.#claim(options)
    } finally {
      this.#claiming = undefined
      resolve()
    }
  }

  /** Waits for the claim in progress, but 25 ms at most. */
  async betweenClaims(): Promise<void> {
    if (this.#claiming) await Promise.race([this.#claiming, sleep(CLAIM_WAIT_MS, undefined, { ref: false })])
  }

  async #claim(options: ClaimOptions): Promise<Claim> {
    const { rows } = await this.#database.sql(
      {
        name: 'claim-webhook-deliveries',
        timeoutMs: TIMEOUT_MS,
        text: `select id, webhook_id, tenant_id, partition_key, event, attempt_count, budget_start, created_at, message_id, bytes, is_failing,
            url, secret, previous_secret, previous_until, next_due_ms, next_turns, is_more, full_ones
          from multitenancy.claim_webhook_deliveries($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
      },
      [
        shiftMs(this.#clock),
        options.claim,
        options.wanted,
        options.leaseMs,
        options.perSubscription,
        options.perTenant,
        options.wantedFailing,
        options.cursor,
        options.onlyWebhook,
        options.slowWebhooks,
      ],
    )
    const last = rows.pop()
    return {
      deliveries: rows.map((row) => headOf(row, options.claim)),
      cursor: last.next_turns,
      nextDueMs: last.next_due_ms,
      isMore: last.is_more,
      full: new Set(last.full_ones),
    }
  }

  /** Loads the bodies, once for each message, and generation and form of the body of the subscriptions. */
  async load(heads: readonly Head[]): Promise<Claimed[]> {
    const { rows } = await this.#database.sql(
      {
        name: 'bodies-of-webhooks',
        timeoutMs: TIMEOUT_MS,
        text: `select id, body, traceparent, null as generation, null as envelope from multitenancy.webhook_messages where id = any($1::uuid[])
          union all select id, null, null, generation, envelope from multitenancy.webhook_subscriptions where id = any($2::uuid[])`,
      },
      [[...new Set(heads.map(({ messageId }) => messageId))], [...new Set(heads.map(({ webhookId }) => webhookId))]],
    )
    const found = new Map<string, Loaded>(rows.map((row) => [row.id, row]))
    return heads.map(({ messageId, bytes: _, ...head }) => ({
      ...head,
      body: found.get(messageId)?.body ?? null,
      traceparent: found.get(messageId)?.traceparent ?? null,
      generation: found.get(head.webhookId)?.generation ?? null,
      envelope: found.get(head.webhookId)?.envelope ?? false,
    }))
  }

  /** Returns the results in the order of `settlements`. */
  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { rows } = await this.#database.sql(
      {
        name: 'settle-webhook-deliveries',
        timeoutMs: TIMEOUT_MS,
        text: `select lost, failing_webhooks, failing_since from multitenancy.settle_webhook_deliveries(
          $1, $2::uuid[], $3::uuid[], $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
      },
      [
        shiftMs(this.#clock),
        settlements.map(({ delivery }) => delivery.id),
        settlements.map(({ delivery }) => delivery.claim),
        settlements.map(({ verdict }) => verdict.state),
        settlements.map(({ verdict }) => verdict.delayMs),
        settlements.map(({ status }) => status),
        settlements.map(({ error }) => error),
        settlements.map(({ isBlamed }) => isBlamed),
        settlements.map(({ startedMs }) => startedMs),
        settlements.map(({ durationMs }) => durationMs),
        settlements.map(({ address }) => address),
        jsonTexts(settlements.map(({ requestHeaders }) => requestHeaders)),
        jsonTexts(settlements.map(({ responseHeaders }) => responseHeaders)),
        settlements.map(({ responseBody }) => responseBody),
      ],
    )
    const [{ lost: lostIds, failing_webhooks: webhooks, failing_since: since }] = rows as [any]
    const lost = new Set<string>(lostIds)
    const failing = new Map<string, Date>(webhooks?.map((id: string, index: number) => [id, since[index]]))
    return settlements.map(({ delivery: { id, webhookId }, verdict }) => ({
      isOurs: !lost.has(id),
      failingSince: verdict.state === 'delivered' ? null : (failing.get(webhookId) ?? null),
    }))
  }
}

/** An array literal of PostgreSQL. JSON has no control characters, so the escapes of JSON are valid there, and faster. */
const jsonTexts = (texts: readonly (string | null)[]): string =>
  `{${texts.map((text) => (text === null ? 'null' : JSON.stringify(text))).join()}}`

const headOf = (row: any, claim: string): Head => ({
  id: row.id,
  claim,
  webhookId: row.webhook_id,
  tenantId: row.tenant_id,
  partitionKey: row.partition_key,
  event: row.event,
  attemptCount: row.attempt_count,
  budgetStart: row.budget_start,
  createdAt: row.created_at,
  messageId: row.message_id,
  bytes: row.bytes ?? 0,
  isFailing: row.is_failing,
  url: row.url,
  secret: row.secret,
  previousSecret: row.previous_secret,
  previousUntil: row.previous_until,
  generation: null,
  envelope: false,
})
