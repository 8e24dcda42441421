/**
 * Identifies the caller of a request to the admin API.
 *
 *   `x-admin-token` ──► a configured token, else one of the database ──► else 401
 *   otherwise ──► `identify` of the host ──undefined──► session cookie ──► else 401
 *
 * - A header with a wrong token is rejected, also with a valid cookie or a known identity.
 * - Browsers send cookies and the credentials of a host's session by themselves. So a change without the header must come from a page of the
 *   same origin.
 */
import type { AnyOperation } from '../kernel/api/operation.ts'
import { unknownPatterns } from '../kernel/api/permissions.ts'
import type { Grant } from '../kernel/base/context.ts'
import type { Core } from '../tenancy/tenancy.ts'
import type { KnownToken } from '../tenancy/tokens/tokens.ts'
import { FailedSignIns } from './failed-sign-ins.ts'
import { hostIdentities, type Identify } from './host-identity.ts'
import { Forbidden, Unauthorized } from './problem.ts'
import { CookieSessions, isSameOrigin } from './sessions.ts'
import { type AdminToken, ConfiguredTokens, type Identity } from './tokens.ts'

export interface AuthenticationOptions {
  readonly adminTokens: readonly AdminToken[] | undefined
  readonly identify?: Identify | undefined
  /** Minutes without a request after which a session ends. */
  readonly sessionIdleMinutes?: number | undefined
  readonly prefix: string
  /** Operations of disabled satellites: patterns may name them. */
  readonly disabled: readonly AnyOperation[]
}

const CHALLENGE = { 'www-authenticate': 'TenantryToken realm="admin"' }

export class Authentication {
  readonly sessions: CookieSessions
  readonly failedSignIns: FailedSignIns
  readonly #core: Core
  readonly #configured: ConfiguredTokens
  readonly #identify: ((request: Request) => Promise<Identity | undefined>) | undefined

  constructor(core: Core, { adminTokens = [], identify, sessionIdleMinutes, prefix, disabled }: AuthenticationOptions) {
    if (adminTokens.length === 0 && !identify) {
      throw new Error(
        `the admin API needs a token: createHttp(tenancy, { adminTokens: [{ name: 'ops', token: '…' }] })`,
      )
    }
    const { tokens, sessions } = core
    const { store, secrets } = core.kernel
    this.#core = core
    const grantOf = (may: readonly string[], tenants: readonly string[] | null = null): Grant => {
      const ofDisabled = may.filter((pattern) => unknownPatterns([pattern], disabled).length === 0)
      const known = may.filter(
        (pattern) => !ofDisabled.includes(pattern) || unknownPatterns([pattern], tokens.operations).length === 0,
      )
      return { ...tokens.grantOf(known, tenants), bounds: [may] }
    }
    this.#configured = new ConfiguredTokens(adminTokens, (may) => grantOf(may))
    this.#identify = identify && hostIdentities(identify, grantOf)
    this.failedSignIns = new FailedSignIns(core.kernel)
    this.sessions = new CookieSessions({
      store,
      secrets,
      sessions,
      path: prefix,
      idleMs: sessionIdleMinutes === undefined ? undefined : sessionIdleMinutes * 60_000,
      identityOf: async ({ tokenId, fingerprint }) => {
        if (tokenId === null) return this.#configured.byFingerprint(fingerprint)
        const known = await tokens.find(tokenId)
        return known && stored(known)
      },
    })
  }

  /** @throws E_UNAUTHORIZED, E_TOO_MANY_ATTEMPTS, E_FORBIDDEN for a change from another origin */
  async identify(request: Request): Promise<Identity | undefined> {
    const header = request.headers.get('x-admin-token')
    if (header !== null) {
      const identity = await this.identifyToken(header)
      if (identity) return identity
      await this.failedSignIns.count()
      return undefined
    }
    const identity = (await this.#identify?.(request)) ?? (await this.sessions.identify(request))
    if (identity && changesSomething(request) && !isSameOrigin(request)) {
      throw Forbidden('A change without the header x-admin-token must come from a page of this origin.')
    }
    return identity
  }

  /** The present permissions of an identified request, without a use of its session. Undefined: its token or session has ended. */
  async currentGrant(request: Request, { fingerprint }: Identity): Promise<Grant | undefined> {
    const header = request.headers.get('x-admin-token')
    const identity =
      header === null
        ? ((await this.#identify?.(request)) ?? (await this.sessions.identify(request, { isUse: false })))
        : await this.identifyToken(header)
    return identity?.fingerprint === fingerprint ? identity.grant : undefined
  }

  /** The identity of a token. A wrong one is not counted. */
  async identifyToken(token: string): Promise<Identity | undefined> {
    const configured = this.#configured.identify(token)
    if (configured) return configured
    const known = await this.#core.tokens.authenticate(token)
    return known && stored(known)
  }
}

export const unauthorized = () =>
  Unauthorized('Send a valid admin token in the header x-admin-token.', { headers: CHALLENGE })

const stored = ({ id, name, grant }: KnownToken): Identity => ({
  id: `tnt_${id}`,
  name,
  grant,
  fingerprint: `tnt_${id}`,
  tokenId: id,
})

const changesSomething = ({ method }: Request): boolean => method !== 'GET' && method !== 'HEAD'
