/** Series of jobs by tenant, queue and state, without zeros. `TenantLabels` limits the tenants with their own series. */

import { refreshed } from '../base/cached-query.ts'
import type { Sample, Series } from '../metrics/metrics.ts'
import type { TenantLabels } from '../metrics/tenant-labels.ts'
import type { Jobs, QueueCounts } from './jobs.ts'

const STATES = ['waiting', 'active', 'completed', 'failed', 'delayed'] as const

export function jobSeries(jobs: Pick<Jobs, 'counts'>, labels: TenantLabels): Series[] {
  const counts = refreshed(async () => samples(await jobs.counts()))

  const samples = (all: readonly QueueCounts[]): Sample[] => {
    const sums = new Map<string, Sample & { value: number }>()
    for (const count of all) {
      const tenant = count.tenantId === null ? '' : labels.of(count.tenantId)
      for (const state of STATES) {
        if (count[state] === 0) continue
        const key = `${tenant} ${count.queue} ${state}`
        const value = (sums.get(key)?.value ?? 0) + count[state]
        sums.set(key, { labels: { tenant_id: tenant, queue: count.queue, state }, value })
      }
    }
    return [...sums.values()]
  }

  return [
    {
      name: 'multitenancy_queue_jobs',
      help: 'Jobs by tenant, queue and state',
      type: 'gauge',
      collect: counts.get,
      stop: counts.stop,
    },
    {
      name: 'multitenancy_series_dropped',
      help: 'Tenants counted under _other because of metrics.maxTenantSeries',
      type: 'gauge',
      collect: async () => {
        await counts.get()
        return [{ value: labels.dropped }]
      },
    },
  ]
}
