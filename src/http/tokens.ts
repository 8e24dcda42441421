/**
 * Tokens of the configuration. Compared by digest in constant time, every configured token at every request, so that neither the content
 * nor the duration of a response reveals how close a guess was. Tokens of the database: tenancy/tokens/tokens.ts.
 */
import { hash, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { May } from '../kernel/api/permissions.ts'
import type { Grant } from '../kernel/base/context.ts'
import { parsed } from '../kernel/base/validate.ts'
import { fingerprint } from '../kernel/crypto/crypto.ts'

export const AdminToken = z.strictObject({
  /** Becomes the actor in the audit log. */
  name: z.string().min(1).max(100),
  token: z.string().min(16, 'must have at least 16 characters (openssl rand -hex 32)'),
  /** A named pattern; default `admin`. */
  scope: z.enum(['admin', 'read', 'runtime', 'reveal', 'erase']).optional(),
  /** Patterns of operations in place of `scope`. */
  may: May.optional(),
})
export type AdminToken = z.input<typeof AdminToken>

/** An authenticated caller. */
export interface Identity {
  /** Actor in the audit log: a configured name, `identify:<name>`, or `tnt_<id>` of a token of the database. */
  readonly id: string
  readonly name: string
  readonly grant: Grant
  /** Tells tokens apart without being one: sessions and idempotency keys are bound to it. */
  readonly fingerprint: string
  /** Of a token of the database, else null. */
  readonly tokenId: string | null
}

export class ConfiguredTokens {
  readonly #known: readonly { digest: Buffer; identity: Identity }[]

  /** @param grantOf throws for a pattern that matches no operation */
  constructor(tokens: readonly AdminToken[], grantOf: (may: readonly string[]) => Grant) {
    const checked = tokens.map((token, index) => parsed(AdminToken, token, `adminTokens.${index}`))
    if (new Set(checked.map(({ token }) => token)).size < checked.length)
      throw new Error('two admin tokens have the same value')
    this.#known = checked.map(({ name, token, scope, may }) => {
      if (scope && may) throw new Error(`adminTokens: "${name}" has scope and may; remove one of them`)
      const grant = grantOf(may ?? [scope ?? 'admin'])
      return {
        digest: digest(token),
        identity: { id: name, name, grant, fingerprint: fingerprint(token), tokenId: null },
      }
    })
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

const digest = (token: string): Buffer => hash('sha256', token, 'buffer')

/** The first token with all permissions, else the first token. */
export const firstAdmin = (tokens: readonly AdminToken[] = []): AdminToken | undefined =>
  tokens.find(({ scope = 'admin', may }) => scope === 'admin' && !may) ?? tokens[0]
