/** Lists of deliveries over subscriptions, and the filters by the last response. */
import { describe, expect, test } from 'vitest'
import { createdTenant } from '../webhooks-api.fixture.ts'
import { HOUR_MS, openDispatch } from './dispatch.fixture.ts'

const fixture = openDispatch()
const { subscribe, dispatch, send, clock, call } = fixture

/** Responses by event. */
const respond = (responses: Readonly<Record<string, { status: number; body?: string } | 'none'>>) =>
  fixture.receiver.respondWith(({ headers }, response) => {
    const wanted = responses[String(headers['x-webhook-event'])] ?? { status: 200 }
    if (wanted !== 'none') return wanted
    response.destroy()
    return undefined
  })
const listed = async (query: string, path = '/webhook-deliveries') => {
  const { status, json, text } = await call('GET', `${path}?${query}`)
  expect(status, text).toBe(200)
  return json.data as { id: string; event: string; owner: string | null; url: string }[]
}
const eventsOf = async (...query: Parameters<typeof listed>) =>
  (await listed(...query)).map(({ event }) => event).toSorted()

describe('deliveries of all subscriptions', () => {
  test('have their owner and URL, and are those of one tenant with tenantId', async () => {
    const other = await createdTenant(fixture.tenancy)
    clock.advance(1) // after the last delivery of another test
    const from = clock.now().toISOString()
    await subscribe(fixture.id, ['order.*'])
    await subscribe(fixture.id, ['order.paid'], `${fixture.path}-second`)
    await subscribe(other, ['*'], `${fixture.path}-other`)
    await subscribe(null, ['order.sent'], `${fixture.path}-host`)
    await dispatch('order.paid')
    await dispatch('order.sent')
    await dispatch('order.paid', {}, other)
    const shown = (await listed(`from=${from}`)).map(({ event, owner, url }) => [event, owner, new URL(url).pathname])
    expect(shown.toSorted()).toEqual(
      [
        ['order.paid', fixture.id, fixture.path],
        ['order.paid', fixture.id, `${fixture.path}-second`],
        ['order.sent', fixture.id, fixture.path],
        ['order.sent', null, `${fixture.path}-host`],
        ['order.paid', other, `${fixture.path}-other`],
      ].toSorted(),
    )
    expect(await eventsOf(`tenantId=${fixture.id}`)).toEqual(['order.paid', 'order.paid', 'order.sent'])
    expect(await eventsOf(`tenantId=${fixture.id}&event=order.sent`)).toEqual(['order.sent'])
    expect(await eventsOf('tenantId=unknown')).toEqual([])
  })

  test.each(['', 'tenantId={id}'])('are paged newest first with the query "%s"', async (query) => {
    clock.advance(1) // after the last delivery of another test
    const from = clock.now().toISOString()
    await subscribe(fixture.id, ['*'])
    await subscribe(fixture.id, ['a.*'], `${fixture.path}-second`)
    const ids: string[] = []
    for (const event of ['a.b', 'c', 'a.b', 'a.d']) ids.push(...(await dispatch(event)))
    const seen: string[] = []
    const filter = `from=${from}&${query.replace('{id}', fixture.id)}`
    for (let cursor = ''; ; ) {
      const { json } = await call('GET', `/webhook-deliveries?limit=2&${filter}${cursor}`)
      seen.push(...json.data.map(({ id }: { id: string }) => id))
      if (json.nextCursor === null) break
      cursor = `&cursor=${json.nextCursor}`
      expect((await call('GET', `/webhook-deliveries?limit=2${cursor}`)).status).toBe(400)
    }
    expect(seen).toEqual(ids.toSorted().reverse())
  })

  test('are filtered by status, by its class, and by no response', async () => {
    respond({ unavailable: { status: 503 }, broken: { status: 500 }, missing: { status: 404 }, lost: 'none' })
    const webhookId = await subscribe(fixture.id, ['*'])
    for (const event of ['fine', 'unavailable', 'broken', 'missing', 'lost']) await dispatch(event)
    await send()
    await dispatch('waiting')
    const ofOne = `/tenants/${fixture.id}/webhooks/${webhookId}/deliveries`
    const queries: [query: string, events: string[]][] = [
      ['status=503', ['unavailable']],
      ['status=5xx', ['broken', 'unavailable']],
      ['status=4xx', ['missing']],
      ['status=2xx', ['fine']],
      ['status=200', ['fine']],
      ['status=none', ['lost']],
      ['status=5xx&state=retry_scheduled', ['broken', 'unavailable']],
      ['status=5xx&state=failed', []],
      ['state=pending', ['waiting']],
    ]
    for (const [query, events] of queries) {
      expect(await eventsOf(query, ofOne), query).toEqual(events)
      expect(await eventsOf(`tenantId=${fixture.id}&${query}`), query).toEqual(events)
    }
    expect(await eventsOf('status=503&event=unavailable')).toContain('unavailable')
    for (const query of ['status=6xx', 'status=', 'status=5', 'status=NONE', 'sameResponseAs=x', 'webhookId=x'])
      expect((await call('GET', `/webhook-deliveries?${query}`)).status, query).toBe(400)
    respond({})
    clock.advance(HOUR_MS)
    await send()
  })

  test('with sameResponseAs have the same last status, error and body', async () => {
    respond({
      one: { status: 500, body: 'no disk' },
      two: { status: 500, body: 'no disk' },
      three: { status: 500, body: 'no memory' },
      four: { status: 503, body: 'no disk' },
      five: 'none',
      six: 'none',
    })
    const webhookId = await subscribe(fixture.id, ['*'])
    const ids: Record<string, string> = {}
    for (const event of ['one', 'two', 'three', 'four', 'five', 'six', 'fine', 'good'])
      ids[event] = (await dispatch(event))[0] ?? ''
    await send()
    const ofOne = `/tenants/${fixture.id}/webhooks/${webhookId}/deliveries`
    for (const path of [ofOne, '/webhook-deliveries']) {
      const like = (event: string) =>
        eventsOf(`sameResponseAs=${ids[event]}&from=${clock.now().toISOString().slice(0, 10)}`, path)
      expect(await like('one')).toEqual(['one', 'two'])
      expect(await like('three')).toEqual(['three'])
      expect(await like('five')).toEqual(['five', 'six'])
      expect(await like('fine')).toEqual(expect.arrayContaining(['fine', 'good']))
    }
    const other = await subscribe(fixture.id, ['none'])
    const path = `/tenants/${fixture.id}/webhooks/${other}/deliveries?sameResponseAs=${ids.one}`
    expect(await call('GET', path)).toMatchObject({ status: 404, json: { code: 'E_DELIVERY_NOT_FOUND' } })
  })
})
