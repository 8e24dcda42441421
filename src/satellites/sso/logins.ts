/**
 * Stores logins in progress, which wait for the user's return from the provider.
 *
 *   start ──► in the store, 10 minutes ──take──► removed
 *
 * 1. One of several concurrent callers takes a state. It is removed regardless of the result of the login.
 * 2. The state belongs to one tenant: with another tenant it finds nothing.
 * 3. A login ends in the browser that started it. A cookie has the binding, the store its fingerprint. So an attacker cannot make a
 *    victim finish the attacker's login.
 * 4. The stored data is encrypted and bound to its key.
 */
import { z } from 'zod'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { equalInConstantTime, fingerprint, randomToken } from '../../kernel/crypto/crypto.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'
import { failed } from './errors.ts'

const LOGIN_SECONDS = 600
const STATE = /^([a-z0-9_-]{1,48})\.[\w-]{43}$/
const NAME_CHARACTERS = 8

const Kept = z.object({
  nonce: z.string(),
  verifier: z.string(),
  returnTo: z.string(),
  version: z.number(),
  binding: z.string(),
  isSecure: z.boolean(),
  startedAt: z.number(),
})

/** Data that finishes a login. */
export type Login = Pick<z.output<typeof Kept>, 'nonce' | 'verifier' | 'returnTo' | 'version'> & {
  readonly tenantId: string
  readonly state: string
  /** Removes the cookie of the login. */
  readonly clearCookie: string
}

interface StartedLogin extends Omit<z.output<typeof Kept>, 'binding' | 'startedAt'> {
  readonly tenantId: string
}

export class Logins {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async begin({ tenantId, ...login }: StartedLogin): Promise<{ readonly state: string; readonly setCookie: string }> {
    const { store, secrets, clock } = this.#kernel
    const state = `${tenantId}.${randomToken()}`
    const binding = randomToken()
    const kept: z.output<typeof Kept> = { ...login, binding: fingerprint(binding), startedAt: clock.now().getTime() }
    const key = keyOf(state)
    await this.#stored(
      store.set(tenantId, key, secrets.encrypt(JSON.stringify(kept), `${tenantId} ${key}`), LOGIN_SECONDS),
    )
    return { state, setCookie: cookie(state, login.isSecure, binding, LOGIN_SECONDS) }
  }

  /** @param cookies header of the request @throws E_SSO_FAILED */
  async take(state: string | undefined, cookies: string | null, expectedTenant: string | undefined): Promise<Login> {
    const tenantId = STATE.exec(state ?? '')?.[1]
    if (state === undefined || tenantId === undefined || !TENANT_ID.test(tenantId)) throw failed('state')
    if (expectedTenant !== undefined && expectedTenant !== tenantId) throw failed('state')
    const key = keyOf(state)
    const encrypted = await this.#stored(this.#kernel.store.take(tenantId, key))
    const kept = encrypted === null ? undefined : this.#decrypt(encrypted, `${tenantId} ${key}`)
    if (!kept) throw failed('state')
    const ageMs = this.#kernel.clock.now().getTime() - kept.startedAt
    if (ageMs >= LOGIN_SECONDS * 1_000) throw failed('state')
    const name = nameOf(state, kept.isSecure)
    const bindings = valuesOf(cookies ?? '', name)
    if (!bindings.some((binding) => equalInConstantTime(fingerprint(binding), kept.binding))) throw failed('browser')
    const { nonce, verifier, returnTo, version } = kept
    return { tenantId, state, nonce, verifier, returnTo, version, clearCookie: cookie(state, kept.isSecure, '', 0) }
  }

  #decrypt(encrypted: string, binding: string): z.output<typeof Kept> | undefined {
    try {
      return Kept.parse(JSON.parse(this.#kernel.secrets.decrypt(encrypted, binding)))
    } catch (error) {
      this.#kernel.log.warn({ err: error }, 'a stored login could not be decrypted')
      return undefined
    }
  }

  async #stored<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      throw DependencyUnavailable.matches(error) ? this.#kernel.resilience.rejection('redis', error) : error
    }
  }
}

/** Removes the cookie of a login; undefined if the browser has none. */
export function clearedCookie(state: string, cookies: string | null): string | undefined {
  const isSecure = [true, false].find((one) => valuesOf(cookies ?? '', nameOf(state, one)).length > 0)
  return isSecure === undefined ? undefined : cookie(state, isSecure, '', 0)
}

const keyOf = (state: string): string => `sso-login:${fingerprint(state)}`

/** One name for each login, so that logins in one browser do not interfere. `__Host-` prevents other hosts from setting it. */
const nameOf = (state: string, isSecure: boolean): string =>
  `${isSecure ? '__Host-' : ''}tenantry-sso-${fingerprint(state).slice(0, NAME_CHARACTERS)}`

/** Lax, because the provider redirects from another site. */
const cookie = (state: string, isSecure: boolean, value: string, maxAgeSeconds: number): string =>
  `${nameOf(state, isSecure)}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`

function valuesOf(cookies: string, name: string): string[] {
  return cookies
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
}
