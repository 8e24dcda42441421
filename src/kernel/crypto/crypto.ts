/**
 * Encrypts secrets at rest, signs, and compares in constant time. An encrypted value is `v1.<key id>.<iv>.<ciphertext and tag>` in
 * base64url, AES-256-GCM with a key that is derived from the application key. The key id is a fingerprint, so that old keys still
 * decrypt after a rotation. `binding` (the id of a row, a purpose) is authenticated: a value copied elsewhere cannot be decrypted.
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
/** The body contains at least a tag. Node.js accepts a tag of 4 bytes. */
const ENCRYPTED_VALUE = /^v1\.([0-9a-f]{8})\.([\w-]{16})\.([\w-]{22,})$/

export interface Secrets {
  /** Fingerprints of the keys, that of the current application key first. */
  readonly keyIds: readonly string[]
  encrypt(plain: string, binding: string): string
  /** Throws when the value was altered, bound to something else, or encrypted with a key that is no longer configured. */
  decrypt(encrypted: string, binding: string): string
  /** Whether a value is encrypted with the current application key. */
  isCurrent(encrypted: string): boolean
  /** The bytes, encrypted with the current key. */
  encryptStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** Decrypts what `encryptStream` yielded. Throws `DecryptionError` for the reasons of `decrypt`. Yields only authentic bytes. */
  decryptStream(chunks: AsyncIterable<Uint8Array>, binding: string): AsyncGenerator<Buffer, void, undefined>
  /** HMAC-SHA256 with the current key, base64url; `purpose` keeps uses apart. */
  sign(text: string, purpose: string): string
  /** Whether `signature` is that of `text` with the current or an old key; constant time. */
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
    keyIds: keys.map(({ id }) => id),
    encrypt(plain, binding) {
      const iv = randomBytes(IV_BYTES)
      const cipher = createCipheriv('aes-256-gcm', current.encryption, iv).setAAD(Buffer.from(binding))
      const encrypted = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
      return `v1.${current.id}.${iv.toString('base64url')}.${encrypted.toString('base64url')}`
    },
    decrypt(encrypted, binding) {
      const [, keyId, iv = '', body = ''] = ENCRYPTED_VALUE.exec(encrypted) ?? []
      const bytes = Buffer.from(body, 'base64url')
      // Base64 has unused bits: only the spelling that `encrypt` writes is accepted.
      if (!keyId || bytes.toString('base64url') !== body) throw new Error('the value is not encrypted, or was altered')
      const key = keys.find(({ id }) => id === keyId)
      if (!key) throw new Error('encrypted with an application key that is not configured')
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

/** SHA-256 in hex, stored in place of a token. */
export const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex')

/** A token of 32 random bytes, base64url. */
export const randomToken = (): string => randomBytes(KEY_BYTES).toString('base64url')

/** Compares in a time that is independent of the position and the length of the difference. */
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

/** The length of the purpose precedes it, so that a purpose and a text have one reading. */
const hmac = (key: Buffer, purpose: string, text: string): string =>
  createHmac('sha256', key).update(`${purpose.length}:${purpose}${text}`).digest('base64url')
