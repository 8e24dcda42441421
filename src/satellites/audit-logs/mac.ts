/**
 * HMAC-SHA256 (RFC 2104), made of two hashes, with what is the same for all texts made once. `createHmac` answers the same, and makes an
 * object each time that is used once: on the way of every change that costs more than the hashes.
 */
import { hash } from 'node:crypto'

const BLOCK_BYTES = 64

export interface MacKey {
  readonly inner: Buffer
  readonly outer: Buffer
}

/** @param secret of a block at most */
export function macKey(secret: Buffer): MacKey {
  const block = Buffer.concat([secret], BLOCK_BYTES)
  return { inner: Buffer.from(block.map((byte) => byte ^ 0x36)), outer: Buffer.from(block.map((byte) => byte ^ 0x5c)) }
}

/** Lowercase hex. */
export function macOf({ inner, outer }: MacKey, text: string): string {
  const digest = hash('sha256', Buffer.concat([inner, Buffer.from(text)]), 'buffer')
  return hash('sha256', Buffer.concat([outer, digest]), 'hex')
}
