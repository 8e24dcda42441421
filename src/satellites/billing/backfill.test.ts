/** Events that were lost are fetched as the provider lists them, the newest first, a page at a time; they come to the same as in order. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { type OpenBilling, openBilling } from './billing.fixture.ts'
import { compare } from './telling.fixture.ts'
import { openWorlds, type World, type Worlds } from './world.fixture.ts'

const PAGE = 100
const LONG_AGO = new Date(0)

describe('what is held', () => {
  let open: OpenBilling
  beforeAll(async () => {
    open = await openBilling(inject('postgresUrl'))
  })
  afterAll(() => open.end())
  afterEach(() => open.provider.faults.clear())

  const happened = (count: number) => {
    for (let n = 0; n < count; n++) open.provider.emit('product.updated', { id: `prod_${n}`, object: 'product' })
  }
  const pagesAsked = (from: number) =>
    open.provider.requests.slice(from).filter(({ path }) => path === '/v1/events').length

  test('is never more than a page: the next is asked for when all of the one before are taken', async () => {
    happened(3 * PAGE + 1 - open.provider.events.length)
    const from = open.provider.requests.length
    let taken = 0
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.part.payments.events(LONG_AGO)) {
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
    expect(await Array.fromAsync(open.tenancy.billing.part.payments.events(since))).toHaveLength(PAGE + 1)
    expect(pagesAsked(from)).toBe(2)
  })

  test('is not asked for any more by whoever stops, and what was taken by then stays', async () => {
    happened(3 * PAGE)
    const from = open.provider.requests.length
    const { inbox, part } = open.tenancy.billing
    const before = (await open.inbox()).length
    for await (const event of part.payments.events(LONG_AGO)) {
      await inbox.take(event)
      if (open.provider.events.at(-5)?.id === event.id) break
    }
    expect(pagesAsked(from)).toBe(1)
    expect(await open.inbox()).toHaveLength(before + 5)
  })

  test('while events go on happening it misses none that there were, and has none twice', async () => {
    const there = open.provider.events.map(({ id }) => id)
    const ids: string[] = []
    for await (const { id } of open.tenancy.billing.part.payments.events(LONG_AGO)) {
      ids.push(id)
      if (ids.length % PAGE === 0) happened(3)
    }
    expect(ids).toEqual(there.toReversed())
  })
})

describe('what it comes to', () => {
  const LIVES = 3
  const ROUNDS = 6
  const TIMEOUT_MS = 120_000

  let worlds: Worlds
  beforeAll(async () => {
    worlds = await openWorlds(inject('postgresUrl'))
  })
  afterAll(() => worlds.end())

  /** All since then, each processed as soon as it is taken; then those that waited for another. */
  async function backfill({ other }: World, since: Date): Promise<void> {
    const { inbox, part, processing } = other.tenancy.billing
    for await (const event of part.payments.events(since)) {
      if (await inbox.take(event)) await processing.process(event.id, true)
    }
    for (let waiting = await other.waiting(); waiting.length > 0; waiting = await other.waiting()) {
      for (const id of waiting.toReversed()) await processing.process(id, true)
    }
  }

  test.each([3, 5, 8])(
    'is the same where nothing else arrives, the newest first: seed %i',
    async (seed) => {
      const world = await worlds.open(seed, LIVES)
      for (const life of world.lives) await life.begin()
      for (let round = 0; round < ROUNDS; round++) {
        const since = world.provider.now()
        await world.goOn()
        await backfill(world, round === 0 ? LONG_AGO : since)
        await world.other.tenancy.billing.dunning.sweep()
      }
      expect(await world.other.failed()).toEqual([])
      await compare(world)
      await world.end()
    },
    TIMEOUT_MS,
  )
})
