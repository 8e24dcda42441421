/** Dispatches while their tenant or subscription changes: which deliveries are sent, and which rows remain. */

import { beforeEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { WebhookSubscriptionDisabled } from '../index.ts'
import { activeTenant, changesOf, deliveriesOf } from '../webhooks-api.fixture.ts'
import { anyEvent, HOUR_MS, NOTHING, openDispatch } from './dispatch.fixture.ts'

const fixture = openDispatch()
const { clock, call, subscribe, dispatch, send, received, eventsAt, rowsOf } = fixture

const DAY_MS = 86_400_000
const TABLES = ['subscriptions', 'messages', 'deliveries', 'attempts', 'counters'] as const
const inCode = (code: string) => expect.objectContaining({ code })

describe('events of a tenant', () => {
  const everything = () => `${fixture.path}/host`
  let hosts: string
  beforeEach(async () => {
    fixture.id = await activeTenant(fixture.tenancy)
    hosts = await subscribe(null, ['*'], everything())
  })

  test('are rejected if the tenant does not exist, also for subscriptions of the host', async () => {
    const event = anyEvent()
    await expect(dispatch(event, {}, 'unknown')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
    const response = await call('POST', '/tenants/unknown/dispatch', { body: { event, payload: {} } })
    expect(response).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('are sent while the tenant is suspended or in maintenance', async () => {
    const webhookId = await subscribe(fixture.id, ['*'])
    await dispatch('order.paid')
    await fixture.tenancy.tenants.suspend(fixture.id)
    await dispatch('order.shipped')
    await send()
    await fixture.tenancy.tenants.enterMaintenance(fixture.id, {})
    await dispatch('order.returned')
    await send()
    const expected = ['order.paid', 'tenant.suspended', 'order.shipped', 'tenant.entered_maintenance', 'order.returned']
    expect(eventsAt().sort()).toEqual(expected.toSorted())
    expect(eventsAt(everything()).sort()).toEqual(expected.toSorted())
    const deliveries = await deliveriesOf(fixture.tenancy, fixture.id, webhookId)
    expect(deliveries.map(({ event, state }) => `${event} ${state}`).sort()).toEqual(
      expected.map((event) => `${event} delivered`).toSorted(),
    )
  })

  test('are rejected after the tenant is deleted; earlier events and tenant.deleted are sent', async () => {
    const webhookId = await subscribe(fixture.id, ['*'])
    fixture.receiver.respondWith(() => ({ status: 503 }))
    await dispatch('order.paid')
    await send()
    await dispatch('order.shipped')
    await fixture.tenancy.tenants.delete(fixture.id)
    fixture.receiver.respondWith(() => ({ status: 200 }))
    clock.advance(HOUR_MS)
    await send()
    const expected = ['order.paid', 'order.paid', 'order.shipped', 'tenant.deleted']
    expect(eventsAt().sort()).toEqual(expected)
    expect(eventsAt(everything()).sort()).toEqual(expected)
    const states = (await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).map(({ state }) => state)
    expect(states).toEqual(['delivered', 'delivered', 'delivered'])

    const event = anyEvent()
    await expect(dispatch(event)).rejects.toMatchObject({ code: 'E_TENANT_STATE', extras: { from: 'deleted' } })
    const response = await call('POST', `/tenants/${fixture.id}/dispatch`, { body: { event, payload: {} } })
    expect(response).toMatchObject({ status: 409, json: { code: 'E_TENANT_STATE', from: 'deleted' } })
    await expect(fixture.tenancy.webhooks.test(fixture.id, webhookId)).rejects.toThrow(inCode('E_TENANT_STATE'))
    expect(await rowsOf(event)).toEqual(NOTHING)
    expect(await send()).toBe(0)

    await fixture.tenancy.tenants.restore(fixture.id)
    await dispatch(event)
    await send()
    expect(eventsAt().sort()).toEqual([event, ...expected, 'tenant.restored'].sort())
  })

  test('are deleted by a purge, except deliveries to subscriptions of the host', async () => {
    const webhookId = await subscribe(fixture.id, ['*'])
    await subscribe(fixture.id, ['order.*'], `${fixture.path}/other`)
    const other = await activeTenant(fixture.tenancy)
    const others = await subscribe(other, ['*'], `${fixture.path}/others`)
    fixture.receiver.respondWith(({ headers }) => ({
      status: headers['x-webhook-event'] === 'order.failing' ? 500 : 200,
    }))
    for (const tenant of [fixture.id, other])
      for (const event of ['order.paid', 'order.failing']) await dispatch(event, {}, tenant)
    await send()
    await dispatch('order.pending')
    await fixture.tenancy.webhooks.rotateSecret(fixture.id, webhookId)
    const delivered = (await deliveriesOf(fixture.tenancy, null, hosts)).map(({ id }) => id)
    clock.advance(1)
    await fixture.tenancy.tenants.delete(fixture.id)
    clock.advance(31 * DAY_MS)
    const failing = fixture.tenancy.transaction(async () => {
      await fixture.tenancy.tenants.installation.purge(fixture.id)
      throw new Error('the server went away')
    })
    await expect(failing).rejects.toThrow('the server went away')
    expect(await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).toHaveLength(4)
    await fixture.tenancy.tenants.installation.purge(fixture.id)

    const { database } = fixture.tenancy.kernel
    for (const table of TABLES) {
      const rows = await database.sql(
        `select to_jsonb(t) as row from multitenancy.webhook_${table} t where tenant_id = $1`,
        [fixture.id],
      )
      const left = rows.rows.filter(({ row }) => row.webhook_id !== hosts)
      if (table === 'attempts') expect(left.filter(({ row }) => !delivered.includes(row.delivery_id))).toEqual([])
      else if (table === 'messages') expect(left.map(({ row }) => row.event)).toContain('order.pending')
      else expect(left, table).toEqual([])
    }
    const { rows: orphans } = await database.sql(
      `select a.delivery_id::text as id from multitenancy.webhook_attempts a
       where not exists (select from multitenancy.webhook_deliveries d where d.id = a.delivery_id)
       union all select m.id::text from multitenancy.webhook_messages m
       where not exists (select from multitenancy.webhook_deliveries d where d.message_id = m.id)`,
    )
    expect(orphans).toEqual([])
    expect(await deliveriesOf(fixture.tenancy, other, others)).toHaveLength(2)

    await send()
    const ofHost = await deliveriesOf(fixture.tenancy, null, hosts)
    expect(
      ofHost.filter(({ tenantId }) => tenantId === fixture.id).map(({ event, state }) => `${event} ${state}`),
    ).toEqual([
      'order.paid delivered',
      'order.failing retry_scheduled',
      'order.pending delivered',
      'tenant.deleted delivered',
      'tenant.purged delivered',
    ])
    for (const { id: deliveryId } of ofHost)
      expect((await fixture.tenancy.webhooks.delivery(null, hosts, deliveryId)).payload).not.toBeNull()
    expect(received().map(({ headers }) => headers['x-webhook-event'])).not.toContain('tenant.purged')
    const gone = await call('GET', `/tenants/${fixture.id}/webhooks/${webhookId}`)
    expect(gone).toMatchObject({ status: 404, json: { code: 'E_TENANT_NOT_FOUND' } })
    await expect(dispatch('order.paid')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
  })
})

describe('a subscription that changes during a delivery', () => {
  const slow = (change: () => Promise<unknown>, status: number) => {
    fixture.receiver.respondWith((_, response) => {
      void change().then(() => response.writeHead(status).end())
      return undefined
    })
  }

  test('fails retries and waiting deliveries when it is deleted', async () => {
    const { database } = fixture.tenancy.kernel
    for (const [status, state] of [
      [200, 'delivered'],
      [500, 'retry_scheduled'],
    ] as const) {
      const webhookId = await subscribe(fixture.id, ['order.*'])
      const [deliveryId = ''] = await dispatch('order.paid')
      slow(() => fixture.tenancy.webhooks.delete(fixture.id, webhookId), status)
      await send()
      fixture.receiver.respondWith(() => ({}))
      const stateNow = async () =>
        (
          await database.sql('select state, last_error as error from multitenancy.webhook_deliveries where id = $1', [
            deliveryId,
          ])
        ).rows[0]
      expect(await stateNow()).toMatchObject({ state })
      clock.advance(HOUR_MS)
      expect(await send()).toBe(0)
      const ended = { state: 'failed', error: 'the subscription is deleted' }
      expect(await stateNow()).toMatchObject(status === 200 ? { state } : ended)
    }
    expect(received()).toHaveLength(2)
  })

  test('fails waiting deliveries when it is disabled, and replays them when it is enabled again', async () => {
    const webhookId = await subscribe(fixture.id, ['order.*'])
    fixture.receiver.respondWith(() => ({ status: 500 }))
    const [tried = ''] = await dispatch('order.paid')
    await send()
    const [pending = ''] = await dispatch('order.shipped')
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: false })
    const explained = async (deliveryId: string) => {
      const { state, explanation } = await fixture.tenancy.webhooks.delivery(fixture.id, webhookId, deliveryId)
      return [state, explanation]
    }
    expect(await explained(pending)).toEqual([
      'pending',
      'Not sent: the subscription is disabled. The delivery will fail.',
    ])
    clock.advance(HOUR_MS)
    expect(await send()).toBe(0)
    expect(await explained(tried)).toEqual([
      'failed',
      'Failed after one attempt: the subscription is disabled. Enable the subscription and replay the delivery to try again.',
    ])
    expect((await explained(pending))[0]).toBe('failed')
    fixture.receiver.respondWith(() => ({ status: 200 }))
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: true })
    expect(await fixture.tenancy.webhooks.replayFailed(fixture.id, webhookId)).toEqual({ count: 2 })
    expect(await send()).toBe(2)
    expect((await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).map(({ state }) => state)).toEqual([
      'delivered',
      'delivered',
    ])
  })

  test('sends waiting deliveries to its new URL', async () => {
    const webhookId = await subscribe(fixture.id, ['order.*'])
    fixture.receiver.respondWith(() => ({ status: 500 }))
    await dispatch('order.paid')
    await send()
    await fixture.tenancy.webhooks.update(fixture.id, webhookId, { url: `${fixture.receiver.url}${fixture.path}/new` })
    clock.advance(HOUR_MS)
    await send()
    expect([received().length, received(`${fixture.path}/new`).length]).toEqual([1, 1])
  })

  test('is disabled once after a response with 410, with one record and one event', async () => {
    const changes = changesOf(fixture.tenancy)
    const published: unknown[] = []
    const end = fixture.tenancy.on(WebhookSubscriptionDisabled, (event) => void published.push(event))
    const webhookId = await subscribe(fixture.id, ['order.*'])
    fixture.receiver.respondWith(() => ({ status: 410 }))
    const ids = (await Promise.all(Array.from({ length: 10 }, () => dispatch('order.paid')))).flat()
    await send()
    await eventually(async () =>
      expect(await fixture.tenancy.webhooks.get(fixture.id, webhookId)).toMatchObject({
        enabled: false,
        disabledReason: 'gone',
      }),
    )
    clock.advance(HOUR_MS)
    const sent = received().length
    expect(await send()).toBe(0)
    expect(received()).toHaveLength(sent)
    for (const deliveryId of ids)
      expect(await fixture.tenancy.webhooks.delivery(fixture.id, webhookId, deliveryId)).toMatchObject({
        state: 'failed',
      })
    await eventually(() => expect(published).toMatchObject([{ tenantId: fixture.id, webhookId, reason: 'gone' }]))
    const recorded = changes.filter(({ action }) => action === 'webhooks.disable')
    expect(recorded).toMatchObject([
      {
        tenantId: fixture.id,
        target: `webhook:${webhookId}`,
        before: { enabled: true },
        after: { enabled: false, disabledReason: 'gone' },
      },
    ])
    expect(await fixture.tenancy.webhooks.update(fixture.id, webhookId, { enabled: true })).toMatchObject({
      enabled: true,
      disabledReason: null,
    })
    end()
  })
})
