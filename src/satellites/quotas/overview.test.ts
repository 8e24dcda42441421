import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Attention } from '../../tenants/overview/attention.ts'
import { openQuotas, type QuotasOpened } from './quotas.fixture.ts'

let open: QuotasOpened
let id: string
beforeAll(async () => {
  open = await openQuotas('memory')
})
afterAll(() => open.opened.end())
beforeEach(async () => {
  id = await open.tenant()
})

const use = async (amount: number) => {
  const { quotas } = open.opened.tenancy
  await quotas.consume(id, 'exports', amount).catch(() => undefined)
  await quotas.alerts.settled()
}
const kinds = async () => {
  const { data, failed } = await new Attention(open.opened.tenancy.kernel).list({ tenantId: id })
  expect(failed).toEqual([])
  return data.map(({ kind, title, params }) => [kind, title, params])
}

test('a quota is in the attention list from 80 %, once with its worst condition', async () => {
  await use(7)
  expect(await kinds()).toEqual([])
  await use(1)
  expect(await kinds()).toEqual([['quotaThreshold', 'Quota reached 80 %: exports', { id }]])
  await use(5)
  expect(await kinds()).toEqual([['quotaExceeded', 'Quota exceeded: exports', { id }]])
})

test('alerts of quotas are in the timeline, page by page', async () => {
  await use(9)
  await use(5)
  const { timelines } = open.opened.tenancy.tenants.overview
  const first = await timelines.list(id, { kind: 'quota', limit: 1 })
  const second = await timelines.list(id, { kind: 'quota', limit: 1, cursor: first.nextCursor ?? '' })
  const titles = [...first.data, ...second.data].map(({ title }) => title)
  expect(titles.toSorted()).toEqual(['Quota reached 80 %: exports', 'Quota rejected: exports'])
  expect(second.nextCursor).toBeNull()
})

test('the explanation names used up quotas with their remedy', async () => {
  const check = async () => {
    const { checks } = await open.opened.tenancy.tenants.explain(id)
    return checks.find(({ check }) => check === 'quotas')
  }
  await open.opened.tenancy.quotas.setUsage(id, 'seats', 2)
  expect(await check()).toMatchObject({ passed: false, message: 'Used up: none (0 of 0).' }) // a limit of 0
  await use(10)
  expect(await check()).toMatchObject({
    passed: false,
    code: 'E_TENANT_QUOTA_EXCEEDED',
    message: 'Used up: exports (10 of 10), none (0 of 0).',
    remedy: { operation: 'quotas.reset', params: { id } },
  })
})
