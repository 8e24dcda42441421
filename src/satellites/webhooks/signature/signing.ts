/**
 * Signs webhooks, for the sender and for `verify.ts`.
 *
 *   x-webhook-signature   hex(HMAC-SHA256(utf8(secret), body)), of the current secret
 *   webhook-signature     for each secret "v1," + base64(HMAC-SHA256(key(secret), id + "." + timestamp + "." + body)), by a space
 *   key(secret)           decoded base64 after `whsec_`; UTF-8 of any other secret
 *
 * `webhook-signature` follows Standard Webhooks. An id has no dot and a timestamp only digits, so a signed text has one meaning. Test
 * vectors for other languages are in docs/webhook-vectors.json.
 */
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

export const STANDARD_PREFIX = 'whsec_'

const MIN_LENGTH = 16
const MAX_LENGTH = 256
const MIN_KEY_BYTES = 24
const MAX_KEY_BYTES = 64
const VISIBLE_ASCII = /^[!-~]*$/

/** An HMAC with a text key takes four times as long as with a cached key object. */
const MAX_CACHED_KEYS = 1_000

export interface Signed {
  /** A UUID. */
  readonly deliveryId: string
  /** Unix time of the attempt, in whole seconds. */
  readonly timestampSeconds: number
  /** The sent body: bytes, or their text. */
  readonly body: string | Uint8Array
  /** The current secret first, then the previous one during a rotation. */
  readonly secrets: readonly string[]
}

/** A type, not an interface, so that it is assignable to a record. */
export type SignatureHeaders = {
  readonly 'x-webhook-signature': string
  readonly 'webhook-id': string
  readonly 'webhook-timestamp': string
  readonly 'webhook-signature': string
}

interface Keys {
  readonly text: KeyObject
  readonly standard: KeyObject
}

const cachedKeys = new Map<string, Keys>()

/** Returns the headers of one attempt. @throws TypeError without a secret, or with an invalid one */
export function signatureHeaders({ deliveryId, timestampSeconds, body, secrets }: Signed): SignatureHeaders {
  const [current] = secrets
  if (current === undefined) throw new TypeError('A webhook secret is required.')
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const timestamp = String(timestampSeconds)
  return {
    'x-webhook-signature': createHmac('sha256', keysOf(current).text).update(bytes).digest('hex'),
    'webhook-id': deliveryId,
    'webhook-timestamp': timestamp,
    'webhook-signature': standardSignatures(deliveryId, timestamp, bytes, secrets).join(' '),
  }
}

/** Returns a signature for each secret, in their order. @param timestamp text of the header */
export function standardSignatures(
  id: string,
  timestamp: string,
  body: Uint8Array,
  secrets: readonly string[],
): string[] {
  const head = `${id}.${timestamp}.`
  return secrets.map((secret) => {
    const hmac = createHmac('sha256', keysOf(secret).standard).update(head).update(body)
    return `v1,${hmac.digest('base64')}`
  })
}

/** Describes why a secret is invalid, without its text; undefined if it is valid. */
export function secretErrorOf(secret: string): string | undefined {
  if (typeof secret !== 'string' || secret.length < MIN_LENGTH || secret.length > MAX_LENGTH) {
    return `a secret must have ${MIN_LENGTH} to ${MAX_LENGTH} characters`
  }
  if (!VISIBLE_ASCII.test(secret)) return 'a secret must be visible ASCII without spaces'
  if (!secret.startsWith(STANDARD_PREFIX)) return undefined
  const text = secret.slice(STANDARD_PREFIX.length)
  const bytes = Buffer.from(text, 'base64')
  const isWhole = bytes.length >= MIN_KEY_BYTES && bytes.length <= MAX_KEY_BYTES
  // Accepts only the canonical base64 with padding, which decoders of all languages accept.
  if (isWhole && bytes.toString('base64') === text) return undefined
  return `after ${STANDARD_PREFIX} a secret must be the base64 of ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} bytes`
}

/** Returns the keys of a valid secret. An empty or truncated secret signs and verifies nothing. */
function keysOf(secret: string): Keys {
  const found = cachedKeys.get(secret)
  if (found !== undefined) return found
  const error = secretErrorOf(secret)
  if (error !== undefined) throw new TypeError(`Invalid webhook secret: ${error}.`)
  const isStandard = secret.startsWith(STANDARD_PREFIX)
  const text = createSecretKey(secret, 'utf8')
  const standard = isStandard ? createSecretKey(secret.slice(STANDARD_PREFIX.length), 'base64') : text
  const [oldest] = cachedKeys.keys()
  if (cachedKeys.size >= MAX_CACHED_KEYS && oldest !== undefined) cachedKeys.delete(oldest)
  const keys = { text, standard }
  cachedKeys.set(secret, keys)
  return keys
}
