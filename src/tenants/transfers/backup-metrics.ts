/** Series of scheduled backups over all tenants. The query reads all tenants, so it runs less often the longer it takes. */
import { cachedGauges, SMALL_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import type { Series } from '../../kernel/metrics/metrics.ts'
import type { TransferState } from './doctor-queries.ts'

export const backupSeries = ({ state }: { readonly state: TransferState }): Series[] =>
  cachedGauges(
    () => state.backupSummary(),
    [
      {
        name: 'multitenancy_backup_newest_age_seconds',
        help: 'Age of the newest completed scheduled backup of any tenant; absent without one',
        samples: ({ newest }) => (newest ? [{ value: Math.max(0, (Date.now() - newest.getTime()) / 1_000) }] : []),
      },
      {
        name: 'multitenancy_backup_failing_tenants',
        help: 'Tenants with scheduled backups of which the newest attempt failed',
        samples: ({ failing }) => [{ value: failing }],
      },
      {
        name: 'multitenancy_backup_overdue_tenants',
        help: 'Tenants whose newest completed backup is older than twice the interval of their scheduled backups',
        samples: ({ overdue }) => [{ value: overdue }],
      },
    ],
    { maxShare: SMALL_SHARE },
  )
