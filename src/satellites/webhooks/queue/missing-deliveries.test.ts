/** Events that a subscription has missed: before it existed, or while it was disabled. */
import { describe, expect, test } from 'vitest'
import { changesOf, createdTenant, deliveriesOf } from '../webhooks-api.fixture.ts'
import { anyEvent, NOTHING, openDispatch } from './dispatch.fixture.ts'
import { MAX_ROWS } from './replays.ts'

const fixture = openDispatch()
const { subscribe, dispatch, send, eventsAt, rowsOf, clock } = fixture

const replayMissing = (webhookId: string, request = {}, owner: string | null = fixture.id) =>
  fixture.tenancy.webhooks.replayMissing(owner, webhookId, request)
const setEnabled = (webhookId: string, enabled: boolean, owner: string | null = fixture.id) =>
  fixture.tenancy.webhooks.update(owner, webhookId, { enabled })
const eventsOf = async (webhookId: string, owner: string | null = fixture.id) =>
  (await deliveriesOf(fixture.tenancy, owner, webhookId)).map(({ event }) => event).toSorted()
/** Events of the tenant without deliveries. */
const insertEvents = (event: string, count: number) =>
  fixture.tenancy.kernel.database.sql(
    `insert into multitenancy.webhook_messages (id, tenant_id, event, body, created_at, audience)
     select (left(multitenancy.webhook_id_floor($3)::text, 19) || right(gen_random_uuid()::text, 17))::uuid,
       $2, $1, '{}', $3, 'all' from generate_series(1, $4)`,
    [event, fixture.id, clock.now(), count],
  )
const deleteEvents = (event: string) =>
  fixture.tenancy.kernel.database.sql('delete from multitenancy.webhook_messages where event = $1', [event])

