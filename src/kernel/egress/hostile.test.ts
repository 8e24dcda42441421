/** The corpus: what is refused without a look-up, why, and whether the settings for development change that. */
import { describe, expect, test, vi } from 'vitest'
import { TenancyError } from '../base/errors.ts'
import corpus from '../hostile-urls.json' with { type: 'json' }
import { Egress, UrlNotAllowed } from './egress.ts'
import { listen } from './receivers.fixture.ts'

const DEVELOPMENT = { allowPrivateNetworks: true, allowHttp: true }

const short = (url: string) => JSON.stringify(url.length > 80 ? `${url.slice(0, 80)}…` : url)

const refusal = (check: () => unknown) => {
  try {
    return check()
  } catch (error) {
    if (error instanceof TenancyError) return error
    throw error
  }
}

describe('a hostile URL', () => {
  const lookup = vi.fn()
  const egress = new Egress({}, { lookup })
  const inDevelopment = new Egress(DEVELOPMENT, { lookup })

  test.each(corpus.hostile.map((each) => [each.why, short(each.url), each] as const))('%s: %s', async (_, __, each) => {
    const { url, reason, error, development } = each
    const thrown = refusal(() => egress.check(url))
    expect(thrown).toMatchObject({ code: 'E_URL_NOT_ALLOWED', status: 422 })
    expect(UrlNotAllowed.matches(thrown)).toBe(true)
    expect((thrown as TenancyError).message).toContain(reason)

    const exchange = { url, method: 'GET', headers: {}, timeoutMs: 10_000, maxResponseBytes: 0 } as const
    const refused = { status: null, error, isOurs: false, address: null }
    expect(await egress.send(exchange)).toMatchObject(refused)
    if (development === 'allowed') expect(inDevelopment.check(url)).toBeInstanceOf(URL)
    else {
      expect(refusal(() => inDevelopment.check(url))).toMatchObject({ code: 'E_URL_NOT_ALLOWED' })
      expect(await inDevelopment.send(exchange)).toMatchObject({ status: null, isOurs: false, address: null })
    }
    expect(lookup).not.toHaveBeenCalled()
  })
})

describe('a good URL', () => {
  const egress = new Egress()

  test.each(corpus.good.map((each) => [each.why, short(each.url), each] as const))('%s: %s', (_, __, each) => {
    expect(egress.check(each.url).href).toBe(each.becomes)
    expect(egress.check(each.becomes).href).toBe(each.becomes)
  })
})

test('allowHttp and allowPrivateNetworks are independent', () => {
  const http = new Egress({ allowHttp: true })
  const ownNetwork = new Egress({ allowPrivateNetworks: true })
  expect(http.check('http://example.com/').href).toBe('http://example.com/')
  expect(() => http.check('http://127.0.0.1/')).toThrow('loopback')
  expect(ownNetwork.check('https://127.0.0.1/').href).toBe('https://127.0.0.1/')
  expect(() => ownNetwork.check('http://127.0.0.1/')).toThrow('https://')
})

test('a local server is not reached by any spelling of its address', async () => {
  const receiver = await listen(() => undefined)
  const egress = new Egress({ allowHttp: true })
  const hosts = [
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '0177.0.0.1',
    '127.1.',
    '[::ffff:127.0.0.1]',
    '[::127.0.0.1]',
    '0',
    '[::]',
  ]
  for (const host of [...hosts, '[64:ff9b::7f00:1]', '[2002:7f00:1::]', 'localhost', 'localhost.', 'a.localhost'])
    expect(
      await egress.send({
        url: `http://${host}:${receiver.port}/`,
        method: 'POST',
        headers: {},
        timeoutMs: 10_000,
        maxResponseBytes: 0,
      }),
    ).toMatchObject({ status: null, error: 'address not allowed', address: null })
  expect(receiver.connections).toBe(0)
})
