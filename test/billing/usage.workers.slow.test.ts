/** Windows are closed and batches sent by workers, without being asked, until they stop, or are killed. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Child, startChild } from '../../src/testing/child.ts'
import { holding } from '../../src/testing/holding.ts'
import { eventually } from '../../src/testing/tenancy.ts'
import { type Metered, openMetered, PLANS } from './usage.fixture.ts'

vi.setConfig({ testTimeout: 120_000 })

const PATIENCE_MS = 80_000

let open: Metered
const children: Child[] = []

beforeAll(async () => {
  const usage = {
    calls: { meter: 'api_calls', flushMs: 1_000 },
    exports: { meter: 'exports_made', flushMs: 3_600_000 },
  }
  open = await openMetered('postgres', { options: { usage }, provider: { start: new Date() } })
})
afterAll(async () => {
  await Promise.all(children.map((child) => child.kill('SIGKILL')))
  await open.end()
})
afterEach(() => open.provider.faults.clear())

const unsent = async (tenantId: string) => (await open.batches(tenantId)).filter(({ sentAt }) => sentAt === null)

describe.each(['all', 'worker'] as const)('a process with the role %s', (role) => {
  test('reports each quota as often as it is configured, and only while it runs', async () => {
    const { tenantId, customerId } = await open.payer()
    const worker = await open.open({ role })
    await worker.quotas.track(tenantId, 'calls', 4)
    await worker.quotas.track(tenantId, 'exports', 2)
    await eventually(() => expect(open.counted(customerId)).toBe(4), PATIENCE_MS)
    await worker.quotas.track(tenantId, 'calls', 1)
    await eventually(() => expect(open.counted(customerId)).toBe(5), PATIENCE_MS)
    await worker.stop()
    expect((await open.batches(tenantId)).map(({ meter }) => meter)).toEqual(['api_calls', 'api_calls'])
    await open.tenancy.quotas.track(tenantId, 'calls', 3)
    await open.report()
    expect(open.counted(customerId)).toBe(8)
  })
})

test('a window that is being closed is closed before the end of its process', async () => {
  const { tenantId } = await open.payer()
  await open.tenancy.quotas.track(tenantId, 'calls', 4)
  const release = await holding(open.url, 'lock table multitenancy.billing_usage in share mode')
  const worker = await open.open({ role: 'worker' })
  await eventually(async () => {
    const { rows } = await open.tenancy.kernel.database.sql(
      `select from pg_locks where not granted and relation = 'multitenancy.billing_usage'::regclass`,
    )
    expect(rows).toHaveLength(1)
  }, PATIENCE_MS)
  let isStopped = false
  const stopping = worker.stop().then(() => {
    isStopped = true
  })
  await expect(open.tenancy.kernel.database.sql('select pg_sleep(0.2)')).resolves.toBeDefined()
  expect(isStopped).toBe(false)
  await release()
  await stopping
  expect(await open.batches(tenantId)).toMatchObject([{ quantity: 4 }])
})

test('one that is killed while it sends is followed by another, by itself', async () => {
  await open.report() // nothing else is there to be sent
  const { tenantId, customerId } = await open.payer()
  const program = new URL('./usage-process.fixture.ts', import.meta.url)
  const start = async (role: 'api' | 'all') => {
    const child = await startChild(program, { url: open.url, plans: PLANS, options: open.options, role })
    children.push(child)
    return child
  }
  const [counting, first] = await Promise.all([start('api'), start('all')])
  const held = open.provider.faults.hold({ path: '/v1/billing/meter_events' })
  await counting.ask({ tenants: [tenantId], track: 11 })
  await held.arrived
  await counting.ask({ tenants: [tenantId], track: 3 })
  await first.kill('SIGKILL')
  held.release()
  await start('all')
  await eventually(async () => {
    expect(open.counted(customerId)).toBe(14)
    expect(await unsent(tenantId)).toEqual([])
  }, 75_000)
})

describe('the start', () => {
  const warned = (tenancy: Metered) => tenancy.log.some((line) => line.includes('the store ends with the process'))

  test('warns where the store ends with the process, and usage is paid for', async () => {
    const inMemory = await openMetered('memory')
    expect(warned(inMemory)).toBe(true)
    await inMemory.end()
    const unpaid = await openMetered('memory', { options: { usage: {} } })
    expect(warned(unpaid)).toBe(false)
    expect(await unpaid.tenancy.billing.windows.close()).toBe(0)
    await unpaid.end()
    expect(warned(open)).toBe(false)
  })
})
