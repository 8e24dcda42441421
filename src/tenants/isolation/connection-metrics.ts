/** Metrics of connections for tenants' queries, by server. */
import type { Series } from '../../kernel/metrics/metrics.ts'
import type { Storage } from './drivers.ts'

export const connectionSeries = (storage: Pick<Storage, 'connections'>): Series[] => [
  {
    name: 'multitenancy_tenant_pool_connections',
    help: "Connections of this process for tenants' queries: idle, busy, and requests that wait for one",
    type: 'gauge',
    collect: () =>
      storage.connections().flatMap(({ placement, idle, busy, waiting }) => [
        { labels: { placement, state: 'idle' }, value: idle },
        { labels: { placement, state: 'busy' }, value: busy },
        { labels: { placement, state: 'waiting' }, value: waiting },
      ]),
  },
  {
    name: 'multitenancy_tenant_pool_uses_total',
    help: 'Connection requests of this process: a hit was available, a miss had to be opened',
    type: 'counter',
    collect: () =>
      storage.connections().flatMap(({ placement, hits, misses }) => [
        { labels: { placement, outcome: 'hit' }, value: hits },
        { labels: { placement, outcome: 'miss' }, value: misses },
      ]),
  },
]
