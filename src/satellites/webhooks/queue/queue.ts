/**
 * The queue of deliveries, as workers see it: what is claimed and settled, each by one statement over many. The rules of who gets
 * what, and whose a row is, are in functions.ts; what goes back without being settled, in released-claims.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../../kernel/base/clock.ts'
import type { Database } from '../../../kernel/database/database.ts'
import { shiftMs } from '../model/database-time.ts'
import type { Verdict } from '../model/delivery.ts'
import { FAILING } from '../sql/settings.ts'

/** Of a statement, on a connection that has gone silent. */
export const TIMEOUT_MS = 15_000
const CLAIM_WAIT_MS = 25

export interface Claimed {
  readonly id: string
  readonly claim: string
  readonly webhookId: string
  readonly tenantId: string | null
  /** Whose subscription it is for. */
  readonly partitionKey: string
  readonly event: string
  /** Made so far. */
  readonly attemptCount: number
  readonly budgetStart: number
  readonly createdAt: Date
  /** Null when it is not kept any more. */
  readonly body: string | null
  readonly url: string
  /** Whether its subscription knows nothing but failures at present. */
  readonly isFailing: boolean
  /** Encrypted. */
  readonly secret: string
  readonly previousSecret: string | null
  readonly previousUntil: Date | null
  /** Of its subscription, as it was read with the body; null: it is gone, or not read yet. */
  readonly generation: number | null
}

/** How much of what is ready somebody would take, and for how long. */
export interface Offer {
  /** Names the claim; no other has it. */
  readonly claim: string
  readonly wanted: number
  readonly leaseMs: number
  /** On their way at once over all processes. */
  readonly perSubscription: number
  readonly perTenant: number
  /** Subscriptions whose receivers it knows to be slow: they stand apart, as those that fail do. */
  readonly slowWebhooks: readonly string[]
  /** As `performance.now()` tells time. */
  readonly madeAt: number
}

/** The last one served; the next claim begins after it. Of partition keys under `''`, of tenants that the host hears under its subscription. */
export type RoundRobinCursor = Readonly<Record<string, string>>

export interface ClaimOptions extends Omit<Offer, 'madeAt'> {
  /** Of subscriptions that fail or are slow, at most. */
  readonly wantedFailing: number
  /** As the claim before answered; `{}`: the first. */
  readonly cursor: RoundRobinCursor
  /** Of a listener: its own subscription, which nobody else sends for. */
  readonly onlyWebhook: string | null
}

/** What a settlement must know of it. */
export type Sent = Omit<Claimed, 'body'>

/** Claimed, but for its body. */
export interface Head extends Sent {
  readonly messageId: string
  /** Of the body. */
  readonly bytes: number
}

export interface Claim {
  readonly deliveries: readonly Head[]
  readonly cursor: RoundRobinCursor
  /** Until something is due that was not claimed; null: nothing waits. */
  readonly nextDueMs: number | null
  /** Whether there is more that could be claimed at once. */
  readonly isMore: boolean
  /** Partition keys and subscriptions that have as many on their way as they may, and perhaps more that are ready. */
  readonly full: ReadonlySet<string>
}

export interface Settlement {
  readonly delivery: Sent
  readonly verdict: Verdict
  readonly status: number | null
  readonly error: string | null
  /** Whether a failure says something of the receiver. */
  readonly isBlamed: boolean
  readonly startedMs: number
  readonly durationMs: number
  readonly address: string | null
  readonly requestHeaders: string
  readonly responseHeaders: string | null
  readonly responseBody: string | null
}

/** What `Claim.full` may hold of a delivery. */
export const cursorKeysOf = ({ partitionKey, webhookId, isFailing }: Sent): readonly string[] =>
  isFailing ? [partitionKey, webhookId, FAILING] : [partitionKey, webhookId]

/** What became of a settlement. */
export interface Settled {
  /** False when the lease had lapsed and another worker has it. */
  readonly isOurs: boolean
  /** Since when its subscription knows nothing but failures. */
  readonly failingSince: Date | null
}

export class DeliveryQueue {
  readonly #database: Database
  readonly #clock: Clock
  /** Until the claim ends that is under way here. */
  #claiming: Promise<void> | undefined

  constructor(database: Database, clock: Clock) {
    this.#database = database
    this.#clock = clock
  }

  /** One at a time. */
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

  /** Resolves when no claim is under way here, or has been for a while. */
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

  /** With their bodies, of a message that several get once, and the generations of their subscriptions. */
  async load(heads: readonly Head[]): Promise<Claimed[]> {
    const { rows } = await this.#database.sql(
      {
        name: 'bodies-of-webhooks',
        timeoutMs: TIMEOUT_MS,
        text: `select id, body, null as generation from multitenancy.webhook_messages where id = any($1::uuid[])
          union all select id, null, generation from multitenancy.webhook_subscriptions where id = any($2::uuid[])`,
      },
      [[...new Set(heads.map(({ messageId }) => messageId))], [...new Set(heads.map(({ webhookId }) => webhookId))]],
    )
    const found = new Map<string, { body: string; generation: number }>(rows.map((row) => [row.id, row]))
    return heads.map(({ messageId, bytes: _, ...head }) => ({
      ...head,
      body: found.get(messageId)?.body ?? null,
      generation: found.get(head.webhookId)?.generation ?? null,
    }))
  }

  /** In the order of `settlements`. */
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

/** As an array of PostgreSQL. What is JSON holds no control characters, and so it is escaped there as it is in JSON, which is faster. */
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
})
