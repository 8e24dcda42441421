/**
 * Single sign-on by OpenID Connect: users of each tenant log in at the tenant's own identity provider.
 *
 *   start ──► browser at the provider ──► your callback ──► finish
 *
 * The authorization code flow with PKCE, by openid-client. `finish` throws unless all conditions hold, in this order:
 *
 *   1. the state is known and unused, and the browser is the one that started (logins.ts)
 *   2. the tenant is usable; single sign-on is enabled and unchanged since the start; the callback belongs to the tenant
 *   3. the response is of the configured issuer; the code is exchanged with the PKCE verifier; signature, issuer, audience, expiry and
 *      nonce of the ID token are valid
 *   4. the mail address is verified and of an allowed domain, if domains are set
 *   5. condition 2 still holds
 *
 * Messages of a provider are only logged. Hosts get a fixed reason (errors.ts).
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
import type { ProviderReader } from './provider-document.ts'
import {
  descriptionOf,
  errorMessageOf,
  IdentityProviderError,
  isOfAnother,
  isOfProvider,
  rejectionOf,
  unavailable,
} from './provider-failure.ts'
import { type Client, Providers } from './providers.ts'
import { type Enabled, pathOf, SsoRecords } from './records.ts'
import { isReturnPath } from './return-path.ts'
import type { SsoRequest, SsoSettings } from './settings.ts'

const StartOptions = z.strictObject({
  /** Path of the host to return to. Default: `/`. */
  returnTo: z.string().refine(isReturnPath, 'must be a path of this host, such as /projects?open=1').default('/'),
  /** Mail address that the user has typed already. */
  loginHint: z.string().min(1).max(320).optional(),
  prompt: z.enum(['none', 'login', 'consent', 'select_account']).optional(),
})
export type SsoStartOptions = z.input<typeof StartOptions>

export interface SsoStart {
  /** Redirect target for the browser. */
  readonly url: string
  readonly state: string
  /** `Set-Cookie` header of the same response. Without it the login cannot finish. */
  readonly setCookie: string
}

export interface SsoFinishOptions {
  /**
   * Tenant of the callback, by its path or host; a login of another tenant is rejected. If absent, the path of the callback must be the
   * path of the tenant's `redirectUri`.
   */
  readonly tenantId?: string
}

export interface SsoLogin {
  readonly tenantId: string
  readonly returnTo: string
  readonly claims: SsoClaims
  /** As signed by the provider; it ends a session there (`id_token_hint`). */
  readonly idToken: string
  /** `Set-Cookie` header that removes the cookie of the login. */
  readonly clearCookie: string
}

export class Sso {
  /** For the doctor. */
  readonly records: SsoRecords
  readonly providers: ProviderReader
  readonly clock: Clock
  readonly #kernel: Kernel
  readonly #tenants: Pick<Tenants, 'registry'>
  readonly #logins: Logins
  readonly #providers: Providers

  /** @param timeoutMs of one request to a provider */
  constructor(kernel: Kernel, tenants: Pick<Tenants, 'registry'>, { timeoutMs }: { readonly timeoutMs: number }) {
    this.#kernel = kernel
    this.#tenants = tenants
    this.clock = kernel.clock
    this.#logins = new Logins(kernel)
    this.records = new SsoRecords(kernel)
    this.#providers = new Providers(kernel, timeoutMs)
    this.providers = this.#providers
  }

  /** Null and disabled without settings. Works for deleted tenants. @throws E_TENANT_NOT_FOUND, E_DEPENDENCY_UNAVAILABLE */
  get(tenantId: string): Promise<SsoSettings> {
    return this.records.get(tenantId)
  }

  /**
   * Replaces the complete state, except an absent client secret, which stays. Logins in progress fail.
   *
   * @throws E_URL_NOT_ALLOWED, E_SSO_REDIRECT_URI_TAKEN if a tenant with another issuer has the path of the callback,
   * E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_INVALID_REQUEST
   */
  update(tenantId: string, request: z.input<typeof SsoRequest>): Promise<SsoSettings> {
    return this.records.update(tenantId, request)
  }

  /** Disables single sign-on and its enforcement; other settings stay. @throws E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant */
  disable(tenantId: string): Promise<SsoSettings> {
    return this.records.disable(tenantId)
  }

