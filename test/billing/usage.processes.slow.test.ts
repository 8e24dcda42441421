/** Usage while processes are killed where it hurts, and while many of them do the same at once: each unit is reported once. */
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { WAITING_LOCKS } from '../../src/testing/base/database.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Child, startChild } from '../support/child.ts'
import { latch } from '../support/latch.ts'
import { type Metered, openMetered, PLANS } from './usage.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const CALLS = 20
const METER_EVENTS = '/v1/billing/meter_events'

/** What becomes of a batch does not depend on the store: with Redis only what counts in it is tried. */
describe.each([
  ['postgres', 8],
  ['redis', 3],
] as const)('with the store %s, %i processes', (store, processes) => {
  let open: Metered
  let children: Child[] = []

  beforeAll(async () => {
    open = await openMetered(store, {
      options: { usage: { calls: { meter: 'api_calls' } } },
      provider: { start: new Date() },
    })
    const redis = store === 'redis' ? { redisUrl: inject('redisUrl'), keyPrefix: open.keyPrefix } : {}
    const options = { url: open.url, plans: PLANS, options: open.options, ...redis }
    const program = new URL('./usage-process.fixture.ts', import.meta.url)
    children = await Promise.all(Array.from({ length: processes }, () => startChild(program, options)))
  }, 90_000)
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGKILL')))
    await open.end()
  })
  afterEach(() => {
    open.provider.faults.clear()
    Object.assign(open.provider.settings, { repeatedMeterEvents: 'refuse' })
  })

  /** One that is killed, and one that goes on. */
  const two = () => {
    const [next] = children
    const first = children.pop()
    if (!next || !first) throw new Error('there is none left')
    return [first, next] as const
  }
  const openBatches = async (tenantId: string) => {
    const batches = await open.batches(tenantId)
    return batches.filter(({ sentAt }) => sentAt === null).map(({ id }) => id)
  }
  const sendAll = async (by: Child, tenantId: string) => {
    for (const id of await openBatches(tenantId)) await by.request({ send: id })
  }
  /** Until it has an end. */
  const cutOff = (response: Promise<unknown>) => response.catch((error: Error) => error.message)

  test('that count, reset, close and send at once report each unit once', async () => {
    const payers = await Promise.all(Array.from({ length: 5 }, () => open.payer()))
    const tenants = payers.map(({ tenantId }) => tenantId)
    const id = uuidv7()
    const report = { tenant: tenants[1], quantity: 1_000, id }
    const responses = await Promise.all(
      children.map(async (child, index) => {
        for (let round = 0; round < 3; round++) {
          await child.request({ tenants, track: CALLS, reset: index === 0, close: true })
          for (const tenantId of tenants.slice(index % 2)) await sendAll(child, tenantId)
        }
        return child.request({ report })
      }),
    )
    expect(responses.filter(Boolean)).toHaveLength(1)
    const [last] = children
    if (!last) throw new Error('there is none')
    await last.request({ close: true })
    for (const tenantId of tenants) await sendAll(last, tenantId)
    const all = children.length * CALLS * 3 // other tests have killed some of them
    expect(payers.map(({ customerId }) => open.counted(customerId))).toEqual([all, all + 1_000, all, all, all])
  })

  test('one that is killed after it has counted loses nothing', async () => {
    const { tenantId, customerId } = await open.payer()
    const [first, next] = two()
    await first.request({ tenants: [tenantId], track: 25, reset: true })
    await first.kill('SIGKILL')
    await next.request({ tenants: [tenantId], track: 5, close: true })
    await sendAll(next, tenantId)
    expect(open.counted(customerId)).toBe(30)
  })

  if (store === 'redis') return

  test('one that is killed while it closes a window has not closed it', async () => {
    const { tenantId, customerId } = await open.payer()
    const [first, next] = two()
    await first.request({ tenants: [tenantId], track: 7 })
    const release = await latch(open.url, 'lock table multitenancy.billing_usage in share mode')
    const closing = cutOff(first.request({ close: true }))
    const isBlocked = async () => {
      const { rows } = await open.tenancy.kernel.database.sql(
        `select from ${WAITING_LOCKS} where relation = 'multitenancy.billing_usage'::regclass`,
      )
      expect(rows).toHaveLength(1)
    }
    await eventually(isBlocked)
    await first.kill('SIGKILL')
    await closing
    await release()
    await eventually(async () => {
      await next.request({ close: true })
      expect(await openBatches(tenantId)).toHaveLength(1)
    })
    await sendAll(next, tenantId)
    expect(open.counted(customerId)).toBe(7)
  })

  test('one that is killed before it has sent a batch leaves it to another', async () => {
    const { tenantId, customerId } = await open.payer()
    const [first, next] = two()
    await first.request({ tenants: [tenantId], track: 4, close: true })
    await first.kill('SIGKILL')
    await next.request({ close: true })
    await sendAll(next, tenantId)
    expect(open.counted(customerId)).toBe(4)
  })

  test.each(['refuse', 'accept'] as const)(
    'one that is killed before it knows that a batch has arrived has sent it once: repetitions are met with %s',
    async (repeatedMeterEvents) => {
      Object.assign(open.provider.settings, { repeatedMeterEvents })
      const { tenantId, customerId } = await open.payer()
      const [first, next] = two()
      await first.request({ tenants: [tenantId], track: 6, close: true })
      const [id] = await openBatches(tenantId)
      const held = open.provider.faults.hold({ path: METER_EVENTS })
      const sending = cutOff(first.request({ send: id }))
      await held.arrived
      await first.kill('SIGKILL')
      held.release()
      await sending
      expect(open.counted(customerId)).toBe(6)
      expect(await openBatches(tenantId)).toEqual([id])
      await sendAll(next, tenantId)
      expect(open.counted(customerId)).toBe(6)
      expect(await openBatches(tenantId)).toEqual([])
    },
  )
})
