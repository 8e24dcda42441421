/**
 * Subscriptions over HTTP and in code, a tenant's and the host's own: what is answered, recorded and refused, and that a secret
 * is answered once and stands nowhere else in words.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { createLogger } from '../../kernel/logger.ts'
import type { Satellite } from '../../satellite.ts'
import { satellitesOn } from '../../service/main.ts'
import type { Tenancy } from '../../tenancy.ts'
import { type Receiver, startReceiver } from '../../testing/receiver.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/tenancy.ts'
import { webhooks } from './index.ts'
import { verifyWebhook } from './verify.ts'
import {
  clockOfToday,
  DEVELOPMENT,
  openWebhooks,
  type WebhooksSatellites,
  type WebhooksTenancy,
} from './webhooks.fixture.ts'
import { activeTenant, apiOf, type Call, changesOf, createdTenant } from './webhooks-api.fixture.ts'

const DAY_MS = 86_400_000
const MADE_SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/
const BODY = { url: 'https://hooks.example.com/a?b=c', events: ['order.*'] }

const clock = clockOfToday()
let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let changes: ReturnType<typeof changesOf>
let call: Call
let receiver: Receiver
/** Has no subscription: every request for it is refused. */
let empty: Side

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
  tenancy = opened.tenancy
  changes = changesOf(tenancy)
  call = apiOf(tenancy)
  receiver = await startReceiver()
  empty = await activeSide()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})

interface Side {
  readonly owner: string | null
  /** Of its subscriptions. */
  readonly path: string
}

const sideOf = (owner: string): Side => ({ owner, path: `/tenants/${owner}/webhooks` })
const tenantSide = async () => sideOf(await createdTenant(tenancy))
const activeSide = async () => sideOf(await activeTenant(tenancy))
const hostSide = async (): Promise<Side> => ({ owner: null, path: '/webhooks' })
const SIDES = [
  ['a tenant', activeSide],
  ['the host', hostSide],
] as const

const created = async ({ path }: Side, body: object = BODY) => (await call('POST', path, { body })).json
/** By the operation's name. */
const actionAt = ({ owner }: Pick<Side, 'owner'>, what: string) =>
  `${owner === null ? 'hostWebhooks' : 'webhooks'}.${what}`
const recordedOf = (webhookId: string) =>
  changes
    .filter(({ target }) => target === `webhook:${webhookId}`)
    .map(({ action, tenantId, before, after }) => ({ action, tenantId, before, after }))
const refusal = (status: number, code: string) => ({ status, json: { code } })
const inCode = (code: string) => expect.objectContaining({ code })

