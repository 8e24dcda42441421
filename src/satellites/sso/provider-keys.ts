/** Counts the signing keys in a provider's key set (JWKS). */
import { createPublicKey, type JsonWebKey } from 'node:crypto'

type Jwk = JsonWebKey & { readonly use?: unknown; readonly key_ops?: unknown }

/** Undefined for text that is no key set. */
export function countSigningKeys(text: string): number | undefined {
  const keys = keysIn(text)
  return keys?.filter((key) => canSign(key)).length
}

function keysIn(text: string): readonly Jwk[] | undefined {
  try {
    const { keys } = JSON.parse(text)
    return Array.isArray(keys) ? keys : undefined
  } catch {
    return undefined
  }
}

function canSign(key: Jwk): boolean {
  try {
    const { use = 'sig', key_ops = ['verify'] } = key
    if (use !== 'sig' || !Array.isArray(key_ops) || !key_ops.includes('verify')) return false
    return createPublicKey({ key, format: 'jwk' }).type === 'public' && key.kty !== 'oct'
  } catch {
    return false
  }
}
