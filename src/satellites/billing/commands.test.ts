/** Tests the commands of billing in the program. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { InProcess } from '../../cli/in-process.fixture.ts'
import { namesOf, type OpenBilling } from './billing.fixture.ts'
import { type OpenProgram, openProgram } from './commands.fixture.ts'

let program: OpenProgram
let open: OpenBilling
let tenantry: InProcess
let json: OpenProgram['json']

beforeAll(async () => {
  program = await openProgram()
  ;({ open, tenantry, json } = program)
})
afterAll(() => program.end())
beforeEach(() => void open.receivedEvents.splice(0))
afterEach(() => open.provider.faults.clear())

const planOf = async (tenantId: string) => (await open.tenancy.tenants.get(tenantId)).metadata.plan ?? 'free'
/** Returns the events that happen from now on and are not delivered. */
const undelivered = () => {
  const from = open.provider.events.length
  return () => open.provider.events.slice(from)
}
const fetched = async () => {
  const { rows } = await open.tenancy.kernel.database.sql(
    'select event_id as id from multitenancy.billing_inbox where is_fetched order by 1',
  )
  return rows.map(({ id }) => id)
}
const failedEvents = async () => (await open.inbox()).filter(({ status }) => status === 'failed')

/** Names of published events of one tenant, because a backfill also fetches lost events of other tests. */
const receivedNamesOf = (tenantId: string) =>
  namesOf(open.receivedEvents.filter(([, event]) => event.tenantId === tenantId))

describe('billing:sync', () => {
  test('updates one tenant or all tenants from the provider', async () => {
    const [one, other] = [await open.subscriber(), await open.subscriber()]
    for (const { subscriptionId } of [one, other]) open.provider.changePrice(subscriptionId, open.prices.scale)
    expect(await json('billing:sync', one.tenantId)).toEqual({
      code: 0,
      answer: [{ tenantId: one.tenantId, customerId: one.customerId, subscriptions: 1, plan: 'scale' }],
      stderr: '',
    })
    expect([await planOf(one.tenantId), await planOf(other.tenantId)]).toEqual(['scale', 'pro'])
    open.provider.deleteCustomer(one.customerId)
    const { code, stdout } = await tenantry.run('billing:sync')
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`^${other.tenantId} +${other.customerId} +1 +scale`, 'm'))
    expect([await planOf(one.tenantId), await planOf(other.tenantId)]).toEqual(['free', 'scale'])
    expect(await open.tenancy.billing.of(one.tenantId)).toMatchObject({
      customerId: null,
      subscription: { status: 'canceled' },
    })
  })

  test('reports a tenant without a customer, an unavailable provider, and a rejected key', async () => {
    const tenantId = await open.tenant()
    expect(await tenantry.run('billing:sync', tenantId)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('not found'),
    })
    await open.subscriber()
    open.provider.faults.respond(500)
    expect(await tenantry.run('billing:sync')).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('E_DEPENDENCY_UNAVAILABLE'),
    })
    open.provider.faults.clear()
    open.provider.faults.respond(401)
    expect(await tenantry.run('billing:sync')).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('rejected the API key'),
    })
  })
})

test('billing:sync lists customers that the provider does not know, continues, and exits with 6', async () => {
  const [unknown, other] = [await open.subscriber(), await open.subscriber()]
  open.provider.changePrice(other.subscriptionId, open.prices.scale)
  open.provider.forget(unknown.customerId)
  const { tenantId, customerId } = unknown
  const { code, answer, stderr } = await json('billing:sync')
  expect({ code, answer }).toEqual({
    code: 6,
    answer: expect.arrayContaining([
      { tenantId, customerId, error: 'customer_not_found' },
      { tenantId: other.tenantId, customerId: other.customerId, subscriptions: 1, plan: 'scale' },
    ]),
  })
  expect(stderr).toContain('E_FINDINGS')
  const { stdout } = await tenantry.run('billing:sync')
  expect(stdout).toMatch(new RegExp(`^${tenantId} +${customerId} .*customer_not_found`, 'm'))
  expect(await tenantry.run('billing:sync', other.tenantId)).toMatchObject({ code: 0 })
  expect((await tenantry.run('billing:sync', tenantId)).code).not.toBe(0)
  await open.tenancy.billing.customers.close(customerId, 'detached')
})

