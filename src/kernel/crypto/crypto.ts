/**
 * Secrets at rest, and everything that is compared in secret.
 *
 * A sealed value is `v1.<key id>.<iv>.<ciphertext and tag>` (base64url), AES-256-GCM. The key is derived from the application
 * key; the key id is a fingerprint, so that after a rotation old values open under the old key and `isCurrent` tells which
 * still wait to be sealed again. `binding` (a row's id, a purpose) is authenticated with it: a value copied elsewhere does
 * not open. What is too long to be held is sealed as a stream (encrypted-stream.ts), under the same application keys.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { type StreamKey, sealed, unsealed } from './encrypted-stream.ts'

const IV_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
/** The body is a tag at least: Node would take one of 4 bytes for a whole one. */
const SEALED = /^v1\.([0-9a-f]{8})\.([\w-]{16})\.([\w-]{22,})$/

export interface Secrets {
  seal(plain: string, binding: string): string
  /** Throws when the value was altered, bound to something else, or sealed under a key that is no longer configured. */
  open(sealed: string, binding: string): string
  /** Whether a value is sealed under the current application key. */
  isCurrent(sealed: string): boolean
  /** The bytes, sealed under the current key. */
  sealStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** Opens what `sealStream` yielded. Throws `NotOpened` for the reasons of `open`; nothing altered is yielded before. */
  openStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** HMAC-SHA256 under the current key, base64url; `purpose` keeps uses apart. */
  sign(text: string, purpose: string): string
  /** Whether `signature` is that of `text` under the current or an old key; constant time. */
  verify(text: string, purpose: string, signature: string): boolean
}

interface Key {
  readonly id: string
  readonly sealing: Buffer
  readonly signing: Buffer
  readonly streams: StreamKey
}

/** @param appKey 32 bytes, base64. @param oldAppKeys still open, never seal. */
export function createSecrets(appKey: string, oldAppKeys: readonly string[] = []): Secrets {
  const current = deriveKey(appKey)
  const keys = [current, ...oldAppKeys.map(deriveKey)]

  return {
    seal(plain, binding) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', current.sealing, iv).setAAD(Buffer.from(binding))
      const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `v1.${current.id}.${iv.toString('base64url')}.${sealed.toString('base64url')}`
    },
    open(sealed, binding) {
      const [, keyId, iv = '', body = ''] = SEALED.exec(sealed) ?? []
      const bytes = Buffer.from(body, 'base64url')
      // Base64 may hold bits that stand for nothing: only the one spelling that `seal` writes is a sealed value.
      if (!keyId || bytes.toString('base64url') !== body) throw new Error('not a sealed value, or altered')
      const key = keys.find(({ id }) => id === keyId)
      if (!key) throw new Error('sealed under an application key that is not configured')
      const options = { authTagLength: TAG_BYTES }
      const decipher = createDecipheriv('aes-256-gcm', key.sealing, Buffer.from(iv, 'base64url'), options)
        .setAAD(Buffer.from(binding))
        .setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
    },
    isCurrent: (sealed) => sealed.split('.')[1] === current.id,
    sealStream: (chunks, binding) => sealed(chunks, binding, current.streams),
    openStream: (chunks, binding) =>
      unsealed(
        chunks,
        binding,
        keys.map(({ streams }) => streams),
      ),
    sign: (text, purpose) => hmac(current.signing, purpose, text),
    verify: (text, purpose, signature) =>
      keys.map((key) => equalInConstantTime(hmac(key.signing, purpose, text), signature)).includes(true),
  }
}

/** Whether a string is an application key: 32 bytes in base64. */
export const isAppKey = (text: string): boolean =>
  /^[A-Za-z0-9+/_-]+={0,2}$/.test(text) && Buffer.from(text, 'base64').length === KEY_BYTES

/** SHA-256, hex: what is kept in place of a token. */
export const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex')

/** 32 random bytes, base64url: a token nobody guesses. */
export const randomToken = (): string => randomBytes(KEY_BYTES).toString('base64url')

/** Compares without telling by its duration where, or how long, the difference is. */
export function equalInConstantTime(left: string, right: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(left), digest(right))
}

function deriveKey(appKey: string): Key {
  if (!isAppKey(appKey)) throw new Error('an application key is 32 bytes in base64 (openssl rand -base64 32)')
  const bytes = Buffer.from(appKey, 'base64')
  const derive = (purpose: string) => Buffer.from(hkdfSync('sha256', bytes, '', `tenantry ${purpose}`, KEY_BYTES))
  const id = fingerprint(bytes.toString('hex')).slice(0, 8)
  return { id, sealing: derive('seal'), signing: derive('sign'), streams: { id, secret: derive('seal streams') } }
}

/** The purpose's length comes first, so that no end of it can pass for the beginning of a text. */
const hmac = (key: Buffer, purpose: string, text: string): string =>
  createHmac('sha256', key).update(`${purpose.length}:${purpose}${text}`).digest('base64url')
