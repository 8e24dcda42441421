import { afterAll, beforeAll, expect, test } from 'vitest'
import { Attention } from '../../tenants/overview/attention.ts'
import type { OpenBilling } from './billing.fixture.ts'
import { DAYS, type Debtors, openDebtors } from './dunning/dunning.fixture.ts'

let open: OpenBilling & Debtors
beforeAll(async () => {
  open = await openDebtors('suspend')
})
afterAll(() => open.end())

const kinds = async (tenantId: string) =>
  (await new Attention(open.tenancy.kernel).list({ tenantId })).data.map(({ kind }) => kind)
const dunningOf = async (tenantId: string) =>
  (await open.tenancy.tenants.explain(tenantId)).checks.find(({ check }) => check === 'dunning')

test('an unpaid period is in the attention list, the explanation and the timeline', async () => {
  const { tenantId } = await open.debtor()
  expect(await kinds(tenantId)).toEqual(['paymentRetrying'])
  expect(await dunningOf(tenantId)).toMatchObject({ passed: true, message: expect.stringContaining('retrying') })
  await open.pass({ days: DAYS.retry })
  expect(await kinds(tenantId)).toEqual(['paymentGrace'])
  await open.pass({ days: DAYS.grace })
  expect(await dunningOf(tenantId)).toMatchObject({
    passed: false,
    code: 'E_TENANT_SUSPENDED',
    remedy: { operation: 'billing.portal', params: { id: tenantId } },
  })
  const { timelines } = open.tenancy.tenants.overview
  const first = await timelines.list(tenantId, { kind: 'dunning', limit: 1 })
  const second = await timelines.list(tenantId, { kind: 'dunning', limit: 1, cursor: first.nextCursor ?? '' })
  expect([...first.data, ...second.data].map(({ title }) => title)).toEqual(['Dunning suspended', 'Dunning opened'])
})

test('usage that is not reported for 15 minutes is in the attention list', async () => {
  const { tenantId } = await open.payer()
  await open.tenancy.kernel.database.sql(
    `insert into multitenancy.billing_usage (id, tenant_id, meter, quantity, used_at, next_attempt_at)
     values (gen_random_uuid(), $1, 'calls', 3, $2, null)`,
    [tenantId, new Date(open.tenancy.kernel.clock.now().getTime() - 16 * 60_000)],
  )
  const { data } = await new Attention(open.tenancy.kernel).list({ tenantId, kind: 'usageUnreported' })
  expect(data).toMatchObject([{ severity: 'high', count: 1, operation: 'billing.get' }])
})

test('a provider without an event for a day is in the attention list of all tenants', async () => {
  const { tenantId } = await open.payer()
  const listed = async (filter: { tenantId?: string }) =>
    (await new Attention(open.tenancy.kernel).list({ kind: 'providerSilent', ...filter })).data
  expect(await listed({})).toEqual([])
  await open.tenancy.kernel.database.sql(
    `update multitenancy.billing_inbox set received_at = received_at - interval '2 days'`,
    [],
  )
  expect(await listed({})).toMatchObject([{ tenantId: null, operation: 'doctor.get' }])
  expect(await listed({ tenantId })).toEqual([])
})
