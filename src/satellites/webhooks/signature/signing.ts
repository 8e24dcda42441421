/**
 * How a webhook is signed. Both ends stand on this file: the sender, and receivers, who import verify.ts alone.
 *
 *   x-webhook-signature   hex(HMAC-SHA256(utf8(secret), body)), of the current secret
 *   webhook-signature     for each secret "v1," + base64(HMAC-SHA256(key(secret), id + "." + timestamp + "." + body)), by a space
 *   key(secret)           of `whsec_` + base64 the bytes that are meant, of any other secret its UTF-8
 *
 * The second is what Standard Webhooks says. An id holds no dot and a time is digits, so that one text stands for one id, time
 * and body. Vectors for other languages are in docs/webhook-vectors.json.
 */
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

export const STANDARD_PREFIX = 'whsec_'

const SHORTEST = 16
const LONGEST = 256
const FEWEST_KEY_BYTES = 24
const MOST_KEY_BYTES = 64
const VISIBLE_ASCII = /^[!-~]*$/

/** HMAC takes four times as long with text for a key as with a key object, and twice as long when that is made anew. */
const MOST_KEPT = 1_000

export interface Signed {
  /** A UUID. */
  readonly deliveryId: string
  /** Of this attempt: Unix time in whole seconds. */
  readonly timestampSeconds: number
  /** As it is sent. Whoever has its bytes already gives those. */
  readonly body: string | Uint8Array
  /** The current one first; during a rotation the one before it, too. */
  readonly secrets: readonly string[]
}

/** A type and not an interface, so that it is a record of headers. */
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

const kept = new Map<string, Keys>()

/** Headers of one attempt. @throws TypeError without a secret, or with one that is none */
export function signatureHeaders({ deliveryId, timestampSeconds, body, secrets }: Signed): SignatureHeaders {
  const [current] = secrets
  if (current === undefined) throw new TypeError('no webhook secret is given')
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const timestamp = String(timestampSeconds)
  return {
    'x-webhook-signature': createHmac('sha256', keysOf(current).text).update(bytes).digest('hex'),
    'webhook-id': deliveryId,
    'webhook-timestamp': timestamp,
    'webhook-signature': standardSignatures(deliveryId, timestamp, bytes, secrets).join(' '),
  }
}

/** One for each secret, in their order. @param timestamp as the header spells it */
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

/** Why this is no secret, in words that do not hold it; undefined when it is one. */
export function secretErrorOf(secret: string): string | undefined {
  if (typeof secret !== 'string' || secret.length < SHORTEST || secret.length > LONGEST) {
    return `a secret has ${SHORTEST} to ${LONGEST} characters`
  }
  if (!VISIBLE_ASCII.test(secret)) return 'a secret is visible ASCII, without spaces'
  if (!secret.startsWith(STANDARD_PREFIX)) return undefined
  const text = secret.slice(STANDARD_PREFIX.length)
  const bytes = Buffer.from(text, 'base64')
  const isWhole = bytes.length >= FEWEST_KEY_BYTES && bytes.length <= MOST_KEY_BYTES
  // Only the one spelling that the decoders of all languages take, with its padding.
  if (isWhole && bytes.toString('base64') === text) return undefined
  return `after ${STANDARD_PREFIX} a secret is the base64 of ${FEWEST_KEY_BYTES} to ${MOST_KEY_BYTES} bytes`
}

/** Of secrets only: nothing is signed, or taken for signed, with an empty one or with half of one. */
function keysOf(secret: string): Keys {
  const found = kept.get(secret)
  if (found !== undefined) return found
  const error = secretErrorOf(secret)
  if (error !== undefined) throw new TypeError(`not a webhook secret: ${error}`)
  const isStandard = secret.startsWith(STANDARD_PREFIX)
  const text = createSecretKey(secret, 'utf8')
  const standard = isStandard ? createSecretKey(secret.slice(STANDARD_PREFIX.length), 'base64') : text
  const [oldest] = kept.keys()
  if (kept.size >= MOST_KEPT && oldest !== undefined) kept.delete(oldest)
  const keys = { text, standard }
  kept.set(secret, keys)
  return keys
}
