/** Partitions of messages, deliveries and attempts: created ahead of time, and dropped after their retention. */
import { afterEach, describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { TrimWebhooks } from '../jobs.ts'
import { activeTenant } from '../webhooks-api.fixture.ts'
import { bounds, countsOf, DAY_MS, endAll, ends, inStep, KINDS, receiver, sharedOpened } from './partitions.fixture.ts'
import { daysOfPartition, nextStep, type Partition } from './partitions.ts'

const opened = sharedOpened()
afterEach(endAll)

describe('nextStep', () => {
  const day = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * DAY_MS)
  const partitions = (...starts: number[]): Partition[] =>
    starts.slice(1).map((to, index) => ({ from: day(starts[index] as number), to: day(to) }))

  test.each<[string, Partition[], Date, number, ReturnType<typeof nextStep>]>([
    ['the first one of all', [], day(0.5), 30, { make: { from: day(0), to: day(10) } }],
    ['nothing while there is enough ahead', partitions(0, 10, 20, 30), day(10), 30, undefined],
    [
      'creates a partition when fewer than two are ahead',
      partitions(0, 10, 20, 30),
      day(10.01),
      30,
      { make: { from: day(30), to: day(40) } },
    ],
    [
      'drops no partition before its retention ends',
      partitions(0, 10, 20, 30, 40, 50, 60, 70),
      day(39.9),
      30,
      undefined,
    ],
    [
      'drops the oldest partition after its last moment',
      partitions(0, 10, 20, 30, 40, 50, 60, 70),
      day(40),
      30,
      { drop: { from: day(0), to: day(10) } },
    ],
    ['creates before it drops', partitions(0, 10), day(45), 30, { make: { from: day(15), to: day(25) } }],
    [
      'creates no partition past the retention',
      partitions(0, 10),
      day(365.5),
      30,
      { make: { from: day(335), to: day(345) } },
    ],
    [
      'creates longer partitions for a longer retention',
      partitions(0, 10, 20),
      day(1),
      90,
      { make: { from: day(20), to: day(50) } },
    ],
    ['a shorter one drops more', partitions(0, 10, 20), day(13), 3, { drop: { from: day(0), to: day(10) } }],
    ['of one day, it spans one', partitions(0, 1), day(0), 1, { make: { from: day(1), to: day(2) } }],
  ])('%s', (_, known, now, retentionDays, step) => {
    expect(nextStep(known, now, retentionDays)).toEqual(step)
  })

  test('three partitions span the retention at least', () => {
    for (const days of [1, 2, 3, 4, 30, 31, 3_650]) expect(daysOfPartition(days) * 3).toBeGreaterThanOrEqual(days)
  })
})

