/**
 * Sessions of browsers: an encrypted cookie replaces the admin token, so no page, URL or script contains the token.
 *
 * The cookie contains a session id. The store keeps the session with the fingerprint of its token: a sign-out, or the removal of the
 * token from the configuration, ends it. A sign-in code is stored as a hash and can be redeemed once.
 */
import { fingerprint, randomToken, type Secrets } from '../kernel/crypto/crypto.ts'
import type { Store } from '../kernel/store/store.ts'
import type { Identity, Tokens } from './tokens.ts'

const SESSION_COOKIE = 'tenantry_session'
const SESSION_SECONDS = 12 * 3_600
const CODE_SECONDS = 600

export class Sessions {
  readonly #store: Store
  readonly #secrets: Secrets
  readonly #tokens: Tokens
  readonly #path: string

  constructor(store: Store, secrets: Secrets, tokens: Tokens, path: string) {
    this.#store = store
    this.#secrets = secrets
    this.#tokens = tokens
    this.#path = path
  }

  /** Issues a code that signs in once as `identity`, within ten minutes. */
  async issueCode(identity: Identity): Promise<string> {
    const code = randomToken()
    await this.#store.set(null, codeKey(code), identity.fingerprint, CODE_SECONDS)
    return code
  }

  /** Redeems a code. Of several concurrent callers only one receives the identity. */
  async redeemCode(code: string): Promise<Identity | undefined> {
    const print = await this.#store.take(null, codeKey(code))
    return print === null ? undefined : this.#tokens.byFingerprint(print)
  }

  /** The `Set-Cookie` of a new session. */
  async open(identity: Identity, isSecure: boolean): Promise<string> {
    const id = randomToken()
    await this.#store.set(null, sessionKey(id), identity.fingerprint, SESSION_SECONDS)
    return this.#cookie(this.#secrets.encrypt(id, SESSION_COOKIE), SESSION_SECONDS, isSecure)
  }

  async identify(request: Request): Promise<Identity | undefined> {
    const id = this.#idOf(request)
    const print = id && (await this.#store.get(null, sessionKey(id)))
    return print ? this.#tokens.byFingerprint(print) : undefined
  }

  /** The `Set-Cookie` that ends the session of a request. */
  async close(request: Request, isSecure: boolean): Promise<string> {
    const id = this.#idOf(request)
    if (id) await this.#store.delete(null, sessionKey(id))
    return this.#cookie('', 0, isSecure)
  }

  #idOf(request: Request): string | undefined {
    const cookies = (request.headers.get('cookie') ?? '').split(/;\s*/)
    const start = `${cookieName(isSecure(request))}=`
    const encrypted = cookies.find((cookie) => cookie.startsWith(start))?.slice(start.length)
    if (!encrypted) return undefined
    try {
      return this.#secrets.decrypt(encrypted, SESSION_COOKIE)
    } catch {
      return undefined // changed, or encrypted with a removed key: not signed in
    }
  }

  #cookie(value: string, maxAge: number, isSecure: boolean): string {
    const parts = [
      `${cookieName(isSecure)}=${value}`,
      `Path=${this.#path || '/'}`,
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

/** Whether the browser used https. Behind proxies, the first `x-forwarded-proto` decides. */
export function isSecure(request: Request): boolean {
  const [first = ''] = (request.headers.get('x-forwarded-proto') ?? '').split(',')
  return request.url.startsWith('https:') || first.trim().toLowerCase() === 'https'
}

const codeKey = (code: string): string => `sign-in-code:${fingerprint(code)}`
const sessionKey = (id: string): string => `session:${fingerprint(id)}`
