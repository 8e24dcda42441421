import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

const plans = { defaultPlan: 'free', definitions: { free: { limits: {} }, pro: { limits: {} } } }

let opened: TestTenancy<[]>

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { plans })
  const { tenants, kernel } = opened.tenancy
  await installed(opened.tenancy, { id: 'one', name: 'One', metadata: { plan: 'pro' } })
  await installed(opened.tenancy, { id: 'two', name: 'Two' })
  await installed(opened.tenancy, { id: 'three', name: 'Three' })
  await tenants.suspend('two')
  await tenants.delete('three')
  await kernel.database.sql(
    `update multitenancy.tenants set placement = 'eu-1', metadata = '{"plan":"retired"}' where id = 'two'`,
  )
  await kernel.database.sql(`insert into multitenancy.lost_placements values ('gone-1', '2026-01-31T12:00:00Z')`)
})
afterAll(() => opened.end())

describe('counts of tenants', () => {
  test('include values without tenants, and deleted tenants by status only', async () => {
    const { data, asOf } = await opened.tenancy.tenants.overview.counts.get()
    expect(data).toEqual([
      { by: 'status', value: 'provisioning', count: 0 },
      { by: 'status', value: 'active', count: 1 },
      { by: 'status', value: 'suspended', count: 1 },
      { by: 'status', value: 'failed', count: 0 },
      { by: 'status', value: 'deleted', count: 1 },
      { by: 'plan', value: 'free', count: 1 },
      { by: 'plan', value: 'pro', count: 1 },
      { by: 'isolation', value: 'schema-pg', count: 2 },
      { by: 'placement', value: 'main', count: 1 },
      { by: 'placement', value: 'eu-1', count: 1 },
    ])
    expect(new Date(asOf).getTime()).toBeLessThanOrEqual(Date.now())
  })

  test('are those of the last load, which later callers share', async () => {
    const { counts } = opened.tenancy.tenants.overview
    const first = await counts.get(['status'])
    expect(new Set(first.data.map(({ by }) => by))).toEqual(new Set(['status']))
    const results = await Promise.all([counts.get(), counts.get(['plan']), counts.get(['placement', 'isolation'])])
    expect(new Set(results.map(({ asOf }) => asOf))).toEqual(new Set([first.asOf]))
  })
})

test('placements are the configured ones, then those with tenants, and lost ones', async () => {
  const { tenants } = opened.tenancy
  const closed = { state: 'CLOSED', openedAt: null }
  const { data, drivers } = await tenants.overview.placements()
  expect(data).toEqual([
    {
      name: 'main',
      isConfigured: true,
      tenants: 1,
      connections: { used: expect.any(Number), allowed: 4, waiting: 0 },
      circuit: closed,
      lostSince: null,
    },
    { name: 'eu-1', isConfigured: false, tenants: 1, connections: null, circuit: closed, lostSince: null },
    {
      name: 'gone-1',
      isConfigured: false,
      tenants: 0,
      connections: null,
      circuit: closed,
      lostSince: '2026-01-31T12:00:00.000Z',
    },
  ])
  expect(drivers).toEqual([{ name: 'schema-pg', isDefault: true, tenants: 2, copies: true, reach: 'shared database' }])
})
