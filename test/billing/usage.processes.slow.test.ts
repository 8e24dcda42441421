/** Tests that each unit is reported once while processes are killed, and while many processes work concurrently. */
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

/** Batches do not depend on the store, so Redis runs only the tests of counting. */
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
  })
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGKILL')))
    await open.end()
  })
  afterEach(() => {
    open.provider.faults.clear()
    Object.assign(open.provider.settings, { repeatedMeterEvents: 'reject' })
  })

  /** The process to kill, and one that continues. */
  const two = () => {
    const [next] = children
    const first = children.pop()
    if (!next || !first) throw new Error('no process left')
    return [first, next] as const
  }
  const openBatches = async (tenantId: string) => {
    const batches = await open.batches(tenantId)
    return batches.filter(({ sentAt }) => sentAt === null).map(({ id }) => id)
  }
  const sendAll = async (by: Child, tenantId: string) => {
    for (const id of await openBatches(tenantId)) await by.request({ send: id })
  }
  /** Resolves when the request has ended in any way. */
  const cutOff = (response: Promise<unknown>) => response.catch((error: Error) => error.message)

  test('that count, reset, close and send concurrently report each unit once', async () => {
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
    if (!last) throw new Error('no process left')
    await last.request({ close: true })
    for (const tenantId of tenants) await sendAll(last, tenantId)
    const all = children.length * CALLS * 3 // other tests have killed some processes
    expect(payers.map(({ customerId }) => open.counted(customerId))).toEqual([all, all + 1_000, all, all, all])
  })

  test('lose no usage when one is killed after it has counted', async () => {
    const { tenantId, customerId } = await open.payer()
    const [first, next] = two()
    await first.request({ tenants: [tenantId], track: 25, reset: true })
    await first.kill('SIGKILL')
    await next.request({ tenants: [tenantId], track: 5, close: true })
    await sendAll(next, tenantId)
    expect(open.counted(customerId)).toBe(30)
  })

  if (store === 'redis') return

  test('lose no usage when one is killed while it closes a window', async () => {
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

  test('send the batch of one that is killed before it sends', async () => {
    const { tenantId, customerId } = await open.payer()
    const [first, next] = two()
    await first.request({ tenants: [tenantId], track: 4, close: true })
    await first.kill('SIGKILL')
    await next.request({ close: true })
    await sendAll(next, tenantId)
    expect(open.counted(customerId)).toBe(4)
  })

  test.each(['reject', 'accept'] as const)(
    'count a batch once when its sender is killed before the response; a repeated identifier: %s',
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
