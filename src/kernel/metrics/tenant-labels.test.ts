import { expect, test } from 'vitest'
import { jobSeries } from '../jobs/job-metrics.ts'
import type { QueueCounts } from '../jobs/jobs.ts'
import { TenantLabels } from './tenant-labels.ts'

test('the first tenants keep their own labels; all others share `_other` and are counted', () => {
  const labels = new TenantLabels(2)
  expect(['acme', 'globex', 'initech', 'acme', 'hooli', 'initech'].map((id) => labels.of(id))).toEqual([
    'acme',
    'globex',
    '_other',
    'acme',
    '_other',
    '_other',
  ])
  expect(labels.dropped).toBe(2)
})

test('a kept tenant has its own label beyond the limit, and other tenants keep theirs', () => {
  const labels = new TenantLabels(1)
  labels.of('acme')
  labels.of('globex')
  labels.keep('globex')
  expect(['acme', 'globex', 'initech'].map((id) => labels.of(id))).toEqual(['acme', 'globex', '_other'])
  expect(labels.dropped).toBe(1)
})

test('jobs are summed by label, without zeros; completed jobs and jobs without a tenant have no label', async () => {
  const count = (tenantId: string | null, counts: Partial<QueueCounts>): QueueCounts => ({
    queue: 'InstallTenant',
    tenantId,
    waiting: 0,
    active: 0,
    completed: 0,
    failed: 0,
    delayed: 0,
    ...counts,
  })
  const counts = async () => [
    count('acme', { waiting: 2 }),
    count('globex', { waiting: 3, failed: 1, completed: 5 }),
    count('initech', { waiting: 4 }),
    count(null, { active: 1, completed: 2 }),
  ]
  const state = async () => ({ waiting: [], isWorking: true, silent: [], deadLetters: [], unscheduled: [] })
  const series = jobSeries({ counts, state }, new TenantLabels(1))
  const [jobs, dropped] = await Promise.all(series.map(async ({ collect }) => [...(await collect())]))
  for (const { stop } of series) stop?.()
  const sample = (tenant_id: string, state: string, value: number) => ({
    labels: { tenant_id, queue: 'InstallTenant', state },
    value,
  })
  expect(jobs).toEqual([
    sample('acme', 'waiting', 2),
    sample('_other', 'waiting', 7),
    sample('', 'completed', 7),
    sample('_other', 'failed', 1),
    sample('', 'active', 1),
  ])
  expect(dropped).toEqual([{ value: 2 }])
})