describe.each(SIDES)('a subscription of %s', (_who, side) => {
  test('is made, with a secret that is answered this once', async () => {
    const { owner, path } = await side()
    const { status, headers, json } = await call('POST', path, { body: BODY })
    const { webhookId } = json
    const at = clock.now().toISOString()
    const shown = {
      webhookId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      tenantId: owner,
      url: BODY.url,
      events: ['order.*'],
      description: null,
      enabled: true,
      disabledReason: null,
      secretSet: true,
      createdAt: at,
      updatedAt: at,
    }
    expect(status).toBe(201)
    expect(headers.get('location')).toBe(`/admin/multitenancy${path}/${webhookId}`)
    expect(json).toEqual({ ...shown, secret: expect.stringMatching(MADE_SECRET) })
    expect((await call('GET', `${path}/${webhookId}`)).json).toEqual(shown)
    expect((await call('GET', path)).json.data[0]).toEqual(shown)
    expect(await tenancy.webhooks.get(owner, webhookId)).toEqual(shown)
    const after = { url: BODY.url, events: ['order.*'], description: null, enabled: true }
    expect(recordedOf(webhookId)).toEqual([
      { action: actionAt({ owner }, 'create'), tenantId: owner, before: null, after },
    ])
  })

  test('is made in code as over HTTP', async () => {
    const { owner, path } = await side()
    const wish = { ...BODY, description: 'Ünïcode ✓', enabled: false, secret: 'a-secret-of-the-subscriber' }
    const made = await tenancy.webhooks.create(owner, wish)
    const overHttp = await created({ owner, path }, wish)
    expect({ ...made, webhookId: '' }).toEqual({ ...overHttp, webhookId: '' })
    expect(made).toMatchObject({ description: 'Ünïcode ✓', enabled: false, secret: wish.secret })
  })

  test('is changed in part; what stays is not recorded', async () => {
    const { owner, path } = await side()
    const { webhookId, secret: _, ...made } = await created({ owner, path })
    clock.advance(1_000)
    const one = `${path}/${webhookId}`
    const changed = await call('PUT', one, { body: { events: ['*'], enabled: true, url: BODY.url } })
    const updatedAt = clock.now().toISOString()
    expect(changed).toMatchObject({ status: 200, json: { ...made, webhookId, events: ['*'], updatedAt } })
    clock.advance(1_000)
    expect((await call('PUT', one, { body: { events: ['*'] } })).json).toEqual(changed.json)
    expect((await call('PUT', one, { body: {} })).json).toEqual(changed.json)
    expect(await tenancy.webhooks.update(owner, webhookId, {})).toEqual(changed.json)
    const { json } = await call('PUT', one, {
      body: { description: 'of billing', url: 'https://b.example/', enabled: false },
    })
    expect(json).toMatchObject({ description: 'of billing', url: 'https://b.example/', enabled: false, events: ['*'] })
    expect((await call('PUT', one, { body: { description: null } })).json.description).toBeNull()
    expect(recordedOf(webhookId).slice(1)).toEqual(
      [
        { before: { events: ['order.*'] }, after: { events: ['*'] } },
        {
          before: { url: BODY.url, description: null, enabled: true },
          after: { url: 'https://b.example/', description: 'of billing', enabled: false },
        },
        { before: { description: 'of billing' }, after: { description: null } },
      ].map((images) => ({ action: actionAt({ owner }, 'update'), tenantId: owner, ...images })),
    )
  })

  test('is deleted, and is not there any more in any way', async () => {
    const { owner, path } = await side()
    const { webhookId } = await created({ owner, path })
    const one = `${path}/${webhookId}`
    const gone = await call('DELETE', one)
    expect([gone.status, gone.text]).toEqual([204, ''])
    for (const [method, rest, body] of EVERYTHING_OF_ONE) {
      expect(await call(method, one + rest, { body }), `${method} ${rest}`).toMatchObject(
        refusal(404, 'E_WEBHOOK_NOT_FOUND'),
      )
    }
    expect((await call('GET', path)).text).not.toContain(webhookId)
    const before = { url: BODY.url, events: ['order.*'], description: null, enabled: true }
    expect(recordedOf(webhookId).slice(1)).toEqual([
      { action: actionAt({ owner }, 'delete'), tenantId: owner, before, after: null },
    ])
    const { rows } = await tenancy.kernel.database.sql(
      'select secret, previous_secret from multitenancy.webhook_subscriptions where id = $1',
      [webhookId],
    )
    expect(rows).toEqual([{ secret: '', previous_secret: null }])
  })

  test('is listed in pages, the newest first', async () => {
    const { owner, path } = await side()
    const made: string[] = []
    for (let n = 0; n < 5; n++) {
      clock.advance(1)
      made.unshift((await created({ owner, path }, { ...BODY, description: `${n}` })).webhookId)
    }
    const seen: string[] = []
    let cursor = ''
    while (seen.length < 5) {
      const { json } = await call('GET', `${path}?limit=2${cursor}`)
      expect(json.data.length).toBeLessThanOrEqual(2)
      seen.push(...json.data.map(({ webhookId }: { webhookId: string }) => webhookId))
      cursor = `&cursor=${json.nextCursor}`
    }
    expect(seen.slice(0, 5)).toEqual(made)
    const { data, nextCursor } = await tenancy.webhooks.list(owner, { limit: 3 })
    expect(data.map(({ webhookId }) => webhookId)).toEqual(made.slice(0, 3))
    const other = await tenantSide()
    expect(await call('GET', `${other.path}?cursor=${nextCursor}`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await call('GET', `${path}?limit=0`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await call('GET', `${path}?enabled=true`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
  })

  test('is made once for one Idempotency-Key, and the repeat answers the same secret', async () => {
    const { owner, path } = await side()
    const description = randomUUID()
    const sent = { body: { ...BODY, description }, headers: { 'idempotency-key': description } }
    const first = await call('POST', path, sent)
    const again = await call('POST', path, sent)
    expect(first.status).toBe(201)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect([again.status, again.text]).toEqual([201, first.text])
    const { data } = await tenancy.webhooks.list(owner, { limit: 200 })
    expect(data.filter((one) => one.description === description)).toHaveLength(1)
    const other = { ...sent, body: { ...sent.body, events: ['*'] } }
    expect(await call('POST', path, other)).toMatchObject(refusal(409, 'E_IDEMPOTENCY_MISMATCH'))
  })

  test('is made once by twenty requests with one Idempotency-Key at once', async () => {
    const { owner, path } = await side()
    const description = randomUUID()
    const sent = { body: { ...BODY, description }, headers: { 'idempotency-key': description } }
    const answers = await Promise.all(Array.from({ length: 20 }, () => call('POST', path, sent)))
    const codes = new Set(answers.map(({ status, json }) => json.code ?? status))
    codes.delete('E_IDEMPOTENCY_IN_PROGRESS')
    expect([...codes]).toEqual([201])
    expect(new Set(answers.map(({ json }) => json.secret).filter(Boolean)).size).toBe(1)
    const { data } = await tenancy.webhooks.list(owner, { limit: 200 })
    expect(data.filter((one) => one.description === description)).toHaveLength(1)
  })

  test('is for a token of the whole API; one that reads reads, one of a server does neither', async () => {
    const { path } = await side()
    const { webhookId } = (await call('POST', path, { body: BODY })).json
    const one = `${path}/${webhookId}`
    const forbidden = refusal(403, 'E_FORBIDDEN')
    for (const [method, rest, body] of EVERYTHING_OF_ONE) {
      const answer = await call(method, one + rest, { body, who: 'read' })
      if (method !== 'GET') expect(answer, `${method} ${rest}`).toMatchObject(forbidden)
      else if (rest === '' || rest === '/deliveries') expect(answer.status).toBe(200)
      expect(await call(method, one + rest, { body, who: 'runtime' }), `${method} ${rest}`).toMatchObject(forbidden)
    }
    expect((await call('GET', path, { who: 'read' })).text).toContain(webhookId)
    expect(await call('GET', path, { who: 'runtime' })).toMatchObject(forbidden)
    for (const who of ['read', 'runtime'] as const)
      expect(await call('POST', path, { body: BODY, who })).toMatchObject(forbidden)
    expect((await call('GET', one)).status).toBe(200)
  })
})

/** Of one subscription, below its path: every operation there is, with a body that fits. */
const EVERYTHING_OF_ONE = [
  ['GET', '', undefined],
  ['PUT', '', { enabled: true }],
  ['POST', '/rotate-secret', undefined],
  ['POST', '/test', undefined],
  ['POST', '/replay-failed', { dryRun: true }],
  ['POST', '/replay-failed', undefined],
  ['GET', '/deliveries', undefined],
  ['GET', '/deliveries/00000000-0000-7000-8000-000000000000', undefined],
  ['POST', '/deliveries/00000000-0000-7000-8000-000000000000/replay', undefined],
  ['DELETE', '', undefined],
] as const

describe("another's subscription", () => {
  test('is not found: of another tenant, of the host by way of a tenant, of a tenant by way of the host', async () => {
    const [one, other, host] = [await tenantSide(), await tenantSide(), await hostSide()]
    for (const [whose, asking] of [
      [one, other],
      [host, other],
      [one, host],
    ] as const) {
      const { webhookId } = await created(whose)
      for (const [method, rest, body] of EVERYTHING_OF_ONE) {
        const answer = await call(method, `${asking.path}/${webhookId}${rest}`, { body })
        expect(answer, `${method} ${asking.path} ${rest}`).toMatchObject(refusal(404, 'E_WEBHOOK_NOT_FOUND'))
      }
      expect((await call('GET', asking.path)).text).not.toContain(webhookId)
      expect((await call('GET', `${whose.path}/${webhookId}`)).json).toMatchObject({
        enabled: true,
        tenantId: whose.owner,
      })
      expect(recordedOf(webhookId)).toHaveLength(1)
    }
  })

  test('has deliveries that are not found, not even under a subscription of who asks', async () => {
    const [one, other] = [await tenantSide(), await tenantSide()]
    const [{ webhookId }, mine] = [await created(one), await created(other)]
    const { id: deliveryId } = await tenancy.webhooks.test(one.owner, webhookId)
    const path = `${other.path}/${mine.webhookId}/deliveries/${deliveryId}`
    expect(await call('GET', path)).toMatchObject(refusal(404, 'E_DELIVERY_NOT_FOUND'))
    expect(await call('POST', `${path}/replay`)).toMatchObject(refusal(404, 'E_DELIVERY_NOT_FOUND'))
    expect((await call('GET', `${one.path}/${webhookId}/deliveries/${deliveryId}`)).status).toBe(200)
  })

  test.each(SIDES)('of an id that nobody has, and of none, is not found at %s', async (_who, side) => {
    const { path } = await side()
    expect(await call('GET', `${path}/${randomUUID()}`)).toMatchObject(refusal(404, 'E_WEBHOOK_NOT_FOUND'))
    for (const id of ['nonsense', '1', "'--", 'a'.repeat(2_000), encodeURIComponent('ä/ö')]) {
      expect(await call('GET', `${path}/${id}`), id).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    }
  })
})

describe('the tenant of a subscription', () => {
  test('that never was has none', async () => {
    const path = '/tenants/nobody/webhooks'
    const refused = refusal(404, 'E_TENANT_NOT_FOUND')
    expect(await call('GET', path)).toMatchObject(refused)
    expect(await call('POST', path, { body: BODY })).toMatchObject(refused)
    for (const [method, rest, body] of EVERYTHING_OF_ONE) {
      expect(await call(method, `${path}/${randomUUID()}${rest}`, { body }), `${method} ${rest}`).toMatchObject(refused)
    }
    expect(await call('POST', '/tenants/nobody/dispatch', { body: { event: 'a', payload: {} } })).toMatchObject(refused)
  })

  test('may be suspended, in maintenance, or not installed yet', async () => {
    const [suspended, maintained] = [await activeSide(), await activeSide()]
    await tenancy.tenants.suspend(suspended.owner ?? '')
    await tenancy.tenants.enterMaintenance(maintained.owner ?? '', {})
    await tenancy.tenants.create({ id: 'provisioning', name: 'Acme' })
    for (const side of [suspended, maintained, { owner: 'provisioning', path: '/tenants/provisioning/webhooks' }]) {
      const { webhookId } = await created(side)
      const one = `${side.path}/${webhookId}`
      expect((await call('PUT', one, { body: { events: ['*'] } })).status).toBe(200)
      expect((await call('POST', `${one}/rotate-secret`)).status).toBe(200)
      expect((await call('DELETE', one)).status).toBe(204)
    }
  })

  test('that is deleted shows what it has and changes nothing, until it is back', async () => {
    const side = await activeSide()
    const { webhookId, secret: _, ...made } = await created(side)
    const one = `${side.path}/${webhookId}`
    await tenancy.tenants.delete(side.owner ?? '')
    expect((await call('GET', one)).json).toEqual({ webhookId, ...made })
    expect((await call('GET', side.path)).json.data).toHaveLength(1)
    expect((await call('GET', `${one}/deliveries`)).status).toBe(200)
    const refused = { status: 409, json: { code: 'E_TENANT_STATE', from: 'deleted' } }
    expect(await call('POST', side.path, { body: BODY })).toMatchObject(refused)
    expect(await call('PUT', one, { body: { enabled: false } })).toMatchObject(refused)
    expect(await call('POST', `${one}/rotate-secret`)).toMatchObject(refused)
    expect(await call('DELETE', one)).toMatchObject(refused)
    await tenancy.tenants.restore(side.owner ?? '')
    expect((await call('PUT', one, { body: { enabled: false } })).status).toBe(200)
  })
})

describe('a test event', () => {
  test.each(SIDES)('of %s goes to that subscription alone, whatever it names', async (_who, side) => {
    const { owner, path } = await side()
    const url = `${receiver.url}/test-${owner ?? 'host'}`
    const { webhookId, secret } = await created({ owner, path }, { url, events: ['nothing.of_this'] })
    await created({ owner, path }, { url: `${url}-other`, events: ['nothing.of_this'] })
    const { status, headers, json } = await call('POST', `${path}/${webhookId}/test`, { body: { event: 'order.paid' } })
    expect(status).toBe(202)
    expect(headers.get('location')).toBe(`/admin/multitenancy${path}/${webhookId}/deliveries/${json.id}`)
    expect(json).toMatchObject({ webhookId, tenantId: owner, event: 'order.paid', state: 'pending', attemptCount: 0 })
    const byItself = await tenancy.webhooks.test(owner, webhookId)
    await tenancy.webhooks.retry()
    const received = receiver.received.filter((one) => one.path.startsWith(new URL(url).pathname))
    expect(received.map((one) => one.path)).toEqual([new URL(url).pathname, new URL(url).pathname])
    const verified = received.map(({ body, headers }) => verifyWebhook(body, headers, secret, { now: clock.now() }))
    expect(new Map(verified.map(({ id, event, payload }) => [id, { event, payload }]))).toEqual(
      new Map(
        [[json.id, 'order.paid'] as const, [byItself.id, 'webhook.test'] as const].map(([id, event]) => [
          id,
          { event, payload: { test: true, event, tenantId: owner, occurredAt: clock.now().toISOString() } },
        ]),
      ),
    )
    expect(recordedOf(webhookId).filter(({ action }) => action === actionAt({ owner }, 'test'))).toMatchObject([
      { tenantId: owner, after: { event: 'order.paid', deliveryId: json.id } },
      { tenantId: owner, after: { event: 'webhook.test', deliveryId: byItself.id } },
    ])
  })

  test.each(SIDES)('of %s is refused while the subscription is disabled', async (_who, side) => {
    const { owner, path } = await side()
    const { webhookId } = await created({ owner, path }, { ...BODY, enabled: false })
    expect(await call('POST', `${path}/${webhookId}/test`)).toMatchObject(refusal(409, 'E_WEBHOOK_DISABLED'))
    expect((await call('GET', `${path}/${webhookId}/deliveries`)).json.data).toEqual([])
  })
})

describe('a secret', () => {
  const STANDARD = `whsec_${Buffer.alloc(24, 3).toString('base64')}`

  test.each(['sixteen-letters!', 'x'.repeat(256), 'with"quotes\'and<angles>', STANDARD])(
    'may be %s',
    async (secret) => {
      const { owner } = await tenantSide()
      expect((await tenancy.webhooks.create(owner, { ...BODY, secret })).secret).toBe(secret)
    },
  )

  test.each([
    'hunter2-hunter2',
    'hunter2-hunter2 hunter2',
    'hunter2-hunter2\r\nx-evil: 1',
    'hunter2-hunter2-hüntêr',
    `hunter2${'x'.repeat(250)}`,
    'whsec_hunter2-hunter2',
    `whsec_${Buffer.alloc(23, 3).toString('base64')}hunter2`,
    `whsec_${Buffer.alloc(65, 3).toString('base64')}hunter2`,
  ])('may not be %j, and the refusal does not hold it', async (secret) => {
    const { owner, path } = empty
    const answer = await call('POST', path, { body: { ...BODY, secret } })
    expect(answer).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(answer.json.errors).toEqual([{ path: 'secret', message: expect.any(String) }])
    expect(answer.text).not.toContain('hunter2')
    await expect(tenancy.webhooks.create(owner, { ...BODY, secret })).rejects.toSatisfy(
      (error: Error) => !`${error.message}${error.stack}${JSON.stringify(error)}`.includes('hunter2'),
    )
    expect((await call('GET', path)).json.data).toEqual([])
  })

  const rotated = async ({ path }: Side, webhookId: string, body?: object) =>
    (await call('POST', `${path}/${webhookId}/rotate-secret`, { body })).json
  /** Which of these secrets the next delivery is signed with. */
  async function signedBy({ owner }: Side, webhookId: string, secrets: readonly string[]) {
    await tenancy.webhooks.test(owner, webhookId)
    await tenancy.webhooks.retry()
    const { body, headers } = receiver.received.at(-1) ?? expect.fail('nothing was received')
    return secrets.filter((secret) => {
      try {
        return verifyWebhook(body, headers, secret, { now: clock.now() })
      } catch {
        return false
      }
    })
  }

  test.each(SIDES)('of %s is exchanged, and the one before signs too until its grace is over', async (_who, side) => {
    const where = await side()
    const { webhookId, secret: first } = await created(where, { url: `${receiver.url}/rotation`, events: ['a.b'] })
    expect(await signedBy(where, webhookId, [first])).toEqual([first])
    const answer = await call('POST', `${where.path}/${webhookId}/rotate-secret`, { body: { graceSeconds: 60 } })
    expect(answer).toMatchObject({ status: 200, json: { webhookId, tenantId: where.owner, secretSet: true } })
    const { secret: second } = answer.json
    expect(second).toMatch(MADE_SECRET)
    expect(second).not.toBe(first)
    expect(await signedBy(where, webhookId, [first, second])).toEqual([first, second])
    clock.advance(59_999)
    expect(await signedBy(where, webhookId, [first, second])).toEqual([first, second])
    clock.advance(1)
    expect(await signedBy(where, webhookId, [first, second])).toEqual([second])
    expect(recordedOf(webhookId).filter(({ action }) => action === actionAt(where, 'rotateSecret'))).toEqual([
      { action: actionAt(where, 'rotateSecret'), tenantId: where.owner, before: null, after: { graceSeconds: 60 } },
    ])
  })

  test('is exchanged with a day of grace unless another time is given, or none', async () => {
    const side = await tenantSide()
    const { webhookId, secret: first } = await created(side, { url: `${receiver.url}/rotation`, events: ['a.b'] })
    const { secret: second } = await rotated(side, webhookId)
    clock.advance(DAY_MS - 1)
    expect(await signedBy(side, webhookId, [first, second])).toEqual([first, second])
    const { secret: third } = await rotated(side, webhookId, { graceSeconds: 30 })
    expect(await signedBy(side, webhookId, [first, second, third])).toEqual([second, third])
    const { secret: fourth } = await rotated(side, webhookId, { graceSeconds: 0 })
    expect(await signedBy(side, webhookId, [first, second, third, fourth])).toEqual([fourth])
    expect((await tenancy.webhooks.rotateSecret(side.owner, webhookId)).secret).toMatch(MADE_SECRET)
  })

  test.each([
    { graceSeconds: -1 },
    { graceSeconds: 0.5 },
    { graceSeconds: 30 * 86_400 + 1 },
    { graceSeconds: '60' },
    { secret: 'x'.repeat(20) },
    [],
  ])('is not exchanged by %j', async (body) => {
    const side = await tenantSide()
    const { webhookId, secret } = await created(side, { url: `${receiver.url}/rotation`, events: ['a.b'] })
    const refused = await call('POST', `${side.path}/${webhookId}/rotate-secret`, { body })
    expect(refused).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await signedBy(side, webhookId, [secret])).toEqual([secret])
  })
})

describe('a request is refused', () => {
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
  ])('to make one, with a fault at "%s": %j', async (where, body) => {
    const { path } = empty
    const answer = await call('POST', path, { body })
    expect(answer).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(answer.json.errors.map((fault: { path: string }) => fault.path)).toContain(where)
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
  ])('to change one with %j', async (body) => {
    const side = await tenantSide()
    const { webhookId, secret: _, ...made } = await created(side)
    const answer = await call('PUT', `${side.path}/${webhookId}`, { body })
    expect(answer).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(answer.text).not.toContain('a-secret-of-the-subscriber')
    expect((await call('GET', `${side.path}/${webhookId}`)).json).toEqual({ webhookId, ...made })
    expect(recordedOf(webhookId)).toHaveLength(1)
  })

  test.each<[members: object]>([
    [{ description: 'a NUL\0' }],
    [{ description: 'half \ud83d of a character' }],
    [{ events: ['order.paid\0'] }],
    [{ secret: 'hunter2-hunter2-hunter2\0' }],
  ])('for what no text of the database can be: %j', async (members) => {
    const { owner, path } = empty
    expect(await call('POST', path, { body: { ...BODY, ...members } })).toMatchObject(refusal(400, 'E_INVALID_JSON'))
    await expect(tenancy.webhooks.create(owner, { ...BODY, ...members })).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    expect((await call('GET', path)).json.data).toEqual([])
  })

  test('in code as over HTTP', async () => {
    const { owner } = empty
    const wrong = { ...BODY, events: ['Order'] }
    await expect(tenancy.webhooks.create(owner, wrong)).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    await expect(tenancy.webhooks.create('nobody', BODY)).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
    await expect(tenancy.webhooks.get(owner, randomUUID())).rejects.toThrow(inCode('E_WEBHOOK_NOT_FOUND'))
    await expect(tenancy.webhooks.test(owner, randomUUID(), 'Order')).rejects.toThrow(inCode('E_INVALID_REQUEST'))
  })
})

describe('a URL', () => {
  let strict: WebhooksTenancy
  let strictly: Call
  let side: Side
  beforeAll(async () => {
    strict = await opened.open({ egress: {} })
    strictly = apiOf(strict)
    side = await tenantSide()
  })

  test.each([
    ['https://hooks.example.com', 'https://hooks.example.com/'],
    ['HTTPS://HOOKS.Example.COM:443/a#b', 'https://hooks.example.com/a'],
    ['https://hooks.example.com./a', 'https://hooks.example.com/a'],
    ['https://bücher.example/ä', 'https://xn--bcher-kva.example/%C3%A4'],
    ['https://[2606:4700:4700::1111]/', 'https://[2606:4700:4700::1111]/'],
  ])('%s is kept as it is called', async (url, kept) => {
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
  ])('%j is refused: %s', async (url, reason) => {
    const answer = await strictly('POST', side.path, { body: { ...BODY, url } })
    expect(answer).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    expect(answer.json.detail).toBe(`The URL is not allowed: ${reason}`)
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
  ])('%s is refused for its address', async (url) => {
    const answer = await strictly('POST', side.path, { body: { ...BODY, url } })
    expect(answer).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    expect(answer.json.detail).toMatch(/^The URL is not allowed: its host is /)
  })

  test.each(SIDES)('is judged anew when that of %s is changed, and nothing is changed then', async (_who, side) => {
    const { owner, path } = await side()
    const { webhookId } = await created({ owner, path })
    const body = { url: 'https://10.0.0.1/', events: ['*'] }
    expect(await strictly('PUT', `${path}/${webhookId}`, { body })).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
    await expect(strict.webhooks.update(owner, webhookId, body)).rejects.toThrow(inCode('E_URL_NOT_ALLOWED'))
    expect((await call('GET', `${path}/${webhookId}`)).json).toMatchObject({ url: BODY.url, events: ['order.*'] })
    expect(await strictly('POST', path, { body })).toMatchObject(refusal(422, 'E_URL_NOT_ALLOWED'))
  })

  test('of this machine is fine where development allows it, and no address beyond', async () => {
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

test('what development allows is refused in production', async () => {
  vi.stubEnv('NODE_ENV', 'production')
  const refused = (key: string) => `egress.${key}: for development only, refused in production`
  await expect(opened.open({ egress: DEVELOPMENT })).rejects.toThrow(refused('allowPrivateNetworks'))
  await expect(opened.open({ egress: { allowHttp: true } })).rejects.toThrow(refused('allowHttp'))
  vi.unstubAllEnvs()
})

describe('while webhooks are switched off', () => {
  test('their paths say so', async () => {
    const without = await opened.open({ satellites: [] as never })
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

describe('with every satellite, every line of the log and every row of the database', () => {
  const OWN_SECRET = 'hunter2-hunter2-hunter2'
  let whole: TestTenancy<readonly Satellite[]>
  let core: Tenancy & { readonly webhooks: WebhooksTenancy['webhooks'] }
  const lines: string[] = []
  beforeAll(async () => {
    whole = await testTenancy<readonly Satellite[]>(inject('postgresUrl'), {
      satellites: satellitesOn({ satellites: {} }),
      egress: DEVELOPMENT,
      logger: createLogger({ level: 'trace', write: (line) => void lines.push(line) }),
    })
    core = whole.tenancy as typeof core
  })
  afterAll(() => whole?.end())

  test('no secret stands in any of it', async () => {
    const send = apiOf(core)
    const silent = await startReceiver(() => ({ status: 500, body: 'no' }))
    await core.tenants.create({ id: 'acme', name: 'Acme' })
    const secrets: string[] = [OWN_SECRET]
    for (const path of ['/tenants/acme/webhooks', '/webhooks']) {
      const headers = { 'idempotency-key': 'one' }
      const body = { url: `${silent.url}/`, events: ['*'], secret: OWN_SECRET }
      const { webhookId } = (await send('POST', path, { body, headers })).json
      const one = `${path}/${webhookId}`
      const rotated = (await send('POST', `${one}/rotate-secret`, { headers })).json
      const made = (await send('POST', path, { body: { ...body, secret: undefined }, headers: {} })).json
      secrets.push(rotated.secret, made.secret)
      await send('PUT', one, { body: { secret: OWN_SECRET } })
      await send('PUT', one, { body: { description: 'changed' } })
      await send('POST', path, { body: { ...body, secret: `${OWN_SECRET}\n` } })
      await send('POST', path, { body: `{"secret":"${OWN_SECRET}"` })
      const tested = await send('POST', `${one}/test`, { headers: { prefer: 'wait=10' } })
      expect(tested.json).toMatchObject({ state: 'retry_scheduled', lastStatus: 500 })
      const detail = await send('GET', `${one}/deliveries/${tested.json.id}`)
      expect(detail.json.attempts[0].requestHeaders['webhook-signature']).toMatch(/^v1,.+ v1,.+$/)
      for (const secret of secrets) expect(detail.text).not.toContain(secret)
      // As after the loss of the application key.
      await core.kernel.database.sql('update multitenancy.webhook_subscriptions set secret = $1 where id = $2', [
        core.kernel.secrets.seal(OWN_SECRET, 'something else'),
        webhookId,
      ])
      await send('POST', `${one}/test`)
      await eventually(() => expect(lines.filter((line) => isUnopened(line, webhookId))).toHaveLength(1))
      expect((await send('DELETE', one)).status).toBe(204)
    }
    await core.webhooks.retry()
    await silent.close()

    const kept = await everyRow(core)
    expect(kept).toContain('webhooks.rotateSecret')
    expect(kept).toContain('webhook.test')
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(20)
      for (const spelling of spellingsOf(secret)) {
        expect(lines.filter((line) => line.includes(spelling))).toEqual([])
        expect(kept.includes(spelling)).toBe(false)
      }
    }
  })

  const isUnopened = (line: string, webhookId: string) =>
    line.includes('the secret of a subscription cannot be opened') && line.includes(webhookId)
  const spellingsOf = (secret: string) => [
    secret,
    secret.replace('whsec_', ''),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret.replace('whsec_', ''), 'base64').toString('hex'),
  ]
})

async function everyRow({ kernel: { database } }: Tenancy): Promise<string> {
  const { rows: tables } = await database.sql(
    `select format('%I.%I', relnamespace::regnamespace, relname) as name from pg_class
     where relkind = 'r' and relnamespace in ('multitenancy'::regnamespace, 'multitenancy_jobs'::regnamespace)`,
  )
  const texts: string[] = []
  for (const { name } of tables) {
    const { rows } = await database.sql(`select string_agg(t::text, E'\\n') as text from ${name} t`)
    texts.push(rows[0].text ?? '')
  }
  return texts.join('\n')
}
