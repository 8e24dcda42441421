/** Metric of tenants by status, counted in the background of scrapes. */

import { cachedGauges } from '../../kernel/metrics/cached-gauges.ts'
import type { Series } from '../../kernel/metrics/metrics.ts'
import { STATUSES } from '../tenant/lifecycle.ts'
import type { Registry } from './registry.ts'

export const tenantSeries = (registry: Pick<Registry, 'countByStatus'>): Series[] =>
  cachedGauges(
    () => registry.countByStatus(),
    [
      {
        name: 'multitenancy_tenants_total',
        help: 'Tenants that are not deleted',
        samples: ({ deleted: _, ...others }) => [
          { value: Object.values(others).reduce((sum, count) => sum + count, 0) },
        ],
      },
      {
        name: 'multitenancy_tenants_by_status',
        help: 'Tenants by status',
        samples: (byStatus) => STATUSES.map((status) => ({ labels: { status }, value: byStatus[status] ?? 0 })),
      },
    ],
  )
