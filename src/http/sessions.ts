/**
 * Sessions of browsers: an encrypted cookie replaces the admin token, so no page, URL or script contains the token.
 *
 * The cookie contains the secret of a session (tenancy/tokens/sessions.ts). A sign-out, the deletion of the session, or the removal of its
 * token ends it. A sign-in code is stored as a hash and can be redeemed once.
 */
import { fingerprint, randomToken, type Secrets } from '../kernel/crypto/crypto.ts'
import type { Store } from '../kernel/store/store.ts'
import { SESSION_SECONDS, type Sessions } from '../tenancy/tokens/sessions.ts'
import type { SessionRow } from '../tenancy/tokens/tables.ts'
import type { Identity } from './tokens.ts'

const SESSION_COOKIE = 'tenantry_session'
const CODE_SECONDS = 600

export interface CookieSessionsOptions {
  readonly store: Store
  readonly secrets: Secrets
  readonly sessions: Sessions
  /** Path of the cookie. */
  readonly path: string
  /** Time without a request after which a session ends. */
  readonly idleMs: number | undefined
  /** The present identity of a token, or undefined if it was removed or has expired. */
  readonly identityOf: (token: Pick<SessionRow, 'fingerprint' | 'tokenId'>) => Promise<Identity | undefined>
}

export class CookieSessions {
  readonly #options: CookieSessionsOptions

  constructor(options: CookieSessionsOptions) {
    this.#options = options
  }

  /** Issues a code that signs in once as a configured token, within ten minutes. */
  async issueCode(identity: Identity): Promise<string> {
    const code = randomToken()
    await this.#options.store.set(null, codeKey(code), identity.fingerprint, CODE_SECONDS)
    return code
  }

  /** Redeems a code. Of several concurrent callers only one receives the identity. */
  async redeemCode(code: string): Promise<Identity | undefined> {
    const { store, identityOf } = this.#options
    const print = await store.take(null, codeKey(code))
    return print === null ? undefined : identityOf({ fingerprint: print, tokenId: null })
  }

  /** A new session with its `Set-Cookie`. Undefined if the token was deleted meanwhile. */
  async open({ name, fingerprint, tokenId, grant: { expiresAt } }: Identity, isSecure: boolean) {
    const { sessions, secrets } = this.#options
    const opened = await sessions.open({ name, fingerprint, tokenId, expiresAt })
    if (!opened) return undefined
    const { secret, session } = opened
    return { session, cookie: this.#cookie(secrets.encrypt(secret, SESSION_COOKIE), SESSION_SECONDS, isSecure) }
  }

  /** @param isUse whether the request extends the session */
  async identify(request: Request, { isUse = true } = {}): Promise<Identity | undefined> {
    const { sessions, idleMs, identityOf } = this.#options
    const secret = this.#secretOf(request)
    const session = secret === undefined ? undefined : await sessions.find(secret, idleMs)
    const identity = session && (await identityOf(session))
    if (!session || !identity) return undefined
    if (isUse) sessions.used(session)
    const { id, expiresAt } = session
    return { ...identity, grant: { ...identity.grant, session: { id, expiresAt } } }
  }

  /** The `Set-Cookie` that ends the session of a request. */
  async close(request: Request, isSecure: boolean): Promise<string> {
    const secret = this.#secretOf(request)
    if (secret !== undefined) await this.#options.sessions.close(secret)
    return this.#cookie('', 0, isSecure)
  }

  #secretOf(request: Request): string | undefined {
    const cookies = (request.headers.get('cookie') ?? '').split(/;\s*/)
    const start = `${cookieName(isSecure(request))}=`
    const encrypted = cookies.find((cookie) => cookie.startsWith(start))?.slice(start.length)
    if (!encrypted) return undefined
    try {
      return this.#options.secrets.decrypt(encrypted, SESSION_COOKIE)
    } catch {
      return undefined // changed, or encrypted with a removed key: not signed in
    }
  }

  #cookie(value: string, maxAge: number, isSecure: boolean): string {
    const parts = [
      `${cookieName(isSecure)}=${value}`,
      `Path=${this.#options.path || '/'}`,
      `Max-Age=${maxAge}`,
      'HttpOnly',
      'SameSite=Strict',
    ]
    return [...parts, ...(isSecure ? ['Secure'] : [])].join('; ')
  }
}

/** Browsers accept a `__Secure-` cookie only from https, so an http page cannot set it. `__Host-` would require the path `/`. */
const cookieName = (isSecure: boolean): string => `${isSecure ? '__Secure-' : ''}${SESSION_COOKIE}`

/** Whether a request that changes something comes from a page of the same origin: scheme, host and port. */
export function isSameOrigin(request: Request): boolean {
  const host = request.headers.get('host') ?? new URL(request.url).host
  const own = `${isSecure(request) ? 'https' : 'http'}://${host}`
  return URL.canParse(own) && request.headers.get('origin') === new URL(own).origin
}

/**
 * Whether a streamed response may be sent: browsers send a session by themselves, and `Sec-Fetch-Site` with it. Only programs without it
 * identify themselves to a host.
 */
export function mayStream({ headers }: Request, { grant }: Identity): boolean {
  const site = headers.get('sec-fetch-site')
  return headers.has('x-admin-token') || site === 'same-origin' || (site === null && !grant.session)
}

/** Whether the browser used https. Behind proxies, the first `x-forwarded-proto` decides. */
export function isSecure(request: Request): boolean {
  const [first = ''] = (request.headers.get('x-forwarded-proto') ?? '').split(',')
  return request.url.startsWith('https:') || first.trim().toLowerCase() === 'https'
}

const codeKey = (code: string): string => `sign-in-code:${fingerprint(code)}`