describe('a replay of missing events', () => {
  test('sends matching events from before the subscription existed, once', async () => {
    await subscribe(fixture.id, ['*'], `${fixture.path}-of-all`)
    for (const event of ['order.paid', 'order.item.added', 'orders.paid', 'order']) await dispatch(event)
    const webhookId = await subscribe(fixture.id, ['order.*', 'user.created'])
    await dispatch('order.sent')
    const changes = changesOf(fixture.tenancy)
    const path = `/tenants/${fixture.id}/webhooks/${webhookId}/replay-missing`
    expect(await fixture.call('POST', path, { body: { dryRun: true } })).toMatchObject({
      status: 202,
      json: { count: 2 },
    })
    expect(await eventsOf(webhookId)).toEqual(['order.sent'])
    expect(await fixture.call('POST', path)).toMatchObject({ status: 202, json: { count: 2 } })
    expect(await replayMissing(webhookId)).toEqual({ count: 0 })
    expect(await eventsOf(webhookId)).toEqual(['order.item.added', 'order.paid', 'order.sent'])
    expect(changes).toMatchObject([
      { action: 'webhooks.replayMissing', tenantId: fixture.id, target: `webhook:${webhookId}`, after: { count: 2 } },
    ])
    await send()
    expect(eventsAt().toSorted()).toEqual(['order.item.added', 'order.paid', 'order.sent'])
  })

  test('sends events from while the only subscription was disabled', async () => {
    const event = anyEvent()
    const webhookId = await subscribe(fixture.id, [event])
    await setEnabled(webhookId, false)
    expect(await dispatch(event, { n: 1 })).toEqual([])
    expect(await dispatch(event, { n: 2 })).toEqual([])
    expect(await rowsOf(event)).toEqual({ messages: 2, deliveries: 0 })
    const unmatched = anyEvent()
    await dispatch(unmatched)
    expect(await rowsOf(unmatched)).toEqual(NOTHING)
    expect(await replayMissing(webhookId, { dryRun: true })).toEqual({ count: 2 })
    await expect(replayMissing(webhookId)).rejects.toMatchObject({ code: 'E_WEBHOOK_DISABLED' })
    await setEnabled(webhookId, true)
    expect(await replayMissing(webhookId)).toEqual({ count: 2 })
    await send()
    expect(
      fixture
        .received()
        .map(({ body }) => JSON.parse(body).n)
        .toSorted(),
    ).toEqual([1, 2])
  })

  test('includes the start of the window and excludes its end', async () => {
    const event = anyEvent()
    const webhookId = await subscribe(fixture.id, [event])
    await setEnabled(webhookId, false)
    const moments: Date[] = []
    for (let n = 0; n < 3; n++) {
      await dispatch(event)
      moments.push(clock.now())
    }
    const [first, second, third] = moments
    expect(await replayMissing(webhookId, { from: first, to: third, dryRun: true })).toEqual({ count: 2 })
    await setEnabled(webhookId, true)
    expect(await replayMissing(webhookId, { from: second, to: third })).toEqual({ count: 1 })
    expect(await replayMissing(webhookId, { dryRun: true })).toEqual({ count: 2 })
  })

  test('excludes tests of other subscriptions, and events of other tenants', async () => {
    const other = await subscribe(fixture.id, ['*'], `${fixture.path}-of-all`)
    await fixture.tenancy.webhooks.test(fixture.id, other, 'order.paid')
    const stranger = await createdTenant(fixture.tenancy)
    await subscribe(stranger, ['*'], `${fixture.path}-of-a-stranger`)
    await dispatch('order.paid', {}, stranger)
    const webhookId = await subscribe(fixture.id, ['*'])
    expect(await replayMissing(webhookId)).toEqual({ count: 0 })
    await expect(replayMissing(webhookId, {}, stranger)).rejects.toMatchObject({ code: 'E_WEBHOOK_NOT_FOUND' })
  })

  test('of a subscription of the host sends events of all tenants', async () => {
    const event = anyEvent()
    const host = await subscribe(null, [event])
    await setEnabled(host, false, null)
    const stranger = await createdTenant(fixture.tenancy)
    await dispatch(event)
    await dispatch(event, {}, stranger)
    await setEnabled(host, true, null)
    expect(await fixture.call('POST', `/webhooks/${host}/replay-missing`)).toMatchObject({ json: { count: 2 } })
    const made = await deliveriesOf(fixture.tenancy, null, host)
    expect(made.map(({ tenantId }) => tenantId).toSorted()).toEqual([fixture.id, stranger].toSorted())
  })

  test('examines events in several statements, also those that the host does not subscribe to', async () => {
    const event = anyEvent()
    const host = await subscribe(null, [event])
    await setEnabled(host, false, null)
    await dispatch(event)
    await insertEvents('other.event', 2 * MAX_ROWS)
    await dispatch(event)
    expect(await replayMissing(host, { dryRun: true }, null)).toEqual({ count: 2 })
    await setEnabled(host, true, null)
    expect(await replayMissing(host, {}, null)).toEqual({ count: 2 })
    expect(await replayMissing(host, {}, null)).toEqual({ count: 0 })
    await deleteEvents('other.event')
  })

  test('counts each missing event once in several statements', async () => {
    const event = anyEvent()
    const webhookId = await subscribe(fixture.id, [event])
    await setEnabled(webhookId, false)
    const count = 2 * MAX_ROWS + 1
    await insertEvents(event, count)
    expect(await replayMissing(webhookId, { dryRun: true })).toEqual({ count })
    await deleteEvents(event)
  })

  test('creates each delivery once for concurrent calls of several processes, while events are dispatched', async () => {
    await subscribe(fixture.id, ['*'], `${fixture.path}-of-all`)
    for (let n = 0; n < 40; n++) await dispatch('order.paid', { n })
    const webhookId = await subscribe(fixture.id, ['order.*'])
    const others = await Promise.all([1, 2].map(() => fixture.opened.open()))
    const tenancies = [fixture.tenancy, ...others]
    const replays = tenancies.flatMap((tenancy) =>
      Array.from({ length: 3 }, () => tenancy.webhooks.replayMissing(fixture.id, webhookId)),
    )
    const dispatches = tenancies.flatMap((tenancy) =>
      Array.from({ length: 10 }, (_, n) => tenancy.webhooks.dispatch(fixture.id, 'order.sent', { n })),
    )
    const counts = (await Promise.all(replays)).map(({ count }) => count)
    await Promise.all(dispatches)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(40)
    expect((await replayMissing(webhookId)).count).toBe(0)
    const { rows } = await fixture.tenancy.kernel.database.sql(
      `select count(*) as deliveries, count(distinct message_id) as messages
       from multitenancy.webhook_deliveries where webhook_id = $1`,
      [webhookId],
    )
    expect(rows).toEqual([{ deliveries: 70, messages: 70 }])
    await Promise.all(others.map((tenancy) => tenancy.stop()))
  })

  test('finds no events of a purged tenant', async () => {
    const event = anyEvent()
    await setEnabled(await subscribe(fixture.id, [event]), false)
    await dispatch(event)
    expect(await rowsOf(event)).toEqual({ messages: 1, deliveries: 0 })
    await fixture.tenancy.webhooks.forget(fixture.id)
    expect(await rowsOf(event)).toEqual(NOTHING)
  })
})

