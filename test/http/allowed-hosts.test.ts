/** Probes and metrics respond under loopback names and allowed hosts only; on every host framework. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Served, send, served } from './served.ts'

const PATHS = ['/livez', '/readyz', '/healthz', '/metrics']
const LOOPBACK = [
  'localhost',
  'LOCALHOST:4000',
  'tenantry.localhost',
  '127.0.0.1',
  '127.8.8.8:80',
  '[::1]',
  '[::1]:4000',
]
const OTHERS = [
  'evil.example',
  'evil.example:4000',
  'localhost.evil.example',
  'notlocalhost',
  '127.0.0.1.evil.example',
  '10.0.0.1',
  '[2001:db8::1]',
]

let tenancy: Served
let listing: Served
beforeAll(async () => {
  const allowedHosts = ['Status.example.com', '[2001:DB8::1]', '10.0.0.1']
  tenancy = await served(inject('postgresUrl'), [], {}, 'api')
  listing = await served(inject('postgresUrl'), [], { allowedHosts }, 'api')
})
afterAll(() => Promise.all([tenancy.stop(), listing.stop()]))

describe.each(Object.entries(hosts))('%s on loopback', (_name, start) => {
  let host: Host
  const statusOf = async (path: string, named: string) =>
    (await send(host.origin, `GET ${path}`, { headers: { host: named, ...ADMIN } })).status

  describe('without the setting allowedHosts', () => {
    beforeAll(async () => {
      host = await start(tenancy.http)
      return () => host.close()
    })

    test.each(PATHS)('%s responds under loopback names only', async (path) => {
      for (const named of LOOPBACK) expect([named, await statusOf(path, named)]).toEqual([named, 200])
      for (const named of OTHERS) expect([named, await statusOf(path, named)]).toEqual([named, 421])
    })

    test.each(['256.256.256.256', '1.2.3.4.5', '0x1ffffffff', '1..1'])(
      'a request for %s is rejected',
      async (named) => {
        expect(await statusOf('/readyz', named)).toBe(400)
      },
    )

    test('the rejection names the setting, and nothing of the tenancy', async () => {
      const response = await send(host.origin, 'GET /metrics', { headers: { host: 'evil.example' } })
      expect(response).toMatchObject({
        status: 421,
        headers: { 'content-type': 'application/problem+json' },
        json: {
          code: 'E_HOST_NOT_ALLOWED',
          detail: 'The Host header names a host that is not in the setting allowedHosts.',
        },
      })
      expect(response.body).not.toContain('multitenancy')
    })

    test('a forwarded address does not replace the address of the connection', async () => {
      const headers = { host: 'evil.example', 'x-forwarded-for': '203.0.113.7', 'x-forwarded-host': 'localhost' }
      expect(await send(host.origin, 'GET /metrics', { headers })).toMatchObject({ status: 421 })
    })

    test('the admin API, which requires a token, responds under any name', async () => {
      expect(await statusOf(`${PREFIX}/plans`, 'evil.example')).toBe(200)
    })
  })

  test('with the setting allowedHosts, the listed hosts are served, too', async () => {
    host = await start(listing.http)
    for (const named of ['status.example.com', 'STATUS.example.com:8080', '[2001:db8::1]', '10.0.0.1', ...LOOPBACK])
      expect([named, await statusOf('/metrics', named)]).toEqual([named, 200])
    for (const named of ['example.com', 'a.status.example.com', 'evil.example'])
      expect([named, await statusOf('/metrics', named)]).toEqual([named, 421])
    await host.close()
  })
})
