/**
 * The states of a delivery (one event to one subscription), and the rules of its retries.
 *
 *   pending ──► delivering ──2xx──────────────► delivered
 *      ▲            │  ▲ └──budget left───────► retry_scheduled ──(next_retry_at passed)──┐
 *      │            │  └────────────────────────────────────────────────────────────────┘
 *   replay()        └──budget used, or 410────► failed
 *
 *   claim()   pending | retry_scheduled -> delivering            sql/claim.ts: one worker has the lease, which outlives the timeout
 *   settle()  delivering -> delivered | retry_scheduled | failed queue/queue.ts
 *   replay()  delivered | failed -> pending                      the same id, a new budget; attempt numbers continue
 *
 * Guaranteed: at least once, the same bytes each time. Not guaranteed: order, exactly once. Receivers drop duplicates by
 * `x-delivery-id`. An expired lease, or an attempt aborted by a stopping worker, uses nothing of the budget.
 */
import { z } from 'zod'
import { EventName } from './event-names.ts'

export const STATES = ['pending', 'delivering', 'retry_scheduled', 'delivered', 'failed'] as const
export const DeliveryState = z.enum(STATES)
export type DeliveryState = z.output<typeof DeliveryState>

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

/** Delays after the first attempt, the second, and so on. Later attempts use the last delay. */
export const BASE_DELAYS_MS: readonly number[] = [
  10 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  120 * MINUTE_MS,
]
/** Delay after so many attempts of a budget, without jitter. */
export const baseDelayMs = (used: number): number => BASE_DELAYS_MS[Math.min(used, BASE_DELAYS_MS.length) - 1] as number
export const JITTER = 0.2
/** `Retry-After` extends a delay up to this factor. */
const MAX_EXTENSION = 2

/** Stored as the error of a delivery that a process without the key has postponed. */
export const SECRET_UNREADABLE = 'its secret cannot be decrypted'

const GONE = 410
/** `Retry-After` has an effect with these statuses only. */
const BUSY = new Set([429, 503])
/** The three formats of RFC 9110, 5.6.7. The last one has no GMT. `Date.parse` accepts far more. */
const HTTP_DATE =
  /^(?:\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT|\w{6,9}, \d\d-\w{3}-\d\d [\d:]{8} GMT|\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})$/

const at = z.iso.datetime()

export const Delivery = z
  .object({
    id: z.uuid().describe('Sent as `x-delivery-id` and `webhook-id`, the same at each attempt'),
    webhookId: z.uuid(),
    tenantId: z.string().nullable().describe('Tenant of the event'),
    event: EventName,
    state: DeliveryState,
    attemptCount: z.int().describe('Number of attempts, including those before a replay'),
    lastStatus: z.int().nullable().describe('The last HTTP status; null if there was no response'),
    nextRetryAt: at.nullable().describe('Time of the next attempt, in state `retry_scheduled`'),
    createdAt: at,
    deliveredAt: at.nullable(),
  })
  .meta({ id: 'WebhookDelivery' })
export type Delivery = z.output<typeof Delivery>

export const DeliveryOfAny = Delivery.extend({
  owner: z.string().nullable().describe('Tenant of the subscription; null for a subscription of the host'),
  url: z.string().nullable().describe('URL of the subscription; null if it is purged'),
}).meta({ id: 'WebhookDeliveryOfAny' })
export type DeliveryOfAny = z.output<typeof DeliveryOfAny>

export const Attempt = z
  .object({
    number: z.int(),
    startedAt: at,
    durationMs: z.int(),
    status: z.int().nullable(),
    error: z.string().nullable().describe('Cause of the failure, if there was no complete response'),
    address: z.string().nullable().describe('IP address of the receiver'),
    requestHeaders: z.record(z.string(), z.string()),
    responseHeaders: z.record(z.string(), z.string()).nullable(),
    responseBody: z.string().nullable().describe('The first 16 KiB'),
  })
  .meta({ id: 'WebhookAttempt' })
export type Attempt = z.output<typeof Attempt>

export const DeliveryDetail = Delivery.extend({
  payload: z.unknown().describe('The body of the request'),
  explanation: z.string().describe('Why the delivery is in this state, and what happens next'),
  attempts: z.array(Attempt),
  schedule: z
    .array(z.object({ number: z.int().describe('Number of the attempt'), at }))
    .describe('Planned times of the attempts since the dispatch or the last replay. Delays vary by 20 %'),
}).meta({ id: 'WebhookDeliveryDetail' })
export type DeliveryDetail = z.output<typeof DeliveryDetail>

/** The parts of an exchange that decide the next state. */
export interface Outcome {
  readonly status: number | null
  readonly error: string | null
  /** Header `Retry-After` of the response, unparsed. */
  readonly retryAfter: string | null
}

export interface Tried {
  /** Attempts of the current budget, including this one. */
  readonly used: number
  readonly maxAttempts: number
}

export interface Verdict {
  readonly state: 'delivered' | 'retry_scheduled' | 'failed'
  /** Time until the next attempt; null if there is none. */
  readonly delayMs: number | null
  /** Reason for disabling the subscription; null to keep it enabled. */
  readonly disables: 'gone' | null
}

/** Decides the next state of a delivery. @param chance random number from 0 to 1, for the jitter */
export function verdictOn(outcome: Outcome, { used, maxAttempts }: Tried, now: Date, chance: number): Verdict {
  const { status, error } = outcome
  if (error === null && status !== null && status >= 200 && status < 300)
    return { state: 'delivered', delayMs: null, disables: null }
  if (status === GONE) return { state: 'failed', delayMs: null, disables: 'gone' }
  if (used >= maxAttempts) return { state: 'failed', delayMs: null, disables: null }
  return { state: 'retry_scheduled', delayMs: delayMs(used, outcome, now, chance), disables: null }
}

export function delayMs(used: number, { status, retryAfter }: Outcome, now: Date, chance: number): number {
  const base = baseDelayMs(used)
  const usual = base * (1 - JITTER + 2 * JITTER * chance)
  const requestedMs = status !== null && BUSY.has(status) ? retryAfterMs(retryAfter, now) : 0
  return Math.round(Math.max(usual, Math.min(requestedMs, base * MAX_EXTENSION)))
}

/** Accepts seconds or a date (RFC 9110, 10.2.3). Returns 0 for invalid text and for past dates. */
function retryAfterMs(text: string | null, now: Date): number {
  if (text === null) return 0
  if (/^\d+$/.test(text)) return Number(text) * SECOND_MS
  if (!HTTP_DATE.test(text)) return 0
  const until = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
  return Number.isNaN(until) ? 0 : Math.max(0, until - now.getTime())
}