describe('a replay of all failed deliveries of an owner', () => {
  const failing = async (owner: string | null, event: string, name: string) => {
    const webhookId = await subscribe(owner, [event], `${fixture.path}-${name}`)
    await dispatch(event)
    await fixture.tenancy.kernel.database.sql(
      `update multitenancy.webhook_deliveries set state = 'failed', is_ready = false, due_at = null where webhook_id = $1`,
      [webhookId],
    )
    return webhookId
  }
  const statesOf = async (owner: string | null, ids: readonly string[]) =>
    Promise.all(ids.map(async (id) => (await deliveriesOf(fixture.tenancy, owner, id)).map(({ state }) => state)))

  test('restarts those of enabled subscriptions of a tenant only', async () => {
    const ids = [await failing(fixture.id, 'order.paid', 'one'), await failing(fixture.id, 'order.sent', 'two')]
    const disabled = await failing(fixture.id, 'order.lost', 'three')
    await setEnabled(disabled, false)
    const host = await failing(null, anyEvent(), 'host')
    const path = `/tenants/${fixture.id}/replay-failed`
    expect(await fixture.call('POST', path, { body: { dryRun: true } })).toMatchObject({
      status: 202,
      json: { count: 2 },
    })
    const future = new Date(clock.now().getTime() + 1_000).toISOString()
    expect(await fixture.call('POST', path, { body: { from: future, to: '2100-01-01' } })).toMatchObject({
      json: { count: 0 },
    })
    expect(await statesOf(fixture.id, ids)).toEqual([['failed'], ['failed']])
    const changes = changesOf(fixture.tenancy)
    expect(await fixture.call('POST', path)).toMatchObject({ status: 202, json: { count: 2 } })
    expect(await statesOf(fixture.id, [...ids, disabled])).toEqual([['pending'], ['pending'], ['failed']])
    expect(await statesOf(null, [host])).toEqual([['failed']])
    expect(changes.map(({ action, target }) => [action, target]).toSorted()).toEqual(
      ids.map((id) => ['webhooks.replayFailed', `webhook:${id}`]).toSorted(),
    )
    expect(await fixture.tenancy.webhooks.replayAllFailed(fixture.id)).toEqual({ count: 0 })
  })

  test('restarts those of the host', async () => {
    const event = anyEvent()
    const host = await failing(null, event, 'host')
    expect(await fixture.call('POST', '/replay-failed', { body: { dryRun: true } })).toMatchObject({
      json: { count: 1 },
    })
    const counts = await Promise.all(
      [1, 2, 3].map(async () => (await fixture.tenancy.webhooks.replayAllFailed(null)).count),
    )
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(1)
    expect(await statesOf(null, [host])).toEqual([['pending']])
  })
})
