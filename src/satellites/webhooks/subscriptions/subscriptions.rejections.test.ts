/** Rejected requests for subscriptions: invalid bodies, URLs that are not allowed, disabled webhooks. */
import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { webhooks } from '../index.ts'
import { DEVELOPMENT, type WebhooksTenancy } from '../webhooks.fixture.ts'
import { apiOf, type Call } from '../webhooks-api.fixture.ts'
import { BODY, inCode, NO_DELIVERIES, openSubscriptions, refusal, type Side } from './subscriptions.fixture.ts'

const fixture = openSubscriptions()
const { SIDES, call, tenantSide, created, recordedOf } = fixture

describe('an invalid request is rejected', () => {
  test.each<[path: string, body: unknown]>([
    ['', []],
    ['', null],
    ['url', { events: ['*'] }],
    ['url', { url: '', events: ['*'] }],
    ['url', { url: null, events: ['*'] }],
    ['url', { url: ['https://hooks.example.com'], events: ['*'] }],
    ['events', { url: BODY.url }],
    ['events', { url: BODY.url, events: [] }],
    ['events', { url: BODY.url, events: '*' }],
    ['events.0', { url: BODY.url, events: ['order.paid\r\nx-evil: 1'] }],
    ['events.1', { url: BODY.url, events: ['*', 'Order'] }],
    ['events', { url: BODY.url, events: ['*', '*'] }],
    ['events', { url: BODY.url, events: Array.from({ length: 101 }, (_, n) => `e${n}`) }],
    ['description', { ...BODY, description: 7 }],
    ['description', { ...BODY, description: 'x'.repeat(501) }],
    ['enabled', { ...BODY, enabled: 'true' }],
    ['enabled', { ...BODY, enabled: null }],
    ['secret', { ...BODY, secret: 7 }],
    ['secret', { ...BODY, secret: null }],
    ['', { ...BODY, tenantId: 'another' }],
    ['', { ...BODY, webhookId: randomUUID() }],
    ['', { ...BODY, disabledReason: null }],
    ['', { ...BODY, secretSet: true }],
    ['', { ...BODY, previousSecret: 'x'.repeat(20) }],
    ['', { ...BODY, failingSince: null }],
    ['', { ...BODY, listeningUntil: null }],
    ['', { ...BODY, constructor: {} }],
    ['', `{"url":"${BODY.url}","events":["*"],"__proto__":{"enabled":false}}`],
  ])('to create a subscription, with an error at "%s": %j', async (where, body) => {
    const { path } = fixture.empty
    const response = await call('POST', path, { body })
    expect(response).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(response.json.errors.map((fault: { path: string }) => fault.path)).toContain(where)
    expect((await call('GET', path)).json.data).toEqual([])
  })

  test.each<[body: unknown]>([
    [[]],
    [null],
    [{ url: '' }],
    [{ url: null }],
    [{ events: [] }],
    [{ events: null }],
    [{ enabled: null }],
    [{ enabled: 0 }],
    [{ secret: 'a-secret-of-the-subscriber' }],
    [{ tenantId: 'another' }],
    [{ disabledReason: null }],
    ['{"__proto__":{"enabled":false}}'],
  ])('to change a subscription with %j', async (body) => {
    const side = await tenantSide()
    const { webhookId, secret: _, ...made } = await created(side)
    const response = await call('PUT', `${side.path}/${webhookId}`, { body })
    expect(response).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(response.text).not.toContain('a-secret-of-the-subscriber')
    expect((await call('GET', `${side.path}/${webhookId}`)).json).toEqual({ webhookId, ...made, health: NO_DELIVERIES })
    expect(recordedOf(webhookId)).toHaveLength(1)
  })

  test.each<[members: object]>([
    [{ description: 'a NUL\0' }],
    [{ description: 'half \ud83d of a character' }],
    [{ events: ['order.paid\0'] }],
    [{ secret: 'hunter2-hunter2-hunter2\0' }],
  ])('with text that the database cannot store: %j', async (members) => {
    const { owner, path } = fixture.empty
    expect(await call('POST', path, { body: { ...BODY, ...members } })).toMatchObject(refusal(400, 'E_INVALID_JSON'))
    await expect(fixture.tenancy.webhooks.create(owner, { ...BODY, ...members })).rejects.toThrow(
      inCode('E_INVALID_REQUEST'),
    )
    expect((await call('GET', path)).json.data).toEqual([])
  })

  test('in code with the same errors as over HTTP', async () => {
    const { owner } = fixture.empty
    const wrong = { ...BODY, events: ['Order'] }
    await expect(fixture.tenancy.webhooks.create(owner, wrong)).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    await expect(fixture.tenancy.webhooks.create('unknown', BODY)).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
    await expect(fixture.tenancy.webhooks.get(owner, randomUUID())).rejects.toThrow(inCode('E_WEBHOOK_NOT_FOUND'))
    await expect(fixture.tenancy.webhooks.test(owner, randomUUID(), 'Order')).rejects.toThrow(
      inCode('E_INVALID_REQUEST'),
    )
  })
})