describe('billing:backfill', () => {
  test('fetches lost events once, and publishes their typed events once', async () => {
    const { tenantId, subscriptionId } = await open.subscriber()
    const lost = undelivered()
    open.provider.changePrice(subscriptionId, open.prices.scale)
    const since = new Date(open.provider.now().getTime() - 86_400_000).toISOString()
    const all = open.provider.events.length
    const before = await fetched()
    const known = (await open.inbox()).map(({ eventId }) => eventId)
    const missing = open.provider.events.map(({ id }) => id).filter((id) => !known.includes(id))
    const answer = { events: all, taken: missing.length }
    expect(await json('billing:backfill', '--since', since)).toEqual({ code: 0, answer, stderr: '' })
    expect(missing).toEqual(expect.arrayContaining(lost().map(({ id }) => id)))
    expect((await fetched()).filter((id) => !before.includes(id))).toEqual(missing.toSorted())
    open.receivedEvents.splice(0)
    await open.process()
    expect(await planOf(tenantId)).toBe('scale')
    expect(receivedNamesOf(tenantId)).toEqual(['SubscriptionUpdated'])
    expect((await json('billing:backfill', '--since', since)).answer).toEqual({ events: all, taken: 0 })
    expect(new Set(await open.deliver(lost()))).toEqual(new Set([200]))
    await open.process()
    expect(receivedNamesOf(tenantId)).toEqual(['SubscriptionUpdated'])
    const { stdout } = await tenantry.run('billing:backfill', '--since', '2099-01-01')
    expect(stdout).toMatch(/^events +0\ntaken +0$/m)
  })
})

describe('billing:replay', () => {
  test('processes failed or named events again without publishing typed events twice', async () => {
    const { tenantId, subscriptionId } = await open.subscriber()
    await tenantry.run('billing:backfill', '--since', '2000-01-01')
    await open.process()
    open.provider.changePrice(subscriptionId, open.prices.scale)
    open.provider.faults.respond(400)
    await open.deliverAndProcess()
    const failed = await failedEvents()
    expect(failed).toMatchObject([{ errorCode: 'provider_rejected' }])
    open.provider.faults.clear()
    const { eventId } = failed[0]

    const dry = await json('billing:replay', '--failed', '--dry-run')
    expect(dry).toMatchObject({ code: 0, answer: { replayed: false, events: [{ eventId, status: 'failed' }] } })
    expect(await failedEvents()).toHaveLength(1)
    const done = await json('billing:replay', '--failed')
    expect(done).toMatchObject({ code: 0, answer: { replayed: true, events: [{ eventId }] } })
    open.receivedEvents.splice(0)
    await open.process()
    expect(await planOf(tenantId)).toBe('scale')
    expect(namesOf(open.receivedEvents)).toEqual(['SubscriptionUpdated'])

    open.receivedEvents.splice(0)
    const { stdout } = await tenantry.run('billing:replay', eventId)
    expect(stdout).toContain(eventId)
    const since = await json('billing:replay', '--since', '2000-01-01', '--dry-run')
    expect(since.answer.events).toHaveLength((await open.inbox()).length)
    await json('billing:replay', '--since', '2000-01-01')
    await open.process()
    expect(open.receivedEvents).toEqual([])
    expect(await planOf(tenantId)).toBe('scale')
    expect(await json('billing:replay', '--failed')).toMatchObject({ code: 0, answer: { events: [] } })
  })
})

test('billing:cleanup deletes processed events after their retention', async () => {
  await open.subscriber()
  const { database } = open.tenancy.kernel
  const before = await open.inbox()
  await database.sql(
    `update multitenancy.billing_inbox set processed_at = now() - interval '91 days' where event_id = any($1)`,
    [before.slice(0, 2).map(({ eventId }) => eventId)],
  )
  expect(await json('billing:cleanup')).toEqual({ code: 0, answer: { removed: 2 }, stderr: '' })
  expect(await open.inbox()).toHaveLength(before.length - 2)
})

describe('billing:doctor', () => {
  test('sends a request to the provider, and exits with 6 if it finds a problem', async () => {
    const pings = () => open.provider.requests.filter(({ path }) => path === '/v1/balance').length
    const before = pings()
    const fine = await json('billing:doctor')
    expect(fine).toMatchObject({ code: 0, answer: { status: 'ok', checks: [] } })
    expect(pings()).toBe(before + 1)
    expect((await tenantry.run('billing:doctor')).stderr).toContain('no problem found')
    await open.provider.down()
    const { code, answer, stderr } = await json('billing:doctor')
    expect({ code, answer }).toMatchObject({
      code: 6,
      answer: { status: 'error', checks: [{ code: 'billing.unreachable' }] },
    })
    expect(stderr).toContain('E_FINDINGS')
    await open.provider.up()
  })
})

test('billing commands report invalid arguments and missing objects', async () => {
  const lines: [string[], number][] = [
    [['billing:backfill'], 2],
    [['billing:backfill', '--since', 'yesterday'], 2],
    [['billing:replay'], 2],
    [['billing:replay', '--since', 'yesterday'], 2],
    [['billing:replay', 'evt_unheard_of'], 3],
    [['billing:sync', 'unknown'], 3],
  ]
  const ended = await Promise.all(lines.map(([line]) => tenantry.run(...line)))
  expect(ended.map(({ code }) => code)).toEqual(lines.map(([, code]) => code))
})
