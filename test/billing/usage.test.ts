/** Tests that usage of metered quotas reaches the provider's meter once per unit, with every store. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { billing } from '../../src/satellites/billing/index.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { type Metered, openMetered, STORES, type StoreName, timesOf } from './usage.fixture.ts'

const METER_EVENTS = '/v1/billing/meter_events'

const opened = new Map<StoreName, Promise<Metered>>()
/** One tenancy per store for all tests. */
const openWith = (store: StoreName) => {
  const open = opened.get(store) ?? openMetered(store)
  opened.set(store, open)
  return open
}
afterAll(async () => {
  for (const open of opened.values()) await (await open).end()
})

const warnsOfStore = (line: string) => line.includes('the store does not outlive the process')

describe.each(STORES)('usage counted in the store %s', (store) => {
  let open: Metered

  beforeAll(async () => {
    open = await openWith(store)
  })
  afterEach(() => {
    open.provider.faults.clear()
    Object.assign(open.provider.settings, { repeatedMeterEvents: 'reject' })
  })

  const track = (tenantId: string, amount: number) => open.tenancy.quotas.track(tenantId, 'calls', amount)

  test('contains tracked and consumed units, without rejected ones', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 3)
    await open.tenancy.quotas.consume(tenantId, 'calls', 4)
    await open.tenancy.quotas.consume(tenantId, 'exports', 5)
    await expect(open.tenancy.quotas.consume(tenantId, 'exports')).rejects.toMatchObject({ status: 429 })
    await open.tenancy.quotas.consume(tenantId, 'not-billed', 9)
    expect(await open.tenancy.billing.windows.close()).toBe(2)
    expect(await open.tenancy.billing.of(tenantId)).toMatchObject({
      unreportedUsage: [
        { meter: 'api_calls', quantity: 7 },
        { meter: 'exports_made', quantity: 5 },
      ],
    })
    await open.send()
    expect(open.counted(customerId)).toBe(7)
    expect(open.provider.usage('exports_made', customerId)).toBe(5)
    expect((await open.tenancy.billing.of(tenantId)).unreportedUsage).toEqual([])
    expect(await open.tenancy.billing.windows.close()).toBe(0)
  })

  test('is shown as unreported before it is a batch, together with unsent batches', async () => {
    const { tenantId, customerId } = await open.payer()
    // The milliseconds differ between stores.
    const sameMinute = () => expect.stringContaining(open.provider.now().toISOString().slice(0, 16))
    const unreported = async () => (await open.tenancy.billing.of(tenantId)).unreportedUsage
    const since = sameMinute()
    await track(tenantId, 3)
    await open.tenancy.quotas.track(tenantId, 'exports', 1)
    expect(await unreported()).toEqual([
      { meter: 'api_calls', quantity: 3, since },
      { meter: 'exports_made', quantity: 1, since },
    ])
    await open.tenancy.billing.windows.close()
    open.provider.advance({ seconds: 60 })
    await track(tenantId, 4)
    expect(await unreported()).toMatchObject([{ quantity: 7, since }, { quantity: 1 }])
    await open.send()
    expect(await unreported()).toEqual([{ meter: 'api_calls', quantity: 4, since: sameMinute() }])
    await open.report()
    expect(await unreported()).toEqual([])
    expect(open.counted(customerId)).toBe(7)
    const unpaid = await open.tenant()
    await track(unpaid, 2)
    expect((await open.tenancy.billing.of(unpaid)).unreportedUsage).toEqual([])
  })

  test('counts twice for two windows within one minute, and once for a window that is closed twice', async () => {
    const { tenantId, customerId } = await open.payer()
    for (const amount of [2, 3]) {
      await track(tenantId, amount)
      await open.tenancy.billing.windows.close()
      await open.tenancy.billing.windows.close()
    }
    await open.send()
    expect(open.counted(customerId)).toBe(5)
    expect(await open.batches(tenantId)).toHaveLength(2)
    const minutes = timesOf(open.provider).map((time) => time.slice(0, 16))
    expect(new Set(minutes.slice(-2)).size).toBe(1)
  })

  // Sending does not depend on the store.
  if (store === 'postgres') {
    test.each(['reject', 'accept'] as const)(
      'counts once when a batch is sent twice; a repeated identifier: %s',
      async (repeatedMeterEvents) => {
        Object.assign(open.provider.settings, { repeatedMeterEvents })
        const { tenantId, customerId } = await open.payer()
        await track(tenantId, 6)
        await open.tenancy.billing.windows.close()
        open.provider.faults.lose({ path: METER_EVENTS })
        await open.send()
        expect(await open.batches(tenantId)).toMatchObject([
          { sentAt: null, errorCode: 'provider_unavailable', attempts: 1 },
        ])
        await open.send()
        const [batch] = await open.batches(tenantId)
        expect(batch).toMatchObject({ sentAt: expect.any(Date), errorCode: null })
        await open.tenancy.billing.usage.send(batch?.id ?? '')
        expect(open.counted(customerId)).toBe(6)
      },
    )

    test('counts once when several runs of a job send its batch concurrently', async () => {
      const { tenantId, customerId } = await open.payer()
      await track(tenantId, 6)
      await open.tenancy.billing.windows.close()
      const [batch] = await open.batches(tenantId)
      await Promise.all(Array.from({ length: 5 }, () => open.tenancy.billing.usage.send(batch?.id ?? '')))
      expect(open.counted(customerId)).toBe(6)
      expect(await open.batches(tenantId)).toMatchObject([{ sentAt: expect.any(Date), errorCode: null }])
    })
  }

  test('of the previous day is reported with a time on that day', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 2)
    await open.report()
    await track(tenantId, 5)
    const day = open.provider.now().toISOString().slice(0, 10)
    open.toTomorrow()
    await track(tenantId, 11)
    const before = timesOf(open.provider).length
    await open.report()
    expect(open.counted(customerId)).toBe(18)
    expect(await open.batches(tenantId)).toMatchObject([{ quantity: 2 }, { quantity: 5 }, { quantity: 11 }])
    expect(timesOf(open.provider).slice(before)).toEqual([
      `${day}T23:59:59.000Z`,
      `${open.provider.now().toISOString().slice(0, 10)}T00:00:01.000Z`,
    ])
    open.toTomorrow()
    await open.report()
    expect(open.counted(customerId)).toBe(18)
  })

  test('is not affected by a reset of the quota, before and after it was reported', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 7)
    await open.tenancy.quotas.reset(tenantId, 'calls')
    await track(tenantId, 2)
    await open.report()
    expect(open.counted(customerId)).toBe(9)
    await open.tenancy.quotas.reset(tenantId)
    await open.report()
    await track(tenantId, 4)
    await open.tenancy.quotas.reset(tenantId)
    open.toTomorrow()
    await open.tenancy.quotas.reset(tenantId)
    await open.report()
    expect(open.counted(customerId)).toBe(13)
  })

  test('before a tenant has a customer is not billed, except on the day on which it gets one', async () => {
    const tenantId = await open.tenant()
    await track(tenantId, 100)
    await open.report()
    open.toTomorrow()
    await track(tenantId, 3)
    await open.report()
    expect(await open.batches(tenantId)).toEqual([])
    const customerId = await open.tenancy.billing.ensureCustomer(tenantId)
    await open.report()
    await track(tenantId, 4)
    await open.report()
    expect(open.counted(customerId)).toBe(7)
    open.toTomorrow()
    await open.report()
    expect(open.counted(customerId)).toBe(7)
  })

  // The store memory is not shared between processes.
  if (store !== 'memory')
    test('is batched once by ten concurrent closes of two processes while it grows', async () => {
      const other = await open.open()
      const payers = await Promise.all(Array.from({ length: 4 }, () => open.payer()))
      for (let round = 1; round <= 4; round++) {
        const closing = Array.from({ length: 10 }, (_, index) =>
          (index % 2 === 0 ? open.tenancy : other).billing.windows.close(),
        )
        await Promise.all([...closing, ...payers.map(({ tenantId }) => track(tenantId, round))])
        if (round === 2) await open.tenancy.quotas.reset(payers[0]?.tenantId ?? '', 'calls')
      }
      await open.report()
      expect(payers.map(({ customerId }) => open.counted(customerId))).toEqual([10, 10, 10, 10])
      await other.stop()
    })

  test('continues from the remaining count after the store lost data', async () => {
    const { tenantId, customerId } = await open.payer()
    await track(tenantId, 50)
    await open.report()
    if (store === 'memory') {
      const next = await open.open()
      await next.quotas.track(tenantId, 'calls', 3)
      await track(tenantId, 1)
      await open.report(next)
      await open.report()
      await next.stop()
      expect(open.counted(customerId)).toBe(54)
      return
    }
    await open.emptyStore()
    await open.report()
    await track(tenantId, 4)
    await open.report()
    expect(open.counted(customerId)).toBe(54)
    expect(open.log.join()).toContain('the store lost counted usage')
  })
})

describe('the start of a process with billing', () => {
  test.each(STORES)(
    'warns only if the store does not outlive the process and a quota is metered: store %s',
    async (store) => {
      expect((await openWith(store)).log.some(warnsOfStore)).toBe(store === 'memory')
    },
  )

  test('does not warn without metered quotas', async () => {
    const { open, options, log } = await openWith('memory')
    const before = log.filter(warnsOfStore).length
    const unpaid = await open({ satellites: [quotas(), billing({ ...options, usage: {} })] })
    expect(log.filter(warnsOfStore)).toHaveLength(before)
    expect(await unpaid.billing.windows.close()).toBe(0)
    await unpaid.stop()
  })
})