  /** Tests the connection as far as possible without a user, enabled or not. @throws E_TENANT_NOT_FOUND */
  async test(tenantId: string): Promise<ConnectionReport> {
    await this.records.get(tenantId)
    return testConnection(this.#kernel, this.records, this.providers, await this.records.row(tenantId))
  }

  /**
   * Whether users of a tenant must use single sign-on. Reads the database, so that each login sees the present setting.
   *
   * @throws E_TENANT_NOT_FOUND, E_DEPENDENCY_UNAVAILABLE
   */
  async isEnforced(tenantId: string): Promise<boolean> {
    const isEnforced = await this.records.isEnforced(tenantId)
    if (isEnforced === undefined) throw tenantNotFound(tenantId)
    return isEnforced
  }

  /**
   * Starts a login. Send the browser to `url` with the header `setCookie`.
   *
   * @throws E_SSO_NOT_ENABLED, E_SSO_PROVIDER_UNAVAILABLE, E_DEPENDENCY_UNAVAILABLE, E_INVALID_REQUEST, errors of a guarded route
   * @example
   * const { url, setCookie } = await tenancy.sso.start('acme', { returnTo: '/projects' })
   */
  async start(tenantId: string, options: SsoStartOptions = {}): Promise<SsoStart> {
    const { returnTo, loginHint, prompt } = parsed(StartOptions, options)
    await this.#assertUsable(tenantId)
    const settings = await this.records.enabled(tenantId)
    const configuration = await this.#configured(settings)
    const [nonce, verifier] = [randomNonce(), randomPKCECodeVerifier()]
    const redirectUri = new URL(settings.redirectUri) // the same attribute when the login ends
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
   * Finishes a login, which is used afterwards in any case.
   *
   * @throws E_SSO_FAILED with a reason, E_SSO_DOMAIN_NOT_ALLOWED, E_SSO_NOT_ENABLED, E_SSO_PROVIDER_UNAVAILABLE,
   * E_DEPENDENCY_UNAVAILABLE, errors of a guarded route
   * @example
   * const { claims, returnTo, clearCookie } = await tenancy.sso.finish(request)
   */
  async finish(callback: SsoCallback, { tenantId: expected }: SsoFinishOptions = {}): Promise<SsoLogin> {
    const { path, search, state, cookies } = parseCallback(callback)
    const login = await this.#logins.take(state, cookies, expected)
    const { tenantId, returnTo, clearCookie } = login
    const settings = await this.#unchanged(login)
    if (expected === undefined) this.#assertCallback(settings, path)
    const { claims, idToken } = await this.#exchanged(login, settings, search)
    if (!isAllowedEmail(claims, settings.allowedDomains)) {
      this.#kernel.log.warn({ tenantId }, 'a login with a mail address that is not allowed was rejected')
      throw SsoDomainNotAllowed('The mail address is not verified, or its domain is not allowed.')
    }
    await this.#unchanged(login)
    return { tenantId, returnTo, claims, idToken, clearCookie }
  }

  /** `Set-Cookie` header that removes the cookie of a rejected login; undefined if the browser has none. */
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

  /** Two issuers never share a path (records.ts), so the response is of the provider that receives the code. */
  #assertCallback({ tenantId, redirectUri }: Enabled, path: string): void {
    if (path === pathOf(redirectUri)) return
    const { log } = this.#kernel
    log.warn({ tenantId, redirectUri }, 'a login that returned to the callback of another tenant was rejected')
    throw failed('callback')
  }

  async #configured(settings: Enabled): Promise<Configuration> {
    const client = this.#clientOf(settings)
    try {
      return this.#providers.configuration(client, await this.#providers.document(settings.issuer))
    } catch (error) {
      throw this.#logFailure(settings.tenantId, error) ? unavailable() : error
    }
  }

  async #exchanged(login: Login, settings: Enabled, search: string): Promise<{ claims: SsoClaims; idToken: string }> {
    const client = this.#clientOf(settings)
    try {
      const document = await this.#providers.document(settings.issuer)
      return await this.#providers.with(client, document, async (configuration) => {
        const url = new URL(settings.redirectUri) // behind a proxy, the URL of the request may differ
        url.search = search
        const { nonce, verifier, state } = login
        const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true }
        const tokens = await authorizationCodeGrant(configuration, url, checks)
        const [idToken, claims] = [tokens.id_token, tokens.claims()]
        if (!idToken || !claims) throw new IdentityProviderError('the response has no ID token', false)
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

  /** Undefined if userinfo fails and the allowed domains do not need it. Another subject fails the login. */
  async #userinfo(configuration: Configuration, accessToken: string, claims: IDToken, settings: Enabled) {
    try {
      return await fetchUserInfo(configuration, accessToken, claims.sub)
    } catch (error) {
      const isNeeded = settings.allowedDomains.length > 0 && !claimsOf(claims, undefined).emailVerified
      if (isNeeded || isOfAnother(error) || !isOfProvider(error)) throw error
      const { tenantId } = settings
      this.#kernel.log.warn(
        { tenantId, reason: errorMessageOf(error) },
        'userinfo failed, and the login continues without it',
      )
      return undefined
    }
  }

  /** An undecryptable secret is no failure of the provider. */
  #clientOf({ tenantId, issuer, clientId, clientSecret }: Enabled): Client {
    try {
      return { issuer, clientId, clientSecret: this.records.decryptSecret({ tenantId, clientSecret }) }
    } catch (error) {
      this.#kernel.log.error({ err: error, tenantId }, 'the client secret of single sign-on could not be decrypted')
      throw error
    }
  }

  /** Whether the provider caused the failure. */
  #logFailure(tenantId: string, error: unknown): boolean {
    const { log } = this.#kernel
    if (!isOfProvider(error)) {
      log.error({ err: error, tenantId }, 'a login by single sign-on failed for a reason that is not the provider')
      return false
    }
    log.warn({ tenantId, reason: errorMessageOf(error) }, 'a login by single sign-on failed')
    const description = descriptionOf(error)
    if (description !== undefined) log.debug({ tenantId, description }, 'description of the error by the provider')
    return true
  }
}
