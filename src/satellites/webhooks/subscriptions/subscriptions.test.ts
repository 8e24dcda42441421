/** Subscriptions over HTTP and in code, of a tenant and of the host: responses, recorded changes and access. */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { actionAt, BODY, MADE_SECRET, NO_DELIVERIES, openSubscriptions, refusal } from './subscriptions.fixture.ts'

const fixture = openSubscriptions()
const { SIDES, clock, call, tenantSide, activeSide, hostSide, created, recordedOf } = fixture

describe.each(SIDES)('a subscription of %s', (_who, side) => {
  test('is created with a secret that only this response contains', async () => {
    const { owner, path } = await side()
    clock.advance(1_000) // the newest in the list of the host
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
      envelope: false,
      disabledReason: null,
      secretSet: true,
      createdAt: at,
      updatedAt: at,
    }
    expect(status).toBe(201)
    expect(headers.get('location')).toBe(`/admin/multitenancy${path}/${webhookId}`)
    expect(json).toEqual({ ...shown, secret: expect.stringMatching(MADE_SECRET) })
    const withHealth = { ...shown, health: NO_DELIVERIES }
    expect((await call('GET', `${path}/${webhookId}`)).json).toEqual(withHealth)
    expect((await call('GET', path)).json.data[0]).toEqual(withHealth)
    expect(await fixture.tenancy.webhooks.get(owner, webhookId)).toEqual(withHealth)
    const after = { url: BODY.url, events: ['order.*'], description: null, enabled: true, envelope: false }
    expect(recordedOf(webhookId)).toEqual([
      { action: actionAt({ owner }, 'create'), tenantId: owner, before: null, after },
    ])
  })

  test('is created in code as over HTTP', async () => {
    const { owner, path } = await side()
    const request = { ...BODY, description: 'Ünïcode ✓', enabled: false, secret: 'a-secret-of-the-subscriber' }
    const made = await fixture.tenancy.webhooks.create(owner, request)
    const overHttp = await created({ owner, path }, request)
    expect({ ...made, webhookId: '' }).toEqual({ ...overHttp, webhookId: '' })
    expect(made).toMatchObject({ description: 'Ünïcode ✓', enabled: false, secret: request.secret })
  })

  test('is changed in part, and only changed members are recorded', async () => {
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
    expect(await fixture.tenancy.webhooks.update(owner, webhookId, {})).toEqual(changed.json)
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

  test('is deleted and no longer found', async () => {
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
    const before = { url: BODY.url, events: ['order.*'], description: null, enabled: true, envelope: false }
    expect(recordedOf(webhookId).slice(1)).toEqual([
      { action: actionAt({ owner }, 'delete'), tenantId: owner, before, after: null },
    ])
    const { rows } = await fixture.tenancy.kernel.database.sql(
      'select secret, previous_secret from multitenancy.webhook_subscriptions where id = $1',
      [webhookId],
    )
    expect(rows).toEqual([{ secret: '', previous_secret: null }])
  })

  test('is listed in pages, newest first', async () => {
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
    const { data, nextCursor } = await fixture.tenancy.webhooks.list(owner, { limit: 3 })
    expect(data.map(({ webhookId }) => webhookId)).toEqual(made.slice(0, 3))
    const other = await tenantSide()
    expect(await call('GET', `${other.path}?cursor=${nextCursor}`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await call('GET', `${path}?limit=0`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    expect(await call('GET', `${path}?enabled=true`)).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
  })

  test('is created once for one Idempotency-Key, and the repeated response has no secret', async () => {
    const { owner, path } = await side()
    const description = randomUUID()
    const sent = { body: { ...BODY, description }, headers: { 'idempotency-key': description } }
    const first = await call('POST', path, sent)
    const again = await call('POST', path, sent)
    expect(first.status).toBe(201)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    const { secret, ...shown } = first.json
    expect(secret).toMatch(MADE_SECRET)
    expect(again).toMatchObject({ status: 201, json: shown })
    expect(again.json).not.toHaveProperty('secret')
    const { data } = await fixture.tenancy.webhooks.list(owner, { limit: 200 })
    expect(data.filter((one) => one.description === description)).toHaveLength(1)
    const other = { ...sent, body: { ...sent.body, events: ['*'] } }
    expect(await call('POST', path, other)).toMatchObject(refusal(409, 'E_IDEMPOTENCY_MISMATCH'))
  })

  test('is created once by twenty concurrent requests with one Idempotency-Key', async () => {
    const { owner, path } = await side()
    const description = randomUUID()
    const sent = { body: { ...BODY, description }, headers: { 'idempotency-key': description } }
    const responses = await Promise.all(Array.from({ length: 20 }, () => call('POST', path, sent)))
    const codes = new Set(responses.map(({ status, json }) => json.code ?? status))
    codes.delete('E_IDEMPOTENCY_IN_PROGRESS')
    expect([...codes]).toEqual([201])
    expect(new Set(responses.map(({ json }) => json.secret).filter(Boolean)).size).toBe(1)
    const { data } = await fixture.tenancy.webhooks.list(owner, { limit: 200 })
    expect(data.filter((one) => one.description === description)).toHaveLength(1)
  })

  test('requires an API token: a reading token reads, a token of a server has no access', async () => {
    const { path } = await side()
    const { webhookId } = (await call('POST', path, { body: BODY })).json
    const one = `${path}/${webhookId}`
    const forbidden = refusal(403, 'E_FORBIDDEN')
    for (const [method, rest, body] of EVERYTHING_OF_ONE) {
      const response = await call(method, one + rest, { body, who: 'read' })
      if (method !== 'GET') expect(response, `${method} ${rest}`).toMatchObject(forbidden)
      else if (rest === '' || rest === '/deliveries') expect(response.status).toBe(200)
      expect(await call(method, one + rest, { body, who: 'runtime' }), `${method} ${rest}`).toMatchObject(forbidden)
    }
    expect((await call('GET', path, { who: 'read' })).text).toContain(webhookId)
    expect(await call('GET', path, { who: 'runtime' })).toMatchObject(forbidden)
    for (const who of ['read', 'runtime'] as const)
      expect(await call('POST', path, { body: BODY, who })).toMatchObject(forbidden)
    expect((await call('GET', one)).status).toBe(200)
  })
})

/** All operations on a subscription with valid bodies, by their relative paths. */
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

describe('a subscription of another owner', () => {
  test('is not found through another tenant or through the host', async () => {
    const [one, other, host] = [await tenantSide(), await tenantSide(), await hostSide()]
    for (const [whose, asking] of [
      [one, other],
      [host, other],
      [one, host],
    ] as const) {
      const { webhookId } = await created(whose)
      for (const [method, rest, body] of EVERYTHING_OF_ONE) {
        const response = await call(method, `${asking.path}/${webhookId}${rest}`, { body })
        expect(response, `${method} ${asking.path} ${rest}`).toMatchObject(refusal(404, 'E_WEBHOOK_NOT_FOUND'))
      }
      expect((await call('GET', asking.path)).text).not.toContain(webhookId)
      expect((await call('GET', `${whose.path}/${webhookId}`)).json).toMatchObject({
        enabled: true,
        envelope: false,
        tenantId: whose.owner,
      })
      expect(recordedOf(webhookId)).toHaveLength(1)
    }
  })

  test('has deliveries that are not found under another subscription', async () => {
    const [one, other] = [await tenantSide(), await tenantSide()]
    const [{ webhookId }, mine] = [await created(one), await created(other)]
    const { id: deliveryId } = await fixture.tenancy.webhooks.test(one.owner, webhookId)
    const path = `${other.path}/${mine.webhookId}/deliveries/${deliveryId}`
    expect(await call('GET', path)).toMatchObject(refusal(404, 'E_DELIVERY_NOT_FOUND'))
    expect(await call('POST', `${path}/replay`)).toMatchObject(refusal(404, 'E_DELIVERY_NOT_FOUND'))
    expect((await call('GET', `${one.path}/${webhookId}/deliveries/${deliveryId}`)).status).toBe(200)
  })

  test.each(SIDES)('with an unknown or invalid id is not found at %s', async (_who, side) => {
    const { path } = await side()
    expect(await call('GET', `${path}/${randomUUID()}`)).toMatchObject(refusal(404, 'E_WEBHOOK_NOT_FOUND'))
    for (const id of ['nonsense', '1', "'--", 'a'.repeat(2_000), encodeURIComponent('ä/ö')]) {
      expect(await call('GET', `${path}/${id}`), id).toMatchObject(refusal(400, 'E_INVALID_REQUEST'))
    }
  })
})

describe('the tenant of a subscription', () => {
  test('is not found if it does not exist', async () => {
    const path = '/tenants/unknown/webhooks'
    const rejected = refusal(404, 'E_TENANT_NOT_FOUND')
    expect(await call('GET', path)).toMatchObject(rejected)
    expect(await call('POST', path, { body: BODY })).toMatchObject(rejected)
    for (const [method, rest, body] of EVERYTHING_OF_ONE) {
      expect(await call(method, `${path}/${randomUUID()}${rest}`, { body }), `${method} ${rest}`).toMatchObject(
        rejected,
      )
    }
    expect(await call('POST', '/tenants/unknown/dispatch', { body: { event: 'a', payload: {} } })).toMatchObject(
      rejected,
    )
  })

  test('may be suspended, in maintenance, or not yet installed', async () => {
    const [suspended, maintained] = [await activeSide(), await activeSide()]
    await fixture.tenancy.tenants.suspend(suspended.owner ?? '')
    await fixture.tenancy.tenants.enterMaintenance(maintained.owner ?? '', {})
    await fixture.tenancy.tenants.create({ id: 'provisioning', name: 'Acme' })
    for (const side of [suspended, maintained, { owner: 'provisioning', path: '/tenants/provisioning/webhooks' }]) {
      const { webhookId } = await created(side)
      const one = `${side.path}/${webhookId}`
      expect((await call('PUT', one, { body: { events: ['*'] } })).status).toBe(200)
      expect((await call('POST', `${one}/rotate-secret`)).status).toBe(200)
      expect((await call('DELETE', one)).status).toBe(204)
    }
  })

  test('is deleted: its subscriptions are readable and cannot change until it is restored', async () => {
    const side = await activeSide()
    const { webhookId, secret: _, ...made } = await created(side)
    const one = `${side.path}/${webhookId}`
    await fixture.tenancy.tenants.delete(side.owner ?? '')
    expect((await call('GET', one)).json).toEqual({ webhookId, ...made, health: NO_DELIVERIES })
    expect((await call('GET', side.path)).json.data).toHaveLength(1)
    expect((await call('GET', `${one}/deliveries`)).status).toBe(200)
    const rejected = { status: 409, json: { code: 'E_TENANT_STATE', from: 'deleted' } }
    expect(await call('POST', side.path, { body: BODY })).toMatchObject(rejected)
    expect(await call('PUT', one, { body: { enabled: false } })).toMatchObject(rejected)
    expect(await call('POST', `${one}/rotate-secret`)).toMatchObject(rejected)
    expect(await call('DELETE', one)).toMatchObject(rejected)
    await fixture.tenancy.tenants.restore(side.owner ?? '')
    expect((await call('PUT', one, { body: { enabled: false } })).status).toBe(200)
  })
})
