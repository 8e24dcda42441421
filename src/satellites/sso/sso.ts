/**
 * Single sign-on of tenants by OpenID Connect: each tenant's people log in at an identity provider of the tenant's own.
 *
 *   start ──► the browser at the provider ──► your callback ──► finish
 *
 * The authorization code flow with PKCE, by openid-client. `finish` throws unless all of this holds, in this order:
 *
 *   1. the state is known and unused, and the browser is the one that began (logins.ts)
 *   2. the tenant may be used; single sign-on is enabled and unchanged since; the callback is the tenant's
 *   3. the answer is of the configured issuer; its code is taken with the PKCE verifier; the ID token's signature, issuer, audience,
 *      expiry and nonce are right
 *   4. the mail address is verified and of an allowed domain, where some are named
 *   5. what 2 says still holds
 *
 * Whatever a provider says stays in the log; a host is told a reason of ours (errors.ts).
 */
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  fetchUserInfo,
  type IDToken,
  randomNonce,
  randomPKCECodeVerifier,
} from 'openid-client'
import { z } from 'zod'
import type { Clock } from '../../kernel/base/clock.ts'
import { parsed } from '../../kernel/base/validate.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertUsable } from '../../tenants/registry/assert-usable.ts'
import { tenantNotFound } from '../../tenants/tenant/errors.ts'
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { parseCallback, type SsoCallback } from './callback.ts'
import { claimsOf, isShort, type SsoClaims } from './claims.ts'
import { type ConnectionReport, testConnection } from './connection-test.ts'
import { isAllowedEmail } from './domains.ts'
import { failed, SsoDomainNotAllowed } from './errors.ts'
import { clearedCookie, type Login, Logins } from './logins.ts'
import {
  descriptionOf,
  IdentityProviderError,
  isOfAnother,
  isOfProvider,
  rejectionOf,
  unavailable,
  wordsOf,
} from './provider-failure.ts'
import { type Client, Providers } from './providers.ts'
import { type Enabled, pathOf, SsoRecords } from './records.ts'
import { isReturnPath } from './return-path.ts'
import type { SsoRequest, SsoSettings } from './settings.ts'

const StartOptions = z.strictObject({
  /** A path of the host, where the person goes afterwards; default `/`. */
  returnTo: z.string().refine(isReturnPath, 'not a path of this host, like /projects?open=1').default('/'),
  /** The mail address that the person has typed already. */
  loginHint: z.string().min(1).max(320).optional(),
  prompt: z.enum(['none', 'login', 'consent', 'select_account']).optional(),
})
export type SsoStartOptions = z.input<typeof StartOptions>

export interface SsoStart {
  /** Where the browser is sent. */
  readonly url: string
  readonly state: string
  /** A `Set-Cookie` header of that very answer: without it the login cannot be finished. */
  readonly setCookie: string
}

export interface SsoFinishOptions {
  /**
   * Whose callback it is, by its path or its host: a login of another tenant is refused. Without it the path of the callback has to
   * be that of the tenant's `redirectUri`.
   */
  readonly tenantId?: string
}

export interface SsoLogin {
  readonly tenantId: string
  readonly returnTo: string
  readonly claims: SsoClaims
  /** As the provider has signed it; it ends a session there (`id_token_hint`). */
  readonly idToken: string
  /** A `Set-Cookie` header that removes the cookie of the beginning. */
  readonly clearCookie: string
}

export class Sso {
  /** For the doctor. */
  readonly records: SsoRecords
  readonly providers: Providers
  readonly clock: Clock
  readonly #kernel: Kernel
  readonly #tenants: Pick<Tenants, 'registry'>
  readonly #logins: Logins

  /** @param timeoutMs of one request to a provider */
  constructor(kernel: Kernel, tenants: Pick<Tenants, 'registry'>, { timeoutMs }: { readonly timeoutMs: number }) {
    this.#kernel = kernel
    this.#tenants = tenants
    this.clock = kernel.clock
    this.#logins = new Logins(kernel)
    this.records = new SsoRecords(kernel)
    this.providers = new Providers(kernel, timeoutMs)
  }

