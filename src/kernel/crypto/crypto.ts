/**
 * Secrets at rest, and everything that is compared in secret.
 *
 * An encrypted value is `v1.<key id>.<iv>.<ciphertext and tag>` (base64url), AES-256-GCM. The key is derived from the application
 * key; the key id is a fingerprint, so that after a rotation old values are decrypted with the old key and `isCurrent` tells which
 * still wait to be encrypted again. `binding` (a row's id, a purpose) is authenticated with it: a value copied elsewhere does
 * not open. What is too long to be held is encrypted as a stream (encrypted-stream.ts), under the same application keys.
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
import { decryptStream, encryptStream, type StreamKey } from './encrypted-stream.ts'

const IV_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
/** The body is a tag at least: Node would take one of 4 bytes for a whole one. */
const ENCRYPTED_VALUE = /^v1\.([0-9a-f]{8})\.([\w-]{16})\.([\w-]{22,})$/

export interface Secrets {
  encrypt(plain: string, binding: string): string
  /** Throws when the value was altered, bound to something else, or encrypted under a key that is no longer configured. */
  decrypt(encrypted: string, binding: string): string
  /** Whether a value is encrypted under the current application key. */
  isCurrent(encrypted: string): boolean
  /** The bytes, encrypted under the current key. */
  encryptStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** Decrypts what `encryptStream` yielded. Throws `DecryptionError` for the reasons of `decrypt`; nothing altered is yielded before. */
  decryptStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** HMAC-SHA256 under the current key, base64url; `purpose` keeps uses apart. */
  sign(text: string, purpose: string): string
  /** Whether `signature` is that of `text` under the current or an old key; constant time. */
  verify(text: string, purpose: string, signature: string): boolean
}

interface Key {
  readonly id: string
  readonly encryption: Buffer
  readonly signing: Buffer
  readonly streams: StreamKey
}

/** @param appKey 32 bytes, base64. @param oldAppKeys still decrypt, never encrypt. */
export function createSecrets(appKey: string, oldAppKeys: readonly string[] = []): Secrets {
  const current = deriveKey(appKey)
  const keys = [current, ...oldAppKeys.map(deriveKey)]

  return {
    encrypt(plain, binding) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', current.encryption, iv).setAAD(Buffer.from(binding))
      const encrypted = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `v1.${current.id}.${iv.toString('base64url')}.${encrypted.toString('base64url')}`
    },
    decrypt(encrypted, binding) {
      const [, keyId, iv = '', body = ''] = ENCRYPTED_VALUE.exec(encrypted) ?? []
      const bytes = Buffer.from(body, 'base64url')
      // Base64 may hold bits that stand for nothing: only the one spelling that `encrypt` writes is an encrypted value.
      if (!keyId || bytes.toString('base64url') !== body) throw new Error('not a sealed value, or altered')
      const key = keys.find(({ id }) => id === keyId)
      if (!key) throw new Error('sealed under an application key that is not configured')
      const options = { authTagLength: TAG_BYTES }
      const decipher = createDecipheriv('aes-256-gcm', key.encryption, Buffer.from(iv, 'base64url'), options)
        .setAAD(Buffer.from(binding))
        .setAuthTag(bytes.subarray(-TAG_BYTES))
      return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
    },
    isCurrent: (encrypted) => encrypted.split('.')[1] === current.id,
    encryptStream: (chunks, binding) => encryptStream(chunks, binding, current.streams),
    decryptStream: (chunks, binding) =>
      decryptStream(
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
  return { id, encryption: derive('seal'), signing: derive('sign'), streams: { id, secret: derive('seal streams') } }
}

/** The purpose's length comes first, so that no end of it can pass for the beginning of a text. */
const hmac = (key: Buffer, purpose: string, text: string): string =>
  createHmac('sha256', key).update(`${purpose.length}:${purpose}${text}`).digest('base64url')
