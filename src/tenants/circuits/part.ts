/** The part of a tenancy for the circuits of tenants and servers. */
import type { Part } from '../../kernel/part-definition.ts'
import type { CircuitRule } from '../../kernel/resilience/circuit.ts'
import type { Storage } from '../isolation/drivers.ts'
import { circuitSeries } from './circuit-metrics.ts'
import { Circuits } from './circuits.ts'

interface Dependencies {
  readonly configuration: { readonly circuit?: Partial<CircuitRule> | undefined; readonly storage: Storage }
}

export const circuitsPart: Part<'circuits', Circuits, Dependencies> = {
  name: 'circuits',
  service: (kernel, { configuration: { circuit: rule, storage } }) =>
    new Circuits(kernel, {
      rule,
      placements: storage.placements,
      labels: kernel.labels,
      reach: (isolation) => storage.reach(isolation),
    }),
  start: (circuits) => circuits.start(),
  checks: { circuits: (circuits) => circuits.check() },
  metrics: circuitSeries,
  stop: (circuits) => circuits.stop(),
}
