/** Metric of tenants by status, counted in the background of scrapes. */

import { refreshed } from '../../kernel/base/cached-query.ts'
import type { Series } from '../../kernel/metrics/metrics.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import type { Registry } from './registry.ts'

export function tenantSeries(registry: Pick<Registry, 'countByStatus'>): Series[] {
  const counts = refreshed(() => registry.countByStatus())
  return [
    {
      name: 'multitenancy_tenants_total',
      help: 'Tenants that are not deleted',
      type: 'gauge',
      collect: async () => {
        const { deleted: _, ...others } = await counts.get()
        return [{ value: Object.values(others).reduce((sum, count) => sum + count, 0) }]
      },
      stop: counts.stop,
    },
    {
      name: 'multitenancy_tenants_by_status',
      help: 'Tenants by status',
      type: 'gauge',
      collect: async () => {
        const byStatus = await counts.get()
        return STATUSES.map((status) => ({ labels: { status }, value: byStatus[status] ?? 0 }))
      },
    },
  ]
}
