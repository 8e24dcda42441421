/**
 * Jobs by tenant, queue and state. At most `maxTenantSeries` tenants get series of their own, first come, and keep them while
 * the process lives; the others are summed up under `_other`. Zeros are left out.
 */
import type { Jobs, QueueCounts } from './jobs.ts'
import type { Sample, Series } from './metrics.ts'
import { refreshed } from './refreshed.ts'

const STATES = ['waiting', 'active', 'completed', 'failed', 'delayed'] as const
const OTHERS = '_other'

export function jobSeries(jobs: Jobs, maxTenantSeries: number): { series: Series[]; stop: () => void } {
  const named = new Set<string>()
  const dropped = new Set<string>()
  const counts = refreshed(async () => samples(await jobs.counts()))

  const nameOf = (tenantId: string): string => {
    if (named.has(tenantId)) return tenantId
    if (named.size < maxTenantSeries) {
      named.add(tenantId)
      return tenantId
    }
    dropped.add(tenantId)
    return OTHERS
  }

  const samples = (all: readonly QueueCounts[]): Sample[] => {
    dropped.clear()
    const sums = new Map<string, Sample & { value: number }>()
    for (const count of all) {
      const tenant = count.tenantId === null ? '' : nameOf(count.tenantId)
      for (const state of STATES) {
        if (count[state] === 0) continue
        const key = `${tenant} ${count.queue} ${state}`
        const labels = { tenant_id: tenant, queue: count.queue, state }
        sums.set(key, { labels, value: (sums.get(key)?.value ?? 0) + count[state] })
      }
    }
    return [...sums.values()]
  }

  const series: Series[] = [
    { name: 'multitenancy_queue_jobs', help: 'Jobs by tenant, queue and state', type: 'gauge', collect: counts.get },
    {
      name: 'multitenancy_series_dropped',
      help: 'Tenants counted under _other because of metrics.maxTenantSeries',
      type: 'gauge',
      collect: async () => {
        await counts.get()
        return [{ value: dropped.size }]
      },
    },
  ]
  return { series, stop: counts.stop }
}
