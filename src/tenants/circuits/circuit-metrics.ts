/**
 * Metrics of circuits by tenant: the worse of its own and its server's. `_other` has the worst state and the sums of
 * the others.
 */

import type { Sample, Series } from '../../kernel/metrics/metrics.ts'
import { OTHERS } from '../../kernel/metrics/tenant-labels.ts'
import type { CircuitState } from '../../kernel/resilience/circuit.ts'
import type { CallCounts } from './circuit-table.ts'
import type { Circuits } from './circuits.ts'

const VALUES: Readonly<Record<CircuitState, number>> = { CLOSED: 0, HALF_OPEN: 1, OPEN: 2 }

export function circuitSeries(circuits: Pick<Circuits, 'snapshot'>): Series[] {
  const samples = (value: (one: Readonly<CallCounts> & { readonly state: CircuitState }) => number): Sample[] => {
    const { tenants, others } = circuits.snapshot()
    const named = tenants.map((tenant) => ({ labels: { tenant_id: tenant.tenantId }, value: value(tenant) }))
    return others ? [...named, { labels: { tenant_id: OTHERS }, value: value(others) }] : named
  }
  return [
    {
      name: 'multitenancy_circuit_state',
      help: 'Circuit of the database of a tenant: 0 CLOSED, 1 HALF_OPEN, 2 OPEN',
      type: 'gauge',
      collect: () => samples(({ state }) => VALUES[state]),
    },
    {
      name: 'multitenancy_circuit_failures_total',
      help: 'Calls of a tenant that failed because of its database or server',
      type: 'counter',
      collect: () => samples(({ failures }) => failures),
    },
    {
      name: 'multitenancy_circuit_successes_total',
      help: 'Calls of a tenant with a response of its database',
      type: 'counter',
      collect: () => samples(({ successes }) => successes),
    },
  ]
}