  /** Null and off while nothing is set. `E_TENANT_NOT_FOUND`, `E_DEPENDENCY_UNAVAILABLE`; a deleted tenant still has its settings. */
  get(tenantId: string): Promise<SsoSettings> {
    return this.records.get(tenantId)
  }

  /**
   * Full state, but a client secret that is left out stays. Logins under way have to begin again. `E_URL_NOT_ALLOWED`,
   * `E_SSO_REDIRECT_URI_TAKEN` when a tenant with another issuer has the path of the callback, `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when deleted, or a 400.
   */
  update(tenantId: string, request: z.input<typeof SsoRequest>): Promise<SsoSettings> {
    return this.records.update(tenantId, request)
  }

  /** Neither enabled nor enforced any more; the rest stays. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when deleted. */
  disable(tenantId: string): Promise<SsoSettings> {
    return this.records.disable(tenantId)
  }

  /** Asks the provider for all that a login needs but a person; enabled or not. `E_TENANT_NOT_FOUND`. */
  async test(tenantId: string): Promise<ConnectionReport> {
    await this.records.get(tenantId)
    return testConnection(this.#kernel, this.records, this.providers, await this.records.row(tenantId))
  }

  /**
   * Whether people of a tenant may come in by single sign-on alone; asked at each login, from the database. `E_TENANT_NOT_FOUND`,
   * `E_DEPENDENCY_UNAVAILABLE`.
   */
  async isEnforced(tenantId: string): Promise<boolean> {
    const isEnforced = await this.records.isEnforced(tenantId)
    if (isEnforced === undefined) throw tenantNotFound(tenantId)
    return isEnforced
  }

  /**
   * `E_SSO_NOT_ENABLED`, `E_SSO_PROVIDER_UNAVAILABLE`, `E_DEPENDENCY_UNAVAILABLE`, what a guarded route answers for the tenant, or
   * a 400.
   */
  async start(tenantId: string, options: SsoStartOptions = {}): Promise<SsoStart> {
    const { returnTo, loginHint, prompt } = parsed(StartOptions, options)
    await this.#assertUsable(tenantId)
    const settings = await this.records.enabled(tenantId)
    const configuration = await this.#configured(settings)
    const [nonce, verifier] = [randomNonce(), randomPKCECodeVerifier()]
    const redirectUri = new URL(settings.redirectUri) // as it is sent again when the login ends
    const isSecure = redirectUri.protocol === 'https:'
    const kept = { tenantId, nonce, verifier, returnTo, version: settings.version, isSecure }
    const { state, setCookie } = await this.#logins.begin(kept)
    const url = buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri.href,
      scope: settings.scopes.join(' '),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      ...(loginHint === undefined ? {} : { login_hint: loginHint }),
      ...(prompt === undefined ? {} : { prompt }),
    })
    return { url: url.href, state, setCookie }
  }

  /**
   * `E_SSO_FAILED` with a reason, `E_SSO_DOMAIN_NOT_ALLOWED`, `E_SSO_NOT_ENABLED`, `E_SSO_PROVIDER_UNAVAILABLE`,
   * `E_DEPENDENCY_UNAVAILABLE`, or what a guarded route answers for the tenant. Whatever comes of it, the login has been used.
   */
  async finish(callback: SsoCallback, { tenantId: expected }: SsoFinishOptions = {}): Promise<SsoLogin> {
    const { path, search, state, cookies } = parseCallback(callback)
    const login = await this.#logins.take(state, cookies, expected)
    const { tenantId, returnTo, clearCookie } = login
    const settings = await this.#unchanged(login)
    if (expected === undefined) this.#assertCallback(settings, path)
    const { claims, idToken } = await this.#exchanged(login, settings, search)
    if (!isAllowedEmail(claims, settings.allowedDomains)) {
      this.#kernel.log.warn({ tenantId }, 'a login of a mail address that is not allowed was refused')
      throw SsoDomainNotAllowed('The mail address is not verified, or not of a domain that is allowed.')
    }
    await this.#unchanged(login)
    return { tenantId, returnTo, claims, idToken, clearCookie }
  }

  /** A `Set-Cookie` header that removes the cookie of a login that was refused; undefined where the browser has none. */
  clearCookie(callback: SsoCallback): string | undefined {
    const { state, cookies } = parseCallback(callback)
    return state === undefined ? undefined : clearedCookie(state, cookies)
  }

  async #assertUsable(tenantId: string): Promise<void> {
    const located = TENANT_ID.test(tenantId) ? await this.#tenants.registry.find(tenantId) : undefined
    if (!located) throw tenantNotFound(tenantId)
    assertUsable(located.tenant)
  }

  async #unchanged({ tenantId, version }: Login): Promise<Enabled> {
    await this.#assertUsable(tenantId)
    const settings = await this.records.enabled(tenantId)
    if (settings.version !== version) throw failed('changed')
    return settings
  }

  /** No two issuers have one (records.ts); so the answer is of the provider that its code will be sent to. */
  #assertCallback({ tenantId, redirectUri }: Enabled, path: string): void {
    if (path === pathOf(redirectUri)) return
    this.#kernel.log.warn(
      { tenantId, redirectUri },
      'a login that came back elsewhere than to its callback was refused',
    )
    throw failed('callback')
  }

  async #configured(settings: Enabled): Promise<Configuration> {
    const client = this.#clientOf(settings)
    try {
      return this.providers.configuration(client, await this.providers.document(settings.issuer))
    } catch (error) {
      throw this.#logFailure(settings.tenantId, error) ? unavailable() : error
    }
  }

  async #exchanged(login: Login, settings: Enabled, search: string): Promise<{ claims: SsoClaims; idToken: string }> {
    const client = this.#clientOf(settings)
    try {
      const document = await this.providers.document(settings.issuer)
      return await this.providers.with(client, document, async (configuration) => {
        const url = new URL(settings.redirectUri) // behind a proxy, a request's own may be another
        url.search = search
        const { nonce, verifier, state } = login
        const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true }
        const tokens = await authorizationCodeGrant(configuration, url, checks)
        const [idToken, claims] = [tokens.id_token, tokens.claims()]
        if (!idToken || !claims) throw new IdentityProviderError('there is no ID token', false)
        const needsUserinfo = document.userinfo_endpoint !== undefined && isShort(claims, settings.scopes)
        const userinfo = needsUserinfo
          ? await this.#userinfo(configuration, tokens.access_token, claims, settings)
          : undefined
        return { claims: claimsOf(claims, userinfo), idToken }
      })
    } catch (error) {
      throw this.#logFailure(settings.tenantId, error) ? rejectionOf(error) : error
    }
  }

  /** Undefined when it cannot be had and the gate does not need it. What is about somebody else ends the login. */
  async #userinfo(configuration: Configuration, accessToken: string, claims: IDToken, settings: Enabled) {
    try {
      return await fetchUserInfo(configuration, accessToken, claims.sub)
    } catch (error) {
      const isNeeded = settings.allowedDomains.length > 0 && !claimsOf(claims, undefined).emailVerified
      if (isNeeded || isOfAnother(error) || !isOfProvider(error)) throw error
      const { tenantId } = settings
      this.#kernel.log.warn({ tenantId, reason: wordsOf(error) }, 'a login goes on without userinfo, which failed')
      return undefined
    }
  }

  /** A secret that cannot be opened is no fault of the provider. */
  #clientOf({ tenantId, issuer, clientId, clientSecret }: Enabled): Client {
    try {
      return { issuer, clientId, clientSecret: this.records.decryptSecret({ tenantId, clientSecret }) }
    } catch (error) {
      this.#kernel.log.error({ err: error, tenantId }, 'the client secret of single sign-on cannot be opened')
      throw error
    }
  }

  /** Whether the provider is to blame. */
  #logFailure(tenantId: string, error: unknown): boolean {
    const { log } = this.#kernel
    if (!isOfProvider(error)) {
      log.error({ err: error, tenantId }, 'single sign-on failed, and not for the provider')
      return false
    }
    log.warn({ tenantId, reason: wordsOf(error) }, 'single sign-on failed')
    const description = descriptionOf(error)
    if (description !== undefined) log.debug({ tenantId, description }, 'the provider said why')
    return true
  }
}
