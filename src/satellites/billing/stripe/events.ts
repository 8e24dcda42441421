/** Verifies signatures of Stripe's events and converts events to ProviderEvent. */
import type { Stripe as Client } from 'stripe'
import { PaymentError, type ProviderEvent } from '../model/provider.ts'
import { redact } from './redaction.ts'

const TOLERANCE_SECONDS = 300
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/

/** Maps different bytes to different texts: throws on invalid UTF-8 and keeps a byte order mark. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The body as text; undefined if no secret has signed it, or if its timestamp is more than 5 minutes from now. */
export function signedText(
  { signature }: Client['webhooks'],
  secrets: readonly string[],
  body: Uint8Array,
  header: string,
): string | undefined {
  const isOf = (text: string, secret: string): boolean => {
    try {
      return signature?.verifyHeader(text, header, secret, TOLERANCE_SECONDS) ?? false
    } catch {
      return false // a mismatch throws; try the next secret
    }
  }
  const text = textOf(body)
  return text !== undefined && secondsAhead(header) <= TOLERANCE_SECONDS && secrets.some((secret) => isOf(text, secret))
    ? text
    : undefined
}

/**
 * Seconds by which the last `t` is in the future. Stripe's client reads the same `t`, but rejects only old timestamps.
 */
function secondsAhead(header: string): number {
  const [, timestamp = ''] =
    header
      .split(',')
      .map((item) => item.split('='))
      .findLast(([name]) => name === 't') ?? []
  return Number.parseInt(timestamp, 10) - Math.floor(Date.now() / 1000)
}

function textOf(body: Uint8Array): string | undefined {
  try {
    return decoder.decode(body)
  } catch {
    return undefined
  }
}

/** Converts a body whose signature is valid. Throws `payload_invalid`. */
export function eventOf(text: string): ProviderEvent {
  let event: unknown
  try {
    event = JSON.parse(text)
  } catch (cause) {
    throw new PaymentError('payload_invalid', { cause })
  }
  if (typeof event !== 'object' || event === null) throw new PaymentError('payload_invalid')
  return toEvent(event)
}

/** Throws `payload_invalid`. */
export function toEvent(event: Readonly<Record<string, any>>): ProviderEvent {
  const payload = redact(event)
  const { id, type, livemode } = payload as Record<string, any>
  const createdAt = timeOf(event.created)
  if (typeof id !== 'string' || typeof type !== 'string' || Number.isNaN(createdAt.getTime())) {
    throw new PaymentError('payload_invalid')
  }
  const { object } = payload.data as { object?: Record<string, any> }
  const customerId = object?.object === 'customer' ? object.id : object?.customer
  return { id, type, createdAt, isLive: livemode === true, customerId: customerId ?? null, payload }
}

/** Seconds since 1970; thin events, which only reference their object, have an ISO text. */
function timeOf(created: unknown): Date {
  if (typeof created === 'string' && ISO_TIME.test(created)) return new Date(created)
  return new Date(typeof created === 'number' && created >= 0 ? created * 1000 : Number.NaN)
}
