/** Tests that lost events are fetched newest first, page by page. Their effect is tested in stream.model.test.ts. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

const PAGE = 100
const LONG_AGO = new Date(0)

describe('fetching of events', () => {
  let open: OpenBilling
  beforeAll(async () => {
    open = await openBilling(inject('postgresUrl'))
  })
  afterAll(() => open.end())

  const emitEvents = (count: number) => {
    for (let n = 0; n < count; n++) open.provider.emit('product.updated', { id: `prod_${n}`, object: 'product' })
  }
  const pagesRequested = (from: number) =>
    open.provider.requests.slice(from).filter(({ path }) => path === '/v1/events').length

  test('loads the next page only after all events of the current page are taken', async () => {
    emitEvents(3 * PAGE + 1)
    const from = open.provider.requests.length
    let taken = 0
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.dependencies.payments.events(LONG_AGO)) {
      ids.push(id)
      taken += 1
      expect(pagesRequested(from)).toBe(Math.ceil(taken / PAGE))
    }
    expect(ids).toEqual(open.provider.events.map(({ id }) => id).toReversed())
  })

  test('returns all events at or after the given time', async () => {
    open.provider.advance({ seconds: 1 })
    const since = open.provider.now()
    emitEvents(PAGE + 1)
    const from = open.provider.requests.length
    expect(await Array.fromAsync(open.tenancy.billing.dependencies.payments.events(since))).toHaveLength(PAGE + 1)
    expect(pagesRequested(from)).toBe(2)
  })

  test('stops with the caller, and keeps the events taken so far', async () => {
    emitEvents(3 * PAGE)
    const from = open.provider.requests.length
    const { inbox, dependencies } = open.tenancy.billing
    const before = (await open.inbox()).length
    for await (const event of dependencies.payments.events(LONG_AGO)) {
      await inbox.take(event)
      if (open.provider.events.at(-5)?.id === event.id) break
    }
    expect(pagesRequested(from)).toBe(1)
    expect(await open.inbox()).toHaveLength(before + 5)
  })

  test('returns each existing event once while new events happen', async () => {
    const there = open.provider.events.map(({ id }) => id)
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.dependencies.payments.events(LONG_AGO)) {
      ids.push(id)
      if (ids.length % PAGE === 0) emitEvents(3)
    }
    expect(ids).toEqual(there.toReversed())
  })
})
