/**
 * Mix-up attack: the attacker has a tenant with a malicious provider and lures a user of another tenant into a login there. The
 * malicious provider redirects to the other tenant's provider, with the state of the lured login. The code that returns must not
 * reach the malicious provider.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { CLIENT, newKey, startProvider, type TestProvider } from './provider.fixture.ts'
import { type CameBack, inCode, type OpenSso, openSso, rejectedFor, type SsoTenancy } from './sso.fixture.ts'

const DISCOVERY = '/.well-known/openid-configuration'
const TAKEN = { code: 'E_SSO_REDIRECT_URI_TAKEN', status: 409 }

let opened: OpenSso
let tenancy: SsoTenancy
let honest: TestProvider
let evil: TestProvider

beforeAll(async () => {
  opened = await openSso(inject('postgresUrl'))
  tenancy = opened.tenancy
})
afterAll(() => opened?.end())
beforeEach(async () => {
  ;[honest, evil] = [await startProvider(), await startProvider({}, undefined, newKey())]
  for (const provider of [honest, evil]) {
    provider.lies(DISCOVERY, (response) => ({ ...response, authorization_response_iss_parameter_supported: false }))
  }
  return async () => {
    await honest.close()
    await evil.close()
  }
})

/** The browser's return to the callback of the user's own tenant. */
async function lured(victim: string, trap: string): Promise<CameBack> {
  const ofAttacker = new URL((await tenancy.sso.start(victim)).url)
  const { state, setCookie } = await tenancy.sso.start(trap)
  ofAttacker.searchParams.set('state', state)
  const back = new URL(await honest.logIn(ofAttacker.href))
  back.searchParams.delete('iss')
  return { url: back.href, cookie: setCookie.split(';')[0] ?? '', state }
}
const isSentToEvil = () => evil.requests.includes('/token')

describe('the code of a lured user is not sent to the attacker', () => {
  test('the path of the callback decides', async () => {
    const [victim, trap] = [await opened.tenantAt(honest), await opened.tenantAt(evil)]
    const { url, cookie } = await lured(victim, trap)
    await expect(tenancy.sso.finish({ url, cookie })).rejects.toMatchObject(rejectedFor('callback'))
    const second = await lured(victim, trap)
    const { pathname, search } = new URL(second.url)
    const relative = { url: pathname + search, cookie: second.cookie }
    await expect(tenancy.sso.finish(relative)).rejects.toMatchObject(rejectedFor('callback'))
    const third = await lured(victim, trap)
    const bare = { url: new URL(third.url).search, cookie: third.cookie }
    await expect(tenancy.sso.finish(bare)).rejects.toMatchObject(rejectedFor('callback'))
    expect(isSentToEvil()).toBe(false)
  })

  test('the named tenant of the callback decides, at any path', async () => {
    const [victim, trap] = [await opened.tenantAt(honest), await opened.tenantAt(evil)]
    const back = await lured(victim, trap)
    await expect(tenancy.sso.finish(back, { tenantId: victim })).rejects.toMatchObject(rejectedFor('state'))
    expect(isSentToEvil()).toBe(false)
  })

  test('counter-proof: the code would be sent for a callback of the attacker', async () => {
    const [victim, trap] = [await opened.tenantAt(honest), await opened.tenantAt(evil)]
    const { url, cookie } = await lured(victim, trap)
    const turned = url.replace(honest.redirectUri, evil.redirectUri)
    await expect(tenancy.sso.finish({ url: turned, cookie })).rejects.toMatchObject(
      inCode('E_SSO_FAILED', { reason: 'provider-error' }),
    )
    expect(isSentToEvil()).toBe(true)
  })
})

describe('the path of a callback belongs to one issuer', () => {
  const at = (provider: TestProvider, redirectUri: string) => ({ issuer: provider.issuer, ...CLIENT, redirectUri })

  test('also on another host, disabled, or of a deleted tenant; tenants of that issuer share it', async () => {
    const victim = await opened.tenantAt(honest)
    const other = await opened.tenant()
    const { pathname } = new URL(honest.redirectUri)
    for (const redirectUri of [
      honest.redirectUri,
      `https://evil.example${pathname}`,
      `https://app.example:8443${pathname}`,
    ]) {
      await expect(tenancy.sso.update(other, at(evil, redirectUri))).rejects.toMatchObject(TAKEN)
    }
    await tenancy.sso.disable(victim)
    await expect(tenancy.sso.update(other, at(evil, honest.redirectUri))).rejects.toMatchObject(TAKEN)
    await tenancy.sso.update(other, at(honest, honest.redirectUri))
    await expect(
      tenancy.sso.update(other, { ...at(evil, honest.redirectUri), clientSecret: null }),
    ).rejects.toMatchObject(TAKEN)
    await tenancy.tenants.delete(victim)
    await expect(tenancy.sso.update(other, at(evil, honest.redirectUri))).rejects.toMatchObject(TAKEN)
    expect(await tenancy.sso.get(other)).toMatchObject({ issuer: honest.issuer })
  })

  test('a path without a tenant can be taken by another issuer', async () => {
    const [one, other] = [await opened.tenantAt(honest), await opened.tenant()]
    await tenancy.sso.update(one, { ...at(honest, `${honest.redirectUri}/new`) })
    expect(await tenancy.sso.update(other, at(evil, honest.redirectUri))).toMatchObject({ issuer: evil.issuer })
  })

  test('the root path belongs to one issuer, too', async () => {
    await tenancy.sso.update(await opened.tenant(), at(honest, 'https://root.example/'))
    await expect(tenancy.sso.update(await opened.tenant(), at(evil, 'https://other.example/'))).rejects.toMatchObject(
      TAKEN,
    )
  })

  test('one of many concurrent issuers takes a path', async () => {
    const rivals = await Promise.all(Array.from({ length: 8 }, () => opened.tenant()))
    const all = await Promise.allSettled(
      rivals.map((id, index) =>
        tenancy.sso.update(id, { ...at(honest, honest.redirectUri), issuer: `${honest.issuer}/${index}` }),
      ),
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const one of all) if (one.status === 'rejected') expect(one.reason).toMatchObject(TAKEN)
  })
})