describe('partitions', () => {
  test('are created ahead and dropped after their retention, for all three tables together', async () => {
    const { tenancy, clock, first } = await opened()
    const { url } = await receiver()
    const id = await activeTenant(tenancy)
    const { webhookId } = await tenancy.webhooks.create(id, { url, events: ['order.*'] })
    const send = async () => (await tenancy.webhooks.dispatch(id, 'order.paid', {}))[0] ?? ''

    expect(await bounds(tenancy, first)).toEqual(inStep([0, 10], [10, 20], [20, 30]))
    const old = await send()
    await tenancy.webhooks.retry()
    expect(await tenancy.webhooks.partitions.keep()).toEqual({ made: 0, dropped: 0, isComplete: true })

    clock.advance(9.6 * DAY_MS) // 10.1
    const settled = await send()
    await tenancy.webhooks.retry()
    const waiting = await send()
    expect(await tenancy.webhooks.partitions.keep()).toEqual({ made: 1, dropped: 0, isComplete: true })
    expect(await bounds(tenancy, first)).toEqual(inStep([0, 10], [10, 20], [20, 30], [30, 40]))

    clock.set(new Date(first + 40 * DAY_MS - 1))
    expect(await tenancy.webhooks.partitions.keep()).toMatchObject({ made: 2, dropped: 0 })
    expect(await countsOf(tenancy)).toEqual([3, 3, 2])

    clock.advance(1)
    expect(await tenancy.webhooks.partitions.keep()).toEqual({ made: 0, dropped: 1, isComplete: true })
    expect(await bounds(tenancy, first)).toEqual(inStep([10, 20], [20, 30], [30, 40], [40, 50], [50, 60]))
    expect(await countsOf(tenancy)).toEqual([2, 2, 1])
    await expect(tenancy.webhooks.delivery(id, webhookId, old)).rejects.toMatchObject({ code: 'E_DELIVERY_NOT_FOUND' })
    expect(await tenancy.webhooks.delivery(id, webhookId, settled)).toMatchObject({ state: 'delivered' })

    // What waits in another partition has nothing to do with it, however old it is.
    expect(await tenancy.webhooks.delivery(id, webhookId, waiting)).toMatchObject({ state: 'pending' })
    await tenancy.webhooks.retry()
    expect(await tenancy.webhooks.delivery(id, webhookId, waiting)).toMatchObject({ state: 'delivered' })
  })

  test('are dropped without deleting rows', async () => {
    const { tenancy, clock, first } = await opened()
    const { url } = await receiver()
    const id = await activeTenant(tenancy)
    await tenancy.webhooks.create(id, { url, events: ['*'] })
    for (let n = 0; n < 20; n++) await tenancy.webhooks.dispatch(id, 'order.paid', { n })
    await tenancy.webhooks.retry()
    expect(await countsOf(tenancy)).toEqual([20, 20, 20])

    const { database } = tenancy.kernel
    await database.sql(
      `create function refuse_delete() returns trigger language plpgsql as $$ begin raise exception 'row by row'; end $$`,
    )
    ends.push(() => database.sql('drop function refuse_delete cascade'))
    for (const kind of KINDS) {
      await database.sql(
        `create trigger whole before delete on multitenancy.webhook_${kind} for each row execute function refuse_delete()`,
      )
    }
    await expect(database.sql('delete from multitenancy.webhook_deliveries')).rejects.toThrow('row by row')

    clock.set(new Date(first + 40 * DAY_MS))
    expect(await tenancy.webhooks.partitions.keep()).toMatchObject({ dropped: 1, isComplete: true })
    expect(await countsOf(tenancy)).toEqual([0, 0, 0])
  })

  test('receive the rows of their time from the default partition', async () => {
    const { tenancy, clock, first } = await opened()
    const { url, received } = await receiver()
    const id = await activeTenant(tenancy)
    const { webhookId } = await tenancy.webhooks.create(id, { url, events: ['*'] })
    clock.set(new Date(first + 45.5 * DAY_MS))
    const [sent = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', { n: 1 })
    await tenancy.webhooks.retry()
    const [waiting = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', { n: 2 })
    expect(await countsOf(tenancy, '_others')).toEqual([2, 2, 1])

    expect(await tenancy.webhooks.partitions.keep()).toMatchObject({ made: 4, dropped: 1, isComplete: true })
    expect(await bounds(tenancy, first)).toEqual(inStep([10, 20], [20, 30], [30, 40], [40, 50], [50, 60], [60, 70]))
    expect(await countsOf(tenancy, '_others')).toEqual([0, 0, 0])
    expect(await tenancy.webhooks.delivery(id, webhookId, sent)).toMatchObject({
      state: 'delivered',
      payload: { n: 1 },
      attempts: [{ number: 1, status: 200 }],
    })
    expect(await tenancy.webhooks.retry()).toBe(1)
    expect(await tenancy.webhooks.delivery(id, webhookId, waiting)).toMatchObject({ state: 'delivered' })
    expect(received).toHaveLength(2)
  })

  test('are not created for a past time after a long pause', async () => {
    const { clock, first, another } = await opened()
    const tenancy = await another({ retentionDays: 1 })
    const id = await activeTenant(tenancy)
    await tenancy.webhooks.create(id, { url: 'https://example.com', events: ['*'] })
    clock.set(new Date(first + 500.5 * DAY_MS))
    await tenancy.webhooks.dispatch(id, 'old', {})
    clock.set(new Date(first + 2_000.5 * DAY_MS))
    await tenancy.webhooks.dispatch(id, 'new', {})
    expect(await tenancy.webhooks.partitions.keep()).toEqual({ made: 4, dropped: 3, isComplete: true })
    expect(await bounds(tenancy, first)).toEqual(inStep([1_999, 2_000], [2_000, 2_001], [2_001, 2_002], [2_002, 2_003]))
    expect(await countsOf(tenancy)).toEqual([1, 1, 0])
    expect(await countsOf(tenancy, '_others')).toEqual([0, 0, 0])
  })

  test('contain a message with its deliveries and attempts, also at a boundary', async () => {
    const { tenancy, clock, first } = await opened()
    const { url } = await receiver()
    const id = await activeTenant(tenancy)
    for (const name of ['a', 'b', 'c']) await tenancy.webhooks.create(id, { url: `${url}/${name}`, events: ['*'] })
    const edges = [10, 20].flatMap((day) => [-1, 0, 1].map((ms) => first + day * DAY_MS + ms))
    for (const ms of edges) {
      clock.set(new Date(ms))
      await Promise.all(Array.from({ length: 5 }, (_, n) => tenancy.webhooks.dispatch(id, 'order.paid', { n })))
      await tenancy.webhooks.retry()
    }
    const { rows } = await tenancy.kernel.database.sql(
      `select split_part(m.tableoid::regclass::text, '_', 3) as message, split_part(d.tableoid::regclass::text, '_', 3) as delivery,
         split_part(a.tableoid::regclass::text, '_', 3) as attempt, count(*)
       from multitenancy.webhook_deliveries d join multitenancy.webhook_messages m on m.id = d.message_id
       join multitenancy.webhook_attempts a on a.delivery_id = d.id group by 1, 2, 3 order by 1`,
    )
    const suffix = (day: number) => new Date(first + day * DAY_MS).toISOString().slice(0, 10).replaceAll('-', '')
    const together = (day: number, count: number) => ({
      message: suffix(day),
      delivery: suffix(day),
      attempt: suffix(day),
      count,
    })
    expect(rows).toEqual([together(0, 15), together(10, 45), together(20, 30)])
  })

  test('follow a changed retention and keep waiting deliveries', async () => {
    const { tenancy, clock, first, another } = await opened()
    const id = await activeTenant(tenancy)
    const { webhookId } = await tenancy.webhooks.create(id, { url: 'https://example.com', events: ['*'] })
    const [waiting = ''] = await tenancy.webhooks.dispatch(id, 'order.paid', {})

    const longer = await another({ retentionDays: 90 })
    expect(await longer.webhooks.partitions.keep()).toMatchObject({ made: 2, dropped: 0 })
    const after90 = [
      [0, 10],
      [10, 20],
      [20, 30],
      [30, 60],
      [60, 90],
    ] satisfies [number, number][]
    expect(await bounds(tenancy, first)).toEqual(inStep(...after90))

    const shorter = await another({ retentionDays: 3 })
    clock.set(new Date(first + 12.9 * DAY_MS))
    expect(await shorter.webhooks.partitions.keep()).toMatchObject({ made: 0, dropped: 0 })
    expect(await shorter.webhooks.delivery(id, webhookId, waiting)).toMatchObject({ state: 'pending' })
    clock.set(new Date(first + 13 * DAY_MS))
    expect(await shorter.webhooks.partitions.keep()).toMatchObject({ made: 0, dropped: 1 })
    expect(await bounds(tenancy, first)).toEqual(inStep(...after90.slice(1)))
    clock.set(new Date(first + 88.5 * DAY_MS))
    expect(await shorter.webhooks.partitions.keep()).toMatchObject({ made: 1, dropped: 3 })
    expect(await bounds(tenancy, first)).toEqual(inStep([60, 90], [90, 91]))
  })
})

describe('partition maintenance', () => {
  test('deletes subscriptions after their last delivery, and counters after a day', async () => {
    const { tenancy, clock, first } = await opened()
    const { url } = await receiver()
    const id = await activeTenant(tenancy)
    const create = async () => (await tenancy.webhooks.create(id, { url, events: ['*'] })).webhookId
    const [kept, deleted] = [await create(), await create()]
    const listener = await tenancy.webhooks.listen({ tenantId: id, url, events: ['none'], onSettled: () => undefined })
    ends.push(() => listener.close())
    await tenancy.webhooks.dispatch(id, 'order.paid', {})
    await tenancy.webhooks.retry()
    const rows = async () => {
      const { rows } = await tenancy.kernel.database.sql(
        'select id from multitenancy.webhook_subscriptions order by id',
      )
      return rows.map(({ id }) => id)
    }
    const tallies = async () =>
      (await tenancy.kernel.database.sql('select sum(delivered) as delivered from multitenancy.webhook_counters'))
        .rows[0]
    expect(await tallies()).toEqual({ delivered: '2' })

    clock.set(new Date(first + 5 * DAY_MS))
    await tenancy.webhooks.delete(id, deleted)
    await tenancy.webhooks.partitions.keep()
    expect(await tallies()).toEqual({ delivered: null })
    expect(await rows()).toEqual([kept, deleted, listener.webhookId].sort())

    // Past its retention, and yet there are deliveries of that time.
    clock.set(new Date(first + 39 * DAY_MS))
    await tenancy.webhooks.partitions.keep()
    expect(await rows()).toEqual([kept, deleted, listener.webhookId].sort())
    clock.set(new Date(first + 40 * DAY_MS))
    await tenancy.webhooks.partitions.keep()
    expect(await rows()).toEqual([kept])
  })

  test('runs in the hourly job', async () => {
    const { tenancy, clock, first, another } = await opened()
    await another({}, { role: 'all' })
    clock.set(new Date(first + 10.5 * DAY_MS))
    await tenancy.kernel.jobs.send(TrimWebhooks, {})
    await eventually(async () => {
      expect(await bounds(tenancy, first)).toEqual(inStep([0, 10], [10, 20], [20, 30], [30, 40]))
    })
  })
})
