/** Builds the signed HTTP request of a delivery, and selects the parts of the exchange that an attempt stores. */
import type { Exchange as EgressExchange, Exchanged } from '../../../kernel/egress/egress.ts'
import { ABORTED } from '../../../kernel/egress/failure.ts'
import { signatureHeaders } from '../signature/signing.ts'
import { NO_TENANT_KEY } from './tables.ts'

const MAX_RESPONSE_BYTES = 16 * 1024
const USER_AGENT = 'Tenantry-Webhooks'

export type Request = Pick<EgressExchange, 'url' | 'method' | 'headers' | 'body' | 'maxResponseBytes'>

interface DeliveryIdentity {
  readonly id: string
  readonly event: string
  readonly partitionKey: string
  readonly tenantId: string | null
  readonly createdAt: Date
  readonly envelope: boolean
}

interface RequestValues {
  readonly body: string
  readonly url: string
  /** Decrypted; the current one first, then the previous one during a rotation. */
  readonly secrets: readonly string[]
  readonly nowMs: number
  readonly traceparent: string | undefined
}

export function requestFor(
  delivery: DeliveryIdentity,
  { body, url, secrets, nowMs, traceparent }: RequestValues,
): Request {
  const { id, event, partitionKey, tenantId } = delivery
  const bytes = Buffer.from(delivery.envelope ? enveloped(delivery, body) : body)
  const timestampSeconds = Math.floor(nowMs / 1_000)
  return {
    url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': USER_AGENT,
      'x-webhook-event': event,
      'x-delivery-id': id,
      // Only the host receives events of several tenants.
      ...(partitionKey === NO_TENANT_KEY && tenantId !== null ? { 'x-webhook-tenant': tenantId } : {}),
      ...(traceparent === undefined ? {} : { traceparent }),
      ...signatureHeaders({ deliveryId: id, timestampSeconds, body: bytes, secrets }),
    },
    body: bytes,
    maxResponseBytes: MAX_RESPONSE_BYTES,
  }
}

/** The body of Standard Webhooks. It is equal in all attempts, and contains the bytes of the payload. */
const enveloped = ({ id, event, createdAt }: DeliveryIdentity, body: string): string =>
  `{"type":${JSON.stringify(event)},"id":"${id}","timestamp":"${createdAt.toISOString()}","data":${body}}`

export interface Exchange {
  readonly status: number | null
  readonly error: string | null
  readonly retryAfter: string | null
  /** A failure was caused by the receiver, not by this process. */
  readonly isBlamed: boolean
  readonly durationMs: number
  readonly address: string | null
  readonly requestHeaders: string
  readonly responseHeaders: string | null
  readonly responseBody: string | null
  /** The worker aborted the request when it stopped. The result is unknown. */
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

/** The failure of a request that this process did not send. */
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
