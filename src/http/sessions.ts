/**
 * A person in a browser: an encrypted cookie stands for an admin token, so that the token is never in a page, a URL or a script.
 *
 * The cookie holds a session id; the session itself is in the store, bound to the token's fingerprint. Signing out deletes
 * it, and removing the token from the configuration ends it. A sign-in code is kept hashed and can be taken once.
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

  /** A code that signs in once, as `identity`, within ten minutes. */
  async issueCode(identity: Identity): Promise<string> {
    const code = randomToken()
    await this.#store.set(null, codeKey(code), identity.fingerprint, CODE_SECONDS)
    return code
  }

  /** Whom a code signs in; of any number of callers one is answered. */
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
      return undefined // altered, or encrypted under a key that is gone: nobody is signed in
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

/** Browsers take a `__Secure-` cookie from https alone, so a page of http cannot plant one. `__Host-` would need the path `/`. */
const cookieName = (isSecure: boolean): string => `${isSecure ? '__Secure-' : ''}${SESSION_COOKIE}`

/** Whether a request that changes something comes from a page of the same origin: scheme, host and port. */
export function isSameOrigin(request: Request): boolean {
  const host = request.headers.get('host') ?? new URL(request.url).host
  const own = `${isSecure(request) ? 'https' : 'http'}://${host}`
  return URL.canParse(own) && request.headers.get('origin') === new URL(own).origin
}

/** https, also behind proxies that end it: the first of them says how the browser asked. */
export function isSecure(request: Request): boolean {
  const [first = ''] = (request.headers.get('x-forwarded-proto') ?? '').split(',')
  return request.url.startsWith('https:') || first.trim().toLowerCase() === 'https'
}

const codeKey = (code: string): string => `sign-in-code:${fingerprint(code)}`
const sessionKey = (id: string): string => `session:${fingerprint(id)}`
