/**
 * Admin tokens: who may call the API, and how much of it. Compared by digest in constant time, every configured token at
 * every request, so that neither the content nor the duration of a response reveals how close a guess was.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { AnyOperation, Method, Scope } from '../kernel/api/operation.ts'
import { parsed } from '../kernel/base/validate.ts'
import { fingerprint } from '../kernel/crypto/crypto.ts'

export const AdminToken = z.strictObject({
  /** Becomes the actor in the audit log. */
  name: z.string().min(1).max(100),
  token: z.string().min(16, 'must have at least 16 characters'),
  scope: z.enum(['admin', 'read', 'runtime', 'reveal', 'erase']).default('admin'),
})
export type AdminToken = z.input<typeof AdminToken>

export interface Identity {
  readonly name: string
  readonly scope: Scope
  /** Tells tokens apart without being one; a session is bound to it. */
  readonly fingerprint: string
}

export class Tokens {
  readonly #known: readonly { digest: Buffer; identity: Identity }[]

  constructor(tokens: readonly AdminToken[] | undefined) {
    if (!tokens?.length) {
      throw new Error(
        `the admin API needs a token: createHttp(tenancy, { adminTokens: [{ name: 'ops', token: '…' }] })`,
      )
    }
    const checked = tokens.map((token, index) => parsed(AdminToken, token, `adminTokens.${index}`))
    if (new Set(checked.map(({ token }) => token)).size < checked.length)
      throw new Error('two admin tokens have the same value')
    this.#known = checked.map(({ name, token, scope }) => ({
      digest: digest(token),
      identity: { name, scope, fingerprint: fingerprint(token) },
    }))
  }

  identify(token: string): Identity | undefined {
    const presented = digest(token)
    let found: Identity | undefined
    for (const { digest, identity } of this.#known) {
      if (timingSafeEqual(presented, digest)) found = identity
    }
    return found
  }

  /** The token behind a session, while it is still configured. */
  byFingerprint(print: string): Identity | undefined {
    return this.#known.find(({ identity }) => identity.fingerprint === print)?.identity
  }
}

/** Whether a token of `scope` may call an operation. */
export function mayCall(scope: Scope, method: Method | 'HEAD', operationScope: AnyOperation['scope']): boolean {
  if (scope === 'admin') return true
  if (scope === 'read') return method === 'GET' || method === 'HEAD'
  return operationScope === scope || (operationScope === 'runtime' && scope === 'reveal')
}

const digest = (token: string): Buffer => hash('sha256', token, 'buffer')
