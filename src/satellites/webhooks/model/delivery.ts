/**
 * One delivery of one event to one subscription.
 *
 *   pending ──► delivering ──2xx──────────────► delivered
 *      ▲            │  ▲ └──budget left───────► retry_scheduled ──(next_retry_at passed)──┐
 *      │            │  └────────────────────────────────────────────────────────────────┘
 *   replay()        └──budget used, or 410────► failed
 *
 *   claim()   pending | retry_scheduled -> delivering            one worker holds the lease; a lease outlives the time-out
 *   settle()  delivering -> delivered | retry_scheduled | failed
 *   replay()  delivered | failed -> pending                      the same id, a fresh budget; numbering goes on
 *
 * Guaranteed: at least once, the same bytes each time. Not guaranteed: order, exactly once; receivers drop repeats by
 * x-delivery-id. A lease that lapses, because its worker is gone, makes the delivery ready again; it has used nothing of the budget.
 * Nor has an attempt that was broken off because its worker stopped.
 */
import { z } from 'zod'
import { EventName } from './event-names.ts'

export const STATES = ['pending', 'delivering', 'retry_scheduled', 'delivered', 'failed'] as const
export const DeliveryState = z.enum(STATES)
export type DeliveryState = z.output<typeof DeliveryState>

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

/** Delays after the first attempt, the second, .. (the specification's schedule); of those beyond, the last. */
export const BASE_DELAYS_MS: readonly number[] = [
  10 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  120 * MINUTE_MS,
]
export const JITTER = 0.2
/** How far `Retry-After` may stretch a delay. */
const LONGEST_STRETCH = 2

/** Why one is put off that has a worker. */
export const SECRET_IS_CLOSED = 'its secret cannot be opened'

const GONE = 410
/** Answers whose `Retry-After` is heeded. */
const BUSY = new Set([429, 503])
/** In one of the three ways of RFC 9110, 5.6.7, of which the last does not say that it is GMT. `Date.parse` alone takes far more. */
const HTTP_DATE =
  /^(?:\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT|\w{6,9}, \d\d-\w{3}-\d\d [\d:]{8} GMT|\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})$/

const at = z.iso.datetime()

export const Delivery = z
  .object({
    id: z.uuid().describe('Sent as `x-delivery-id` and `webhook-id`, the same at each attempt'),
    webhookId: z.uuid(),
    tenantId: z.string().nullable().describe('Whose event it is'),
    event: EventName,
    state: DeliveryState,
    attemptCount: z.int().describe('Attempts made, those before a replay included'),
    lastStatus: z.int().nullable().describe('The last HTTP status; null when there was no answer'),
    nextRetryAt: at.nullable().describe('When it is tried again, while it is `retry_scheduled`'),
    createdAt: at,
    deliveredAt: at.nullable(),
  })
  .meta({ id: 'WebhookDelivery' })
export type Delivery = z.output<typeof Delivery>

export const Attempt = z
  .object({
    number: z.int(),
    startedAt: at,
    durationMs: z.int(),
    status: z.int().nullable(),
    error: z.string().nullable().describe('What went wrong, where there was no answer'),
    address: z.string().nullable().describe('The address that was dialled'),
    requestHeaders: z.record(z.string(), z.string()),
    responseHeaders: z.record(z.string(), z.string()).nullable(),
    responseBody: z.string().nullable().describe('At most 16 KiB of it'),
  })
  .meta({ id: 'WebhookAttempt' })
export type Attempt = z.output<typeof Attempt>

export const DeliveryDetail = Delivery.extend({
  payload: z.unknown().describe('The body that is sent'),
  explanation: z.string().describe('Why it is where it is, and what comes next'),
  attempts: z.array(Attempt),
}).meta({ id: 'WebhookDeliveryDetail' })
export type DeliveryDetail = z.output<typeof DeliveryDetail>

/** What one exchange came to, as far as it decides. */
export interface Outcome {
  readonly status: number | null
  readonly error: string | null
  /** `Retry-After` of the answer, as it came. */
  readonly retryAfter: string | null
}

export interface Tried {
  /** Attempts of the present budget, this one included. */
  readonly used: number
  readonly maxAttempts: number
}

export interface Verdict {
  readonly state: 'delivered' | 'retry_scheduled' | 'failed'
  /** Until the next attempt, when there is one. */
  readonly delayMs: number | null
  /** Why the receiver wants no more, when it does not. */
  readonly disables: 'gone' | null
}

/** @param chance from 0 to 1, for the jitter. */
export function verdictOn(outcome: Outcome, { used, maxAttempts }: Tried, now: Date, chance: number): Verdict {
  const { status, error } = outcome
  if (error === null && status !== null && status >= 200 && status < 300)
    return { state: 'delivered', delayMs: null, disables: null }
  if (status === GONE) return { state: 'failed', delayMs: null, disables: 'gone' }
  if (used >= maxAttempts) return { state: 'failed', delayMs: null, disables: null }
  return { state: 'retry_scheduled', delayMs: delayMs(used, outcome, now, chance), disables: null }
}

export function delayMs(used: number, { status, retryAfter }: Outcome, now: Date, chance: number): number {
  const base = BASE_DELAYS_MS[Math.min(used, BASE_DELAYS_MS.length) - 1] as number
  const usual = base * (1 - JITTER + 2 * JITTER * chance)
  const requestedMs = status !== null && BUSY.has(status) ? retryAfterMs(retryAfter, now) : 0
  return Math.round(Math.max(usual, Math.min(requestedMs, base * LONGEST_STRETCH)))
}

/** Seconds, or a date (RFC 9110, 10.2.3); 0 when it is neither, or past. */
function retryAfterMs(text: string | null, now: Date): number {
  if (text === null) return 0
  if (/^\d+$/.test(text)) return Number(text) * SECOND_MS
  if (!HTTP_DATE.test(text)) return 0
  const until = Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
  return Number.isNaN(until) ? 0 : Math.max(0, until - now.getTime())
}
