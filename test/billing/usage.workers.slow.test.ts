/** Workers close windows and send batches on their own schedule, until they stop or are killed. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { WAITING_LOCKS } from '../../src/testing/base/database.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Child, startChild } from '../support/child.ts'
import { latch } from '../support/latch.ts'
import { type Metered, openMetered, PLANS } from './usage.fixture.ts'

vi.setConfig({ testTimeout: 120_000 })

const MAX_WAIT_MS = 80_000
const options = {
  usage: { calls: { meter: 'api_calls', flushMs: 1_000 }, exports: { meter: 'exports_made', flushMs: 3_600_000 } },
}

describe('in this process', () => {
  let open: Metered

  beforeAll(async () => {
    open = await openMetered('postgres', { options })
  })
  afterAll(() => open.end())

  test.each(['all', 'worker'] as const)(
    'the role %s reports each quota as often as configured, and only while it runs',
    async (role) => {
      const { tenantId, customerId } = await open.payer()
      const worker = await open.open({ role })
      await worker.quotas.track(tenantId, 'calls', 4)
      await worker.quotas.track(tenantId, 'exports', 2)
      await eventually(() => expect(open.counted(customerId)).toBe(4), MAX_WAIT_MS)
      await worker.quotas.track(tenantId, 'calls', 1)
      await eventually(() => expect(open.counted(customerId)).toBe(5), MAX_WAIT_MS)
      await worker.stop()
      expect((await open.batches(tenantId)).map(({ meter }) => meter)).toEqual(['api_calls', 'api_calls'])
      await open.tenancy.quotas.track(tenantId, 'calls', 3)
      await open.report()
      expect(open.counted(customerId)).toBe(8)
    },
  )

  test('a worker that stops closes the window that it has begun to close', async () => {
    const { tenantId } = await open.payer()
    await open.tenancy.quotas.track(tenantId, 'calls', 4)
    const release = await latch(open.url, 'lock table multitenancy.billing_usage in share mode')
    const worker = await open.open({ role: 'worker' })
    await eventually(async () => {
      const { rows } = await open.tenancy.kernel.database.sql(
        `select from ${WAITING_LOCKS} where relation = 'multitenancy.billing_usage'::regclass`,
      )
      expect(rows).toHaveLength(1)
    }, MAX_WAIT_MS)
    let isStopped = false
    const stopping = worker.stop().then(() => {
      isStopped = true
    })
    await open.tenancy.kernel.database.sql('select pg_sleep(0.2)')
    expect(isStopped).toBe(false)
    await release()
    await stopping
    expect(await open.batches(tenantId)).toMatchObject([{ quantity: 4 }])
  })
})

describe('in processes that are killed', () => {
  let open: Metered
  const children: Child[] = []

  beforeAll(async () => {
    open = await openMetered('postgres', { options, provider: { start: new Date() } }) // the clock of the processes
  })
  afterAll(async () => {
    await Promise.all(children.map((child) => child.kill('SIGKILL')))
    await open.end()
  })

  const start = async (role: 'api' | 'all') => {
    const program = new URL('./usage-process.fixture.ts', import.meta.url)
    const child = await startChild(program, { url: open.url, plans: PLANS, options: open.options, role })
    children.push(child)
    return child
  }
  /** As if the time had passed in which a killed worker is missed, and its job retried. */
  const makeDue = () =>
    open.tenancy.kernel.database.sql(
      `update multitenancy_jobs.job set heartbeat_on = now() - interval '1 hour', start_after = now()
       where name = 'tenantry.ReportUsageBatch' and state in ('active', 'retry')`,
    )

  test('the batch of a worker that is killed while it sends is sent by the next worker, and counts once', async () => {
    const { tenantId, customerId } = await open.payer()
    const [counting, first] = await Promise.all([start('api'), start('all')])
    const held = open.provider.faults.hold({ path: '/v1/billing/meter_events' })
    await counting.request({ tenants: [tenantId], track: 11 })
    await held.arrived
    await counting.request({ tenants: [tenantId], track: 3 })
    await first.kill('SIGKILL')
    held.release()
    await makeDue()
    await start('all')
    await eventually(async () => {
      expect(open.counted(customerId)).toBe(14)
      const unsent = (await open.batches(tenantId)).filter(({ sentAt }) => sentAt === null)
      if (unsent.length > 0) await makeDue()
      expect(unsent).toEqual([])
    }, MAX_WAIT_MS)
  })
})
