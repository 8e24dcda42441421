/** One request of a delivery: what is sent, and what of the answer is kept and decides. */
import type { Exchange as EgressExchange, Exchanged } from '../../../kernel/egress/egress.ts'
import { ABORTED } from '../../../kernel/egress/failure.ts'
import { NOBODY } from '../model/tables.ts'
import type { Claimed } from '../queue/queue.ts'
import { signatureHeaders } from '../signature/signing.ts'

const MAX_RESPONSE_BYTES = 16 * 1024
const USER_AGENT = 'Tenantry-Webhooks'

export type Request = Pick<EgressExchange, 'url' | 'method' | 'headers' | 'body' | 'maxResponseBytes'>

/** @param secrets opened; the present one, then the one before while a rotation lasts */
export function requestFor(
  { id, event, partitionKey, tenantId }: Pick<Claimed, 'id' | 'event' | 'partitionKey' | 'tenantId'>,
  body: string,
  url: string,
  secrets: readonly string[],
  nowMs: number,
): Request {
  const bytes = Buffer.from(body)
  const timestampSeconds = Math.floor(nowMs / 1_000)
  return {
    url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': USER_AGENT,
      'x-webhook-event': event,
      'x-delivery-id': id,
      // Tenants know who they are.
      ...(partitionKey === NOBODY && tenantId !== null ? { 'x-webhook-tenant': tenantId } : {}),
      ...signatureHeaders({ deliveryId: id, timestampSeconds, body: bytes, secrets }),
    },
    body: bytes,
    maxResponseBytes: MAX_RESPONSE_BYTES,
  }
}

/** What of an exchange is kept. */
export interface Exchange {
  readonly status: number | null
  readonly error: string | null
  readonly retryAfter: string | null
  readonly isBlamed: boolean
  readonly durationMs: number
  readonly address: string | null
  readonly requestHeaders: string
  readonly responseHeaders: string | null
  readonly responseBody: string | null
  /** Whether it was broken off here; nothing is known of it. */
  readonly isAborted: boolean
}

export const exchangeOf = (request: Request, exchanged: Exchanged): Exchange => ({
  status: exchanged.status,
  error: exchanged.error,
  retryAfter: exchanged.headers['retry-after'] ?? null,
  isBlamed: !exchanged.isOurs,
  durationMs: Math.round(exchanged.durationMs),
  address: exchanged.address,
  requestHeaders: JSON.stringify(request.headers),
  responseHeaders: exchanged.status === null ? null : JSON.stringify(exchanged.headers),
  responseBody: exchanged.status === null ? null : exchanged.body,
  isAborted: exchanged.error === ABORTED.error,
})

/** A failure of ours, before anything was sent. */
export const notSent = (error: string): Exchange => ({
  status: null,
  error,
  retryAfter: null,
  isBlamed: false,
  durationMs: 0,
  address: null,
  requestHeaders: '{}',
  responseHeaders: null,
  responseBody: null,
  isAborted: false,
})
