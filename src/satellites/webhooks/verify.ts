/**
 * Verifies received webhooks: sender, age and content, by the three headers of Standard Webhooks. `x-webhook-signature` has no
 * timestamp and does not prevent replays. Guide: docs/receiving-webhooks.md.
 */
import { timingSafeEqual } from 'node:crypto'
import { SignatureInvalid } from '../../kernel/base/errors.ts'
import { standardSignatures } from './signature/signing.ts'

export { SignatureInvalid }

export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions {
  /** Maximum difference between the time of the request and `now`, in seconds; default 300. */
  readonly toleranceSeconds?: number
  /** Time of receipt, for a later verification; default: the current time. */
  readonly now?: Date
}

export interface VerifiedWebhook {
  /** Id of the delivery, the same for retries and replays. Drop requests whose id you have processed. */
  readonly id: string
  /** Signed `type` of an envelope; otherwise the header `x-webhook-event`, which is not signed; null if absent. */
  readonly event: string | null
  /** Time of the attempt, in whole seconds. */
  readonly timestamp: Date
  /** The parsed body. */
  readonly payload: unknown
}

const TOLERANCE_SECONDS = 300
const DELIVERY_ID = /^[\w-]{1,128}$/
const UNIX_SECONDS = /^(?:0|[1-9]\d{0,11})$/

/**
 * Verifies a request and returns its content.
 *
 * @param rawBody received bytes or their text, not a parsed body
 * @param headers of a fetch `Request` or of node:http
 * @param secret one secret, or several during a rotation; one must match
 * @throws `SignatureInvalid`; `TypeError` for an invalid body or secret; `SyntaxError` if the signed body is not JSON
 * @example const { id, event, payload } = verifyWebhook(rawBody, request.headers, secret)
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceSeconds = TOLERANCE_SECONDS, now = new Date() }: VerifyOptions = {},
): VerifiedWebhook {
  const body = bytesOf(rawBody)
  const secrets = [secret].flat()
  if (secrets.length === 0) throw new TypeError('A webhook secret is required.')
  const id = required(headers, 'webhook-id')
  const timestamp = required(headers, 'webhook-timestamp')
  const signatures = required(headers, 'webhook-signature')
  if (!DELIVERY_ID.test(id)) throw SignatureInvalid('The header webhook-id is not the id of a delivery.')
  if (!UNIX_SECONDS.test(timestamp))
    throw SignatureInvalid('The header webhook-timestamp is not a Unix time in whole seconds.')

  assertRecent(Math.floor(now.getTime() / 1000) - Number(timestamp), toleranceSeconds)
  const expected = standardSignatures(id, timestamp, body, secrets)
  if (!hasMatch(signatures.split(' '), expected)) {
    throw SignatureInvalid(
      'No signature matches: the secret is another one, or the body is not byte for byte the sent one.',
    )
  }
  const event = single(headers, 'x-webhook-event') ?? null
  const payload: unknown = JSON.parse(body.toString())
  return { id, event: signedType(payload, id) ?? event, timestamp: new Date(Number(timestamp) * 1000), payload }
}

/** Only an envelope has the id of its delivery: a payload may have a member `type`, too. */
function signedType(payload: unknown, deliveryId: string): string | undefined {
  if (typeof payload !== 'object' || payload === null || !('data' in payload)) return undefined
  const { id, type } = payload as { id?: unknown; type?: unknown }
  return id === deliveryId && typeof type === 'string' ? type : undefined
}

/** Does not copy. `instanceof` would reject arrays of another realm, for example of a test runner. */
function bytesOf(rawBody: string | Uint8Array): Buffer {
  if (typeof rawBody === 'string') return Buffer.from(rawBody)
  if (ArrayBuffer.isView(rawBody)) return Buffer.from(rawBody.buffer, rawBody.byteOffset, rawBody.byteLength)
  throw new TypeError('Pass the raw body as bytes or text. A parsed and serialised body differs from the signed one.')
}

/** The negated comparisons also reject NaN, in the clock and in the tolerance. */
function assertRecent(ageSeconds: number, toleranceSeconds: number): void {
  if (!(ageSeconds <= toleranceSeconds)) {
    throw SignatureInvalid(`The request is too old: signed ${ageSeconds} s ago, the limit is ${toleranceSeconds} s.`)
  }
  if (!(ageSeconds >= -toleranceSeconds)) {
    throw SignatureInvalid(
      `The request is too new: signed ${-ageSeconds} s in the future, the limit is ${toleranceSeconds} s.`,
    )
  }
}

/** Compares all pairs, so that the duration does not depend on the matching one. The sender knows the length of a signature. */
function hasMatch(given: readonly string[], expected: readonly string[]): boolean {
  const right = expected.map((signature) => Buffer.from(signature))
  const outcomes = given.flatMap((signature) => {
    const bytes = Buffer.from(signature)
    return right.map((one) => bytes.length === one.length && timingSafeEqual(bytes, one))
  })
  return outcomes.includes(true)
}

function required(headers: WebhookHeaders, name: string): string {
  const value = single(headers, name)
  if (value === undefined) throw SignatureInvalid(`The header ${name} is missing.`)
  return value
}

/** Rejects a repeated header, because another reader could use another value. `Headers` and node:http join values by a comma. */
function single(headers: WebhookHeaders, name: string): string | undefined {
  const values = valuesOf(headers, name).filter((value) => typeof value === 'string' && value !== '')
  const [value] = values
  if (values.length > 1 || value?.includes(', ')) throw SignatureInvalid(`The header ${name} occurs more than once.`)
  return value
}

function valuesOf(headers: WebhookHeaders, name: string): readonly (string | undefined)[] {
  if (isFetchHeaders(headers)) return [headers.get(name) ?? undefined]
  return Object.keys(headers)
    .filter((key) => key.toLowerCase() === name)
    .flatMap((key) => headers[key])
}

const isFetchHeaders = (headers: WebhookHeaders): headers is Headers => typeof headers.get === 'function'
