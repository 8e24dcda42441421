/** HMAC of seals. The key is a key object: `createHmac` takes six times as long with bytes. */
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

export type MacKey = KeyObject

export const macKey = (secret: Buffer): MacKey => createSecretKey(secret)

/** HMAC-SHA256, lowercase hex. */
export const macOf = (key: MacKey, text: string): string => createHmac('sha256', key).update(text).digest('hex')
