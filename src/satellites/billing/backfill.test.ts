/** Events that were lost are fetched as the provider lists them, the newest first, a page at a time. What they come to is in stream.model.test.ts. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from './billing.fixture.ts'

const PAGE = 100
const LONG_AGO = new Date(0)

describe('what is held', () => {
  let open: OpenBilling
  beforeAll(async () => {
    open = await openBilling(inject('postgresUrl'))
  })
  afterAll(() => open.end())

  const happened = (count: number) => {
    for (let n = 0; n < count; n++) open.provider.emit('product.updated', { id: `prod_${n}`, object: 'product' })
  }
  const pagesAsked = (from: number) =>
    open.provider.requests.slice(from).filter(({ path }) => path === '/v1/events').length

  test('is never more than a page: the next is asked for when all of the one before are taken', async () => {
    happened(3 * PAGE + 1)
    const from = open.provider.requests.length
    let taken = 0
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.dependencies.payments.events(LONG_AGO)) {
      ids.push(id)
      taken += 1
      expect(pagesAsked(from)).toBe(Math.ceil(taken / PAGE))
    }
    expect(ids).toEqual(open.provider.events.map(({ id }) => id).toReversed())
  })

  test('is all of a moment and later, and nothing before it', async () => {
    open.provider.advance({ seconds: 1 })
    const since = open.provider.now()
    happened(PAGE + 1)
    const from = open.provider.requests.length
    expect(await Array.fromAsync(open.tenancy.billing.dependencies.payments.events(since))).toHaveLength(PAGE + 1)
    expect(pagesAsked(from)).toBe(2)
  })

  test('is not asked for any more by whoever stops, and what was taken by then stays', async () => {
    happened(3 * PAGE)
    const from = open.provider.requests.length
    const { inbox, dependencies } = open.tenancy.billing
    const before = (await open.inbox()).length
    for await (const event of dependencies.payments.events(LONG_AGO)) {
      await inbox.take(event)
      if (open.provider.events.at(-5)?.id === event.id) break
    }
    expect(pagesAsked(from)).toBe(1)
    expect(await open.inbox()).toHaveLength(before + 5)
  })

  test('while events go on happening it misses none that there were, and has none twice', async () => {
    const there = open.provider.events.map(({ id }) => id)
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.dependencies.payments.events(LONG_AGO)) {
      ids.push(id)
      if (ids.length % PAGE === 0) happened(3)
    }
    expect(ids).toEqual(there.toReversed())
  })
})
