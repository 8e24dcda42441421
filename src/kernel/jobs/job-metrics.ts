/**
 * Series of jobs, without zeros. Waiting, active, delayed and failed jobs have the label of their tenant, limited by `TenantLabels`.
 * Completed ones have none: each tenant would keep a series for its installation.
 */
import { cachedGauges, MEDIUM_SHARE } from '../metrics/cached-gauges.ts'
import type { Sample, Series } from '../metrics/metrics.ts'
import type { TenantLabels } from '../metrics/tenant-labels.ts'
import type { Jobs, QueueCounts } from './jobs.ts'

const STATES = ['waiting', 'active', 'completed', 'failed', 'delayed'] as const
/** Time after which a due job counts as unattended if no worker has started any job. Workers poll every second. */
const UNATTENDED_MS = 10_000

export function jobSeries(jobs: Pick<Jobs, 'counts' | 'state'>, labels: TenantLabels): Series[] {
  const samples = (all: readonly QueueCounts[]): Sample[] => {
    const sums = new Map<string, Sample & { value: number }>()
    for (const count of all) {
      for (const state of STATES) {
        if (count[state] === 0) continue
        const tenant = count.tenantId === null || state === 'completed' ? '' : labels.of(count.tenantId)
        const key = `${tenant} ${count.queue} ${state}`
        const value = (sums.get(key)?.value ?? 0) + count[state]
        sums.set(key, { labels: { tenant_id: tenant, queue: count.queue, state }, value })
      }
    }
    return [...sums.values()]
  }

  return [
    ...cachedGauges(
      async () => samples(await jobs.counts()),
      [
        { name: 'multitenancy_queue_jobs', help: 'Jobs by tenant, queue and state', samples: (counts) => counts },
        {
          name: 'multitenancy_series_dropped',
          help: 'Tenants counted under _other because of metrics.maxTenantSeries',
          samples: () => [{ value: labels.dropped }],
        },
      ],
    ),
    ...cachedGauges(
      () => jobs.state(UNATTENDED_MS),
      [
        {
          name: 'multitenancy_queue_unattended_jobs',
          help: 'Due jobs while no worker runs; 0 if a worker has a job or has started one within 10 seconds',
          samples: ({ waiting, isWorking }) => [
            { value: isWorking ? 0 : waiting.reduce((sum, { count }) => sum + count, 0) },
          ],
        },
        {
          name: 'multitenancy_dead_letters',
          help: 'Jobs that became dead letters within a day, by their former queue',
          samples: ({ deadLetters }) => {
            const counts = new Map<string, number>()
            for (const { queue, recent } of deadLetters) counts.set(queue, (counts.get(queue) ?? 0) + recent)
            return [...counts].map(([queue, value]) => ({ labels: { queue }, value }))
          },
        },
      ],
      { maxShare: MEDIUM_SHARE },
    ),
  ]
}