describe('a URL', () => {
  let strict: WebhooksTenancy
  let strictly: Call
  let side: Side
  beforeAll(async () => {
    strict = await fixture.opened.open({ egress: {} })
    strictly = apiOf(strict)
    side = await tenantSide()
  })

  test.each([
    ['https://hooks.example.com', 'https://hooks.example.com/'],
    ['HTTPS://HOOKS.Example.COM:443/a#b', 'https://hooks.example.com/a'],
    ['https://hooks.example.com./a', 'https://hooks.example.com/a'],
    ['https://bücher.example/ä', 'https://xn--bcher-kva.example/%C3%A4'],
    ['https://[2606:4700:4700::1111]/', 'https://[2606:4700:4700::1111]/'],
  ])('%s is stored in its normalised form', async (url, kept) => {
    const { status, json } = await strictly('POST', side.path, { body: { ...BODY, url } })
    expect([status, json.url]).toEqual([201, kept])
  })

  const PRIVATE_NAME = 'its host is a name of a private network'
  test.each([
    ['http://hooks.example.com/', 'it does not begin with https://'],
    ['ftp://hooks.example.com/', 'it does not begin with https:// and a host'],
    ['javascript:alert(1)', 'it does not begin with https:// and a host'],
    ['//hooks.example.com/', 'it does not begin with https:// and a host'],
    ['https:/hooks.example.com/', 'it does not begin with https:// and a host'],
    ['listener:', 'it does not begin with https:// and a host'],
    ['https://', 'it does not begin with https:// and a host'],
    ['https://user:pass@hooks.example.com/', 'it has a user name in it'],
    ['https://hooks.example.com/\r\nx-evil: 1', 'it has a space, a control character or a backslash in it'],
    [' https://hooks.example.com/', 'it has a space, a control character or a backslash in it'],
    ['https:\\\\hooks.example.com/', 'it has a space, a control character or a backslash in it'],
    ['https://hooks.example.com:0/', 'nothing listens on port 0'],
    ['https://hooks.example.com:99999/', 'it is no URL'],
    ['https://localhost/', PRIVATE_NAME],
    ['https://localhost./', PRIVATE_NAME],
    ['https://metadata.google.internal/', PRIVATE_NAME],
    ['https://printer.local/', PRIVATE_NAME],
    ['https://intranet/', PRIVATE_NAME],
    [`https://hooks.example.com/${'a'.repeat(2_048)}`, 'it is longer than 2048 characters'],
  ])('%j is rejected: %s', async (url, reason) => {
    const response = await strictly('POST', side.path, { body: { ...BODY, url } })
    expect(response).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    expect(response.json.detail).toBe(`The URL is not allowed: ${reason}`)
    await expect(strict.webhooks.create(side.owner, { ...BODY, url })).rejects.toThrow(inCode('E_URL_NOT_ALLOWED'))
  })

  test.each([
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://0177.0.0.1/',
    'https://0x7f.1/',
    'https://10.0.0.1/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://0.0.0.0/',
    'https://224.0.0.1/',
    'https://[::1]/',
    'https://[::]/',
    'https://[fd00::1]/',
    'https://[fe80::1]/',
    'https://[::ffff:169.254.169.254]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://[2002:a9fe:a9fe::]/',
  ])('%s is rejected for its address', async (url) => {
    const response = await strictly('POST', side.path, { body: { ...BODY, url } })
    expect(response).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    expect(response.json.detail).toMatch(/^The URL is not allowed: its host is /)
  })

  test.each(SIDES)(
    'is checked when a subscription of %s changes, and rejected without a change',
    async (_who, side) => {
      const { owner, path } = await side()
      const { webhookId } = await created({ owner, path })
      const body = { url: 'https://10.0.0.1/', events: ['*'] }
      expect(await strictly('PUT', `${path}/${webhookId}`, { body })).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
      await expect(strict.webhooks.update(owner, webhookId, body)).rejects.toThrow(inCode('E_URL_NOT_ALLOWED'))
      expect((await call('GET', `${path}/${webhookId}`)).json).toMatchObject({ url: BODY.url, events: ['order.*'] })
      expect(await strictly('POST', path, { body })).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    },
  )

  test('of this machine is accepted with the development settings, other reserved addresses are not', async () => {
    for (const url of ['http://localhost:3000/', 'http://127.0.0.1/', 'http://[::1]/', 'https://intranet/']) {
      expect((await call('POST', side.path, { body: { ...BODY, url } })).status, url).toBe(201)
    }
    for (const url of [
      'http://169.254.169.254/',
      'http://[::ffff:169.254.169.254]/',
      'http://0.0.0.0/',
      'ftp://localhost/',
    ]) {
      expect(await call('POST', side.path, { body: { ...BODY, url } }), url).toMatchObject(
        refusal(422, 'E_URL_NOT_ALLOWED'),
      )
    }
  })
})

test('production rejects the development settings', async () => {
  vi.stubEnv('NODE_ENV', 'production')
  const rejected = (key: string) => `egress.${key}: for development only, rejected in production`
  await expect(fixture.opened.open({ egress: DEVELOPMENT })).rejects.toThrow(rejected('allowPrivateNetworks'))
  await expect(fixture.opened.open({ egress: { allowHttp: true } })).rejects.toThrow(rejected('allowHttp'))
  vi.unstubAllEnvs()
})

describe('without the webhooks satellite', () => {
  test('its paths return E_SATELLITE_DISABLED', async () => {
    const without = await fixture.opened.open({ satellites: [] as never })
    const off = apiOf(without, { switchedOff: [webhooks()] })
    const { path } = await tenantSide()
    for (const [method, at] of [
      ['GET', path],
      ['POST', path],
      ['GET', '/webhooks'],
      ['DELETE', `/webhooks/${randomUUID()}`],
      ['GET', '/webhook-events'],
      ['POST', path.replace('/webhooks', '/dispatch')],
    ] as const) {
      const body = method === 'POST' ? BODY : undefined
      expect(await off(method, at, { body }), `${method} ${at}`).toMatchObject(refusal(404, 'E_SATELLITE_DISABLED'))
    }
    const { paths } = (await off('GET', '/openapi.json')).json
    expect(Object.keys(paths).filter((path) => /webhook|dispatch/.test(path))).toEqual([])
  })
})
