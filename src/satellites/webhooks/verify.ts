/**
 * For receivers: whether a request comes from whoever holds the secret, is fresh, and is as it was sent.
 *
 *   const { id, event, payload } = verifyWebhook(rawBody, request.headers, secret)
 *
 * It reads the three headers of Standard Webhooks. `x-webhook-signature` alone does not do: it signs no time, so that whoever has
 * seen a request once could send it for ever. Nor is `x-webhook-event` signed; it is told as it came. Within the tolerance the
 * same request may come again: drop what has an `id` that you have seen. docs/receiving-webhooks.md has the whole of it.
 */
import { timingSafeEqual } from 'node:crypto'
import { SignatureInvalid } from '../../kernel/base/errors.ts'
import { standardSignatures } from './signature/signing.ts'

export { SignatureInvalid }

export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>

export interface VerifyOptions {
  /** How far the time of the request may be from now, before it and after it; 300. */
  readonly toleranceSeconds?: number
  /** What is taken for the current time, say that of receipt when verifying later. */
  readonly now?: Date
}

export interface VerifiedWebhook {
  /** Of the delivery: the same at each attempt, and at a replay. */
  readonly id: string
  /** What `x-webhook-event` says, which is not signed; null without it. */
  readonly event: string | null
  /** When this attempt was signed, to the second. */
  readonly timestamp: Date
  /** The body, as JSON.parse reads it. */
  readonly payload: unknown
}

const TOLERANCE_SECONDS = 300
const DELIVERY_ID = /^[\w-]{1,128}$/
const UNIX_SECONDS = /^(?:0|[1-9]\d{0,11})$/

/**
 * @param rawBody as it came: bytes, or their text; not what a parser made of it
 * @param headers of a fetch `Request`, or of node:http; names in any case
 * @param secret several of them while they are being exchanged: one has to fit
 * @throws SignatureInvalid; a TypeError when the body is neither bytes nor text, or a secret is none; a SyntaxError when what was
 * signed is not JSON
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceSeconds = TOLERANCE_SECONDS, now = new Date() }: VerifyOptions = {},
): VerifiedWebhook {
  const body = bytesOf(rawBody)
  const secrets = [secret].flat()
  if (secrets.length === 0) throw new TypeError('no webhook secret is given')
  const id = required(headers, 'webhook-id')
  const timestamp = required(headers, 'webhook-timestamp')
  const signatures = required(headers, 'webhook-signature')
  if (!DELIVERY_ID.test(id)) throw SignatureInvalid('the header webhook-id is not that of a delivery')
  if (!UNIX_SECONDS.test(timestamp)) throw SignatureInvalid('the header webhook-timestamp is not in whole seconds')

  checkAge(Math.floor(now.getTime() / 1000) - Number(timestamp), toleranceSeconds)
  const expected = standardSignatures(id, timestamp, body, secrets)
  if (!fits(signatures.split(' '), expected)) {
    throw SignatureInvalid(
      'no signature fits: signed with another secret, or the body is not byte for byte what was sent',
    )
  }
  return {
    id,
    event: single(headers, 'x-webhook-event') ?? null,
    timestamp: new Date(Number(timestamp) * 1000),
    payload: JSON.parse(body.toString()),
  }
}

/** Without copying; not by `instanceof`, which an array of another realm, as test runners have them, would not be. */
function bytesOf(rawBody: string | Uint8Array): Buffer {
  if (typeof rawBody === 'string') return Buffer.from(rawBody)
  if (ArrayBuffer.isView(rawBody)) return Buffer.from(rawBody.buffer, rawBody.byteOffset, rawBody.byteLength)
  throw new TypeError('the raw body is needed, bytes or text: parsed and written again it is not what was signed')
}

/** Put so that what is not a number, be it the clock or the tolerance, is refused. */
function checkAge(ageSeconds: number, toleranceSeconds: number): void {
  if (!(ageSeconds <= toleranceSeconds)) {
    throw SignatureInvalid(`too old: signed ${ageSeconds} s ago, allowed are ${toleranceSeconds} s`)
  }
  if (!(ageSeconds >= -toleranceSeconds)) {
    throw SignatureInvalid(`too new: signed ${-ageSeconds} s from now, allowed are ${toleranceSeconds} s`)
  }
}

/** All are compared with all, whichever fits; that a given one is longer or shorter is nothing its sender does not know. */
function fits(given: readonly string[], expected: readonly string[]): boolean {
  const right = expected.map((signature) => Buffer.from(signature))
  const outcomes = given.flatMap((signature) => {
    const bytes = Buffer.from(signature)
    return right.map((one) => bytes.length === one.length && timingSafeEqual(bytes, one))
  })
  return outcomes.includes(true)
}

function required(headers: WebhookHeaders, name: string): string {
  const value = single(headers, name)
  if (value === undefined) throw SignatureInvalid(`the header ${name} is missing`)
  return value
}

/** Of a repeated header who comes after us might read another one than we do. `Headers` and node:http join them by a comma. */
function single(headers: WebhookHeaders, name: string): string | undefined {
  const values = valuesOf(headers, name).filter((value) => typeof value === 'string' && value !== '')
  const [value] = values
  if (values.length > 1 || value?.includes(', ')) throw SignatureInvalid(`the header ${name} comes more than once`)
  return value
}

function valuesOf(headers: WebhookHeaders, name: string): readonly (string | undefined)[] {
  if (isFetchHeaders(headers)) return [headers.get(name) ?? undefined]
  return Object.keys(headers)
    .filter((key) => key.toLowerCase() === name)
    .flatMap((key) => headers[key])
}

const isFetchHeaders = (headers: WebhookHeaders): headers is Headers => typeof headers.get === 'function'
