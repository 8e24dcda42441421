/** Dispatches: matching subscriptions, transactions of the host, and events of Tenantry. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { beforeEach, describe, expect, test } from 'vitest'
import { ChangeRecorded } from '../../../kernel/events/changes.ts'
import type { EventType } from '../../../kernel/events/events.ts'
import { DependencyDegraded } from '../../../kernel/resilience/resilience.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed, webhooks } from '../index.ts'
import { activeTenant, createdTenant, deliveriesOf } from '../webhooks-api.fixture.ts'
import { anyEvent, NOTHING, openDispatch } from './dispatch.fixture.ts'

const fixture = openDispatch()
const { subscribe, dispatch, send, received, eventsAt, rowsOf } = fixture

const inCode = (code: string) => expect.objectContaining({ code })

describe('a dispatch in a transaction of the host', () => {
  const inTransaction = <T>(work: () => Promise<T>) => fixture.tenancy.transaction(work)
  const event = anyEvent()
  beforeEach(() => subscribe(fixture.id, ['of_a_test.*']))

  test('is sent after the commit', async () => {
    const event = anyEvent()
    const ids = await inTransaction(async () => {
      const ids = await dispatch(event, { n: 1 })
      await fixture.tenancy.kernel.database.outside(async () => {
        expect(await rowsOf(event)).toEqual(NOTHING)
        expect(await send()).toBe(0)
      })
      return ids
    })
    expect(ids).toHaveLength(1)
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    expect(await send()).toBe(1)
    expect(received().map(({ headers, body }) => [headers['x-delivery-id'], body])).toEqual([[ids[0], '{"n":1}']])
  })

  test('leaves nothing after a rollback', async () => {
    const event = anyEvent()
    const failing = inTransaction(async () => {
      expect(await dispatch(event)).toHaveLength(1)
      throw new Error('the order could not be placed')
    })
    await expect(failing).rejects.toThrow('the order could not be placed')
    expect(await rowsOf(event)).toEqual(NOTHING)
    expect(await send()).toBe(0)
    expect(received()).toEqual([])
  })

  test('is rolled back with its savepoint', async () => {
    await inTransaction(async () => {
      await dispatch(event, { at: 'the beginning' })
      const failing = inTransaction(async () => {
        await dispatch(event, { at: 'a savepoint that fails' })
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      await inTransaction(async () => {
        await dispatch(event, { at: 'a savepoint' })
        await inTransaction(() => dispatch(event, { at: 'a savepoint within' }))
      })
    })
    await send()
    expect(new Set(received().map(({ body }) => JSON.parse(body).at))).toEqual(
      new Set(['the beginning', 'a savepoint', 'a savepoint within']),
    )
    const failing = inTransaction(async () => {
      await inTransaction(() => dispatch(event))
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await send()).toBe(0)
  })

  test('does not abort the transaction when it is rejected', async () => {
    const event = anyEvent()
    await inTransaction(async () => {
      await expect(dispatch('Order', {})).rejects.toThrow(inCode('E_INVALID_REQUEST'))
      await expect(dispatch(event, {}, 'unknown')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
      await dispatch(event)
    })
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 1 })
    await send()
  })

  test('notifies workers of all processes of the commit, and of no rollback', async () => {
    const worker = await fixture.opened.open({ role: 'all' })
    const sender = await fixture.opened.open({ role: 'all' })
    const failing = sender.transaction(async () => {
      await sender.webhooks.dispatch(fixture.id, event, { n: 'rolled back' })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await sender.transaction(() => sender.webhooks.dispatch(fixture.id, event, { n: 'by one that works' }))
    await inTransaction(() => dispatch(event, { n: 'by one that does not' }))
    await dispatch(event, { n: 'without a transaction' })
    await eventually(() => expect(received()).toHaveLength(3))
    const bodies = received().map(({ body }) => JSON.parse(body).n)
    expect(new Set(bodies)).toEqual(new Set(['by one that works', 'by one that does not', 'without a transaction']))
    await Promise.all([worker.stop(), sender.stop()])
  })
})

describe('matching subscriptions', () => {
  test.each([
    ['order.paid', ['order.paid', 'order.*', '*', 'several']],
    ['order.line.added', ['order.*', '*', 'order.line.*', 'several']],
    ['order', ['*']],
    ['orders.paid', ['*']],
    ['order.paid_back', ['order.*', '*', 'several']],
  ])('of %s have the patterns %j', async (event, expected) => {
    const all = { 'order.paid': ['order.paid'], 'order.*': ['order.*'], 'order.line.*': ['order.line.*'], '*': ['*'] }
    for (const [name, events] of Object.entries({ ...all, several: ['order.paid', 'order.*', 'x'] })) {
      await subscribe(fixture.id, events, `${fixture.path}/${name}`)
    }
    expect(await dispatch(event)).toHaveLength(expected.length)
    await send()
    const paths = fixture.receiver.received.filter((one) => one.path.startsWith(fixture.path)).map((one) => one.path)
    expect(paths.sort()).toEqual(expected.map((name) => `${fixture.path}/${name}`).sort())
  })

  test('of a tenant receive its own events, those of the host receive all', async () => {
    const event = anyEvent()
    const other = await createdTenant(fixture.tenancy)
    await subscribe(fixture.id, ['*'])
    await subscribe(other, ['*'], `${fixture.path}/other`)
    const hosts = await subscribe(null, [event], `${fixture.path}/host`)
    const [mine, others] = [await dispatch(event, { of: fixture.id }), await dispatch(event, { of: other }, other)]
    expect([mine.length, others.length]).toEqual([2, 2])
    expect(new Set([...mine, ...others]).size).toBe(4)
    await send()
    expect(received().map(({ body }) => JSON.parse(body).of)).toEqual([fixture.id])
    expect(received(`${fixture.path}/other`).map(({ body }) => JSON.parse(body).of)).toEqual([other])
    expect(new Set(received(`${fixture.path}/host`).map(({ body }) => JSON.parse(body).of))).toEqual(
      new Set([fixture.id, other]),
    )
    expect(received(`${fixture.path}/host`)).toHaveLength(2)
    const deliveries = await deliveriesOf(fixture.tenancy, null, hosts)
    expect(deliveries).toMatchObject([{ tenantId: fixture.id }, { tenantId: other }])
  })

  test('do not exist: the event is not stored', async () => {
    const event = anyEvent()
    await subscribe(fixture.id, ['another.event'])
    expect(await dispatch(event)).toEqual([])
    expect(await rowsOf(event)).toEqual(NOTHING)
  })

  test('exclude disabled and deleted ones, also if they are enabled later', async () => {
    const event = anyEvent()
    const [disabled, deleted] = [await subscribe(fixture.id, ['*']), await subscribe(fixture.id, ['*'])]
    await fixture.tenancy.webhooks.update(fixture.id, disabled, { enabled: false })
    await fixture.tenancy.webhooks.delete(fixture.id, deleted)
    expect(await dispatch(event)).toEqual([])
    await fixture.tenancy.webhooks.update(fixture.id, disabled, { enabled: true })
    expect(await send()).toBe(0)
    expect(await dispatch(event)).toHaveLength(1)
    await send()
    expect(eventsAt()).toEqual([event])
  })

  test('of concurrent dispatches are returned to their callers', async () => {
    const webhookId = await subscribe(fixture.id, ['of_many.*'])
    const other = await createdTenant(fixture.tenancy)
    const gone = await activeTenant(fixture.tenancy)
    await fixture.tenancy.tenants.delete(gone)
    const all = await Promise.allSettled(
      Array.from({ length: 400 }, (_, n) =>
        dispatch(`of_many.n${n}`, { n }, [fixture.id, other, 'unknown', gone][n % 4] as string),
      ),
    )
    for (const [n, one] of all.entries()) {
      if (n % 4 === 0) expect(one).toMatchObject({ status: 'fulfilled', value: [expect.any(String)] })
      if (n % 4 === 1) expect(one).toMatchObject({ status: 'fulfilled', value: [] })
      if (n % 4 === 2) expect(one).toMatchObject({ status: 'rejected', reason: { code: 'E_TENANT_NOT_FOUND' } })
      if (n % 4 === 3) expect(one).toMatchObject({ status: 'rejected', reason: { code: 'E_TENANT_STATE' } })
    }
    const answered = all.flatMap((one, n) =>
      one.status === 'fulfilled' ? one.value.map((deliveryId) => [deliveryId, `of_many.n${n}`] as const) : [],
    )
    const kept = await deliveriesOf(fixture.tenancy, fixture.id, webhookId)
    expect(new Map(kept.map((one) => [one.id, one.event]))).toEqual(new Map(answered))
    expect(kept).toHaveLength(100)
    expect(await send()).toBe(100)
    for (const { headers, body } of received()) {
      expect(headers['x-webhook-event']).toBe(`of_many.n${JSON.parse(body).n}`)
    }
  })
})

describe("Tenantry's own events", () => {
  beforeEach(async () => {
    fixture.id = await activeTenant(fixture.tenancy)
  })
  const ajv = formats.default(new Ajv2020({ strict: true, allErrors: true, keywords: ['example'] }))

  test('are dispatched as in the catalogue, in the transaction of the change', async () => {
    const hosts = await subscribe(null, ['tenant.*', 'webhook.*'], `${fixture.path}/host`)
    const webhookId = await subscribe(fixture.id, ['tenant.suspended', 'tenant.activated'])
    const { tenants } = fixture.tenancy
    const failing = fixture.tenancy.transaction(async () => {
      await tenants.suspend(fixture.id)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await tenants.suspend(fixture.id)
    await tenants.suspend(fixture.id)
    await tenants.activate(fixture.id)
    await tenants.update(fixture.id, { name: 'Acme & Co.' })
    await tenants.enterMaintenance(fixture.id, { message: 'Back at noon' })
    await tenants.exitMaintenance(fixture.id)
    await tenants.delete(fixture.id)
    const made = await activeTenant(fixture.tenancy)
    await send()
    expect(eventsAt().sort()).toEqual(['tenant.activated', 'tenant.suspended'])
    expect(await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).toHaveLength(2)
    const ofHost = await deliveriesOf(fixture.tenancy, null, hosts)
    expect(new Map(ofHost.map(({ event, tenantId }) => [event, tenantId]))).toEqual(
      new Map([
        ['tenant.suspended', fixture.id],
        ['tenant.activated', fixture.id],
        ['tenant.updated', fixture.id],
        ['tenant.entered_maintenance', fixture.id],
        ['tenant.exited_maintenance', fixture.id],
        ['tenant.deleted', fixture.id],
        ['tenant.created', made],
        ['tenant.provisioned', made],
      ]),
    )
    expect(ofHost).toHaveLength(8)
    const catalogue = new Map(fixture.tenancy.webhooks.catalogue.list().map(({ name, schema }) => [name, schema]))
    expect(received(`${fixture.path}/host`)).toHaveLength(8)
    for (const { headers, body } of received(`${fixture.path}/host`)) {
      const validate = ajv.compile(catalogue.get(String(headers['x-webhook-event'])) ?? false)
      expect(validate(JSON.parse(body)), ajv.errorsText(validate.errors)).toBe(true)
      expect(validate({ ...JSON.parse(body), tenantId: 7 })).toBe(false)
    }
  })

  test('are not dispatched if they are internal or records of the audit log', async () => {
    const hosts = await subscribe(null, ['*'], `${fixture.path}/host`)
    const webhookId = await subscribe(fixture.id, ['*'])
    const { events } = fixture.tenancy.kernel
    const published: string[] = []
    for (const type of [DependencyDegraded, WebhookDeliveryFailed, ChangeRecorded])
      fixture.tenancy.on(type as EventType, () => void published.push(type.name))
    const of = { dependency: 'store', operation: 'quotas.consume', policy: 'fail-open', errorCode: 'E' } as const
    await events.publish(DependencyDegraded, { ...of, tenantId: fixture.id })
    await events.publish(ChangeRecorded, { action: 'a', tenantId: fixture.id, target: 'b' })
    fixture.receiver.respondWith((one) => ({ status: one.path === fixture.path ? 410 : 200 }))
    await dispatch('order.paid')
    await send()
    await eventually(() => expect(new Set(published).size).toBe(3))
    const receivedBy = async (owner: string | null, of: string) =>
      new Set((await deliveriesOf(fixture.tenancy, owner, of)).map(({ event }) => event))
    // The event of the disabled subscription follows all earlier events.
    await eventually(async () =>
      expect(await receivedBy(null, hosts)).toEqual(new Set(['order.paid', 'webhook.subscription_disabled'])),
    )
    expect(await receivedBy(fixture.id, webhookId)).toEqual(new Set(['order.paid']))
  })

  test('are not dispatched without the bridge; events of the host are', async () => {
    const without = await fixture.opened.open({ satellites: [webhooks({ bridge: false })] })
    const webhookId = await subscribe(fixture.id, ['*'])
    await without.tenants.suspend(fixture.id)
    await without.webhooks.dispatch(fixture.id, 'order.paid', {})
    await send()
    expect(eventsAt()).toEqual(['order.paid'])
    expect(await deliveriesOf(fixture.tenancy, fixture.id, webhookId)).toHaveLength(1)
    await without.stop()
  })
})
