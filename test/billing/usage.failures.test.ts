/** Tests usage reports while the provider is unavailable, rejects them, or no longer accepts them. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { jobs } from '../../src/satellites/billing/jobs.ts'
import { SweepBilling } from '../../src/satellites/billing/model/job-types.ts'
import { type Metered, openMetered } from './usage.fixture.ts'

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAYS = 24 * HOUR

let open: Metered

beforeAll(async () => {
  const usage = { calls: { meter: 'api_calls' }, looks: { meter: 'looks_taken' } }
  const dunning = { action: 'suspend' } as const
  open = await openMetered('postgres', { options: { usage, dunning, webhook: { retentionDays: 30 } } })
})
afterAll(() => open.end())
beforeEach(() => emptyQueue())
afterEach(() => open.provider.faults.clear())

const emptyQueue = () =>
  open.tenancy.kernel.database.sql(`delete from multitenancy_jobs.job where name = 'tenantry.ReportUsageBatch'`)
const waitingJobs = async () => {
  const { rows } = await open.tenancy.kernel.database.sql(
    `select data ->> 'id' as id from multitenancy_jobs.job where name = 'tenantry.ReportUsageBatch'`,
  )
  return rows.map(({ id }) => id)
}
/** Creates jobs for due batches, and runs all jobs, as a worker does. */
const sweep = async () => {
  await open.tenancy.billing.usage.resend()
  const ids = await waitingJobs()
  await emptyQueue()
  for (const id of ids) await open.tenancy.billing.usage.send(id)
  return ids.length
}
const used = async (quota = 'calls', amount = 5) => {
  const payer = await open.payer()
  await open.tenancy.quotas.track(payer.tenantId, quota, amount)
  await open.tenancy.billing.windows.close()
  return payer
}
const findings = async (tenantId: string) => {
  const { checks } = await open.tenancy.doctor.examine()
  return checks.filter((check) => check.tenantId === tenantId && check.name === 'billing.usage')
}
const reports = () => open.provider.requests.filter(({ path }) => path === '/v1/billing/meter_events').length

describe('usage reports while the provider is unavailable', () => {
  test('are retried at growing intervals, with one job, and arrive after the outage', async () => {
    const { tenantId, customerId } = await used()
    await open.provider.down()
    const tries: number[] = []
    for (let minute = 0; minute < 120; minute++) {
      if ((await sweep()) > 0) tries.push(minute)
      open.provider.advance({ seconds: MINUTE })
    }
    expect(tries).toEqual([0, 1, 3, 7, 15, 30, 45, 60, 75, 90, 105])
    expect(await open.batches(tenantId)).toMatchObject([
      { sentAt: null, errorCode: 'provider_unavailable', attempts: 11 },
    ])
    expect(await findings(tenantId)).toMatchObject([
      {
        severity: 'warn',
        code: 'billing.usage-unreported',
        message: expect.stringMatching(/^5 of "api_calls" .*provider_unavailable$/),
      },
    ])
    await open.provider.up()
    for (let minute = 0; minute < 16; minute++) {
      await sweep()
      open.provider.advance({ seconds: MINUTE })
    }
    expect(open.counted(customerId)).toBe(5)
    expect(await findings(tenantId)).toEqual([])
    expect(await sweep()).toBe(0)
  })

  test.each([
    [500, 'provider_unavailable'],
    [429, 'provider_rate_limited'],
  ])('are retried after a response of %i', async (status, errorCode) => {
    const { tenantId, customerId } = await used()
    open.provider.faults.respond(status, { times: 1, headers: { 'stripe-should-retry': 'false' } })
    await sweep()
    expect(await open.batches(tenantId)).toMatchObject([{ sentAt: null, errorCode }])
    open.provider.advance({ seconds: MINUTE })
    await sweep()
    expect(open.counted(customerId)).toBe(5)
  })

  test('are sent again if their job was lost', async () => {
    const { customerId } = await used()
    await emptyQueue()
    open.provider.advance({ seconds: 9 * MINUTE })
    expect(await sweep()).toBe(0)
    open.provider.advance({ seconds: MINUTE })
    expect(await sweep()).toBe(1)
    expect(open.counted(customerId)).toBe(5)
  })

  test('get no second job while their job waits', async () => {
    const { tenantId } = await used()
    for (let hour = 0; hour < 3; hour++) {
      open.provider.advance({ seconds: HOUR })
      expect(await open.tenancy.billing.usage.resend()).toBeGreaterThan(0)
    }
    const [batch] = await open.batches(tenantId)
    expect((await waitingJobs()).filter((id) => id === batch?.id)).toHaveLength(1)
    await sweep()
  })

  test('are all sent if there are more than one sweep selects', async () => {
    const { tenantId, customerId } = await open.payer()
    await open.tenancy.kernel.database.sql(
      `insert into multitenancy.billing_usage (id, tenant_id, meter, quantity, used_at, next_attempt_at)
       select gen_random_uuid(), $1, 'api_calls', 1, $2, $2 from generate_series(1, 501)`,
      [tenantId, open.provider.now()],
    )
    expect(await open.tenancy.billing.usage.resend()).toBe(501)
    expect(await open.tenancy.billing.usage.resend()).toBe(0)
    const ids = await waitingJobs()
    expect(new Set(ids).size).toBe(501)
    for (let n = 0; n < ids.length; n += 10) {
      await Promise.all(ids.slice(n, n + 10).map((id) => open.tenancy.billing.usage.send(id)))
    }
    expect(open.counted(customerId)).toBe(501)
  })
})

