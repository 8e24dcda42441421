/**
 * Sessions of the host's users, as a signed cookie. Replace it by your sign-in: a guard only needs the caller, and
 * whether the caller belongs to the tenant.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Actor, GuardedRequest, TenantRecord } from 'tenantry'

export interface User {
  readonly id: string
  readonly name: string
  readonly tenantIds: readonly string[]
}

const DAY_MS = 86_400_000
const COOKIE = /(?:^|; )session=([\w-]+)\.([\w-]+)(?:;|$)/

/** Returns `session=...` for a user who has signed in. Set it with HttpOnly, Secure and SameSite=Lax. */
export function sessionCookie(user: User): string {
  const text = Buffer.from(JSON.stringify({ ...user, expiresAt: Date.now() + DAY_MS })).toString('base64url')
  return `session=${text}.${signatureOf(text).toString('base64url')}`
}

/** For a guard's `authorize`. */
export const isMember = (request: GuardedRequest, { id }: TenantRecord): boolean =>
  userOf(request)?.tenantIds.includes(id) === true

/** For a guard's `actor`: the audit log names the user. */
export function signedInUser(request: GuardedRequest): Actor {
  const user = userOf(request)
  if (!user) throw new Error('The request has no session.')
  return { type: 'user', id: user.id, name: user.name }
}

function userOf(request: GuardedRequest): User | undefined {
  const [, text = '', signature = ''] = COOKIE.exec(request.header('cookie') ?? '') ?? []
  const [given, expected] = [Buffer.from(signature, 'base64url'), signatureOf(text)]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
  const { expiresAt, ...user } = JSON.parse(Buffer.from(text, 'base64url').toString())
  return Date.now() < expiresAt ? user : undefined
}

function signatureOf(text: string): Buffer {
  const { SESSION_SECRET = '' } = process.env
  if (SESSION_SECRET.length < 32)
    throw new Error('SESSION_SECRET must have at least 32 characters: openssl rand -base64 32')
  return createHmac('sha256', SESSION_SECRET).update(text).digest()
}
