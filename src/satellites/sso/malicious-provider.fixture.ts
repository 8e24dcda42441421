/** A tenant whose users log in at a provider of the test, which changes its responses. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, vi } from 'vitest'
import { startProvider, type TestProvider } from './provider.fixture.ts'
import { type CameBack, type OpenSso, openSso } from './sso.fixture.ts'

export const DISCOVERY = '/.well-known/openid-configuration'
export const UNAVAILABLE = { code: 'E_SSO_PROVIDER_UNAVAILABLE', status: 503, retryAfterSeconds: expect.any(Number) }

export interface Login {
  /** For all tests of the file. */
  opened: OpenSso
  provider: TestProvider
  /** Of the tenant. */
  id: string
  comeBack(): Promise<CameBack>
  finish(): ReturnType<OpenSso['logIn']>
  /** Number of requests to a path of the provider. */
  requestCount(path: string): number
}

/** Each test has a separate provider and tenant. */
export function openLogin(): Login {
  const login = {
    comeBack: () => login.opened.comeBack(login.id, login.provider),
    finish: async () => login.opened.tenancy.sso.finish(await login.comeBack()),
    requestCount: (path) => login.provider.requests.filter((one) => one === path).length,
  } as Login
  beforeAll(async () => {
    login.opened = await openSso(inject('postgresUrl'))
    // Later timers of undici are those of the machine, also in tests with fake timers.
    const first = await startProvider()
    await login.opened.logIn(await login.opened.tenantAt(first), first)
    await first.close()
  })
  afterAll(() => login.opened?.end())
  beforeEach(async () => {
    login.opened.clock.set(new Date()) // the provider's clock is the machine's
    login.provider = await startProvider()
    login.id = await login.opened.tenantAt(login.provider)
  })
  afterEach(async () => {
    vi.useRealTimers()
    await login.provider.close()
  })
  return login
}