describe('usage that the provider rejects', () => {
  test('is kept, reported as a finding, retried hourly, and sent when the cause is fixed', async () => {
    const { tenantId, customerId } = await used('looks', 8)
    const before = reports()
    for (let minute = 0; minute < 120; minute++) {
      await sweep()
      open.provider.advance({ seconds: MINUTE })
    }
    expect(reports() - before).toBe(2)
    expect(await findings(tenantId)).toMatchObject([
      {
        code: 'billing.usage-unreported',
        message: expect.stringMatching(/provider_rejected$/),
        remedy: expect.stringContaining('meter exists'),
      },
    ])
    expect((await open.tenancy.billing.of(tenantId)).unreportedUsage).toMatchObject([
      { meter: 'looks_taken', quantity: 8 },
    ])
    open.provider.meter({ eventName: 'looks_taken' })
    open.provider.advance({ seconds: HOUR })
    await sweep()
    expect(open.provider.usage('looks_taken', customerId)).toBe(8)
    expect(await findings(tenantId)).toEqual([])
  })

  test('because its customer was deleted is reported to the next customer', async () => {
    const { tenantId, customerId } = await used()
    open.provider.deleteCustomer(customerId)
    await sweep()
    expect(await open.batches(tenantId)).toMatchObject([{ sentAt: null, errorCode: 'provider_rejected' }])
    await open.tenancy.billing.customers.closeGone(customerId)
    const next = await open.tenancy.billing.ensureCustomer(tenantId)
    expect(next).not.toBe(customerId)
    open.provider.advance({ seconds: HOUR })
    await sweep()
    expect(open.counted(next)).toBe(5)
  })
})

describe('usage that is older than the provider accepts', () => {
  test('is reported as lost until it is deleted, without further requests', async () => {
    const { tenantId, customerId } = await used()
    await open.provider.down()
    await sweep()
    open.provider.advance({ seconds: 35 * DAYS + 1 })
    await open.provider.up()
    const before = reports()
    for (let day = 0; day < 3; day++) {
      await sweep()
      open.provider.advance({ seconds: DAYS })
    }
    expect(reports()).toBe(before)
    expect(open.counted(customerId)).toBe(0)
    expect(open.log.filter((line) => line.includes('not reported within 35 days'))).toHaveLength(1)
    expect(await findings(tenantId)).toMatchObject([
      { severity: 'error', code: 'billing.usage-expired', message: expect.stringContaining('5 of "api_calls"') },
    ])
    expect((await open.tenancy.billing.of(tenantId)).unreportedUsage).toMatchObject([{ quantity: 5 }])
    await open.tenancy.billing.usage.cleanUp()
    expect(await findings(tenantId)).toHaveLength(1)
    open.provider.advance({ seconds: 28 * DAYS })
    await open.tenancy.billing.usage.cleanUp()
    expect(await findings(tenantId)).toEqual([])
    expect(await open.batches(tenantId)).toEqual([])
  })

  test('is still reported a second before the limit', async () => {
    const { customerId } = await used()
    open.provider.advance({ seconds: 35 * DAYS - 1 })
    await sweep()
    expect(open.counted(customerId)).toBe(5)
  })
})

test('reported usage and its id are kept as long as events', async () => {
  const { tenantId } = await open.payer()
  const id = uuidv7()
  const report = () => open.tenancy.billing.reportUsage(tenantId, 'api_calls', 2, { id })
  await report()
  await sweep()
  open.provider.advance({ seconds: 29 * DAYS })
  await open.tenancy.billing.usage.cleanUp()
  expect(await report()).toBe(false)
  open.provider.advance({ seconds: 2 * DAYS })
  await open.tenancy.billing.usage.cleanUp()
  expect(await open.batches(tenantId)).toEqual([])
})

test('watermarks of past days are deleted, and their usage is not reported again', async () => {
  const { tenantId, customerId } = await used()
  await sweep()
  open.provider.advance({ seconds: 8 * DAYS })
  await open.tenancy.billing.usage.cleanUp()
  await open.report()
  expect(open.counted(customerId)).toBe(5)
  const { rows } = await open.tenancy.kernel.database.sql(
    'select from multitenancy.billing_usage_watermarks where tenant_id = $1',
    [tenantId],
  )
  expect(rows).toEqual([])
})

test('a failing sweep does not prevent the other sweeps, and the job fails', async () => {
  const { database } = open.tenancy.kernel
  await used()
  await emptyQueue()
  open.provider.advance({ seconds: HOUR })
  await database.sql('alter table multitenancy.billing_dunning rename to hidden')
  const job = jobs.find(({ type }) => type === SweepBilling)
  const swept = job?.handle(open.tenancy.billing, {}, { number: 1, isLast: true, signal: new AbortController().signal })
  await expect(swept).rejects.toMatchObject({ errors: [{ message: expect.stringContaining('billing_dunning') }] })
  await database.sql('alter table multitenancy.hidden rename to billing_dunning')
  expect(await waitingJobs()).toHaveLength(1)
})
