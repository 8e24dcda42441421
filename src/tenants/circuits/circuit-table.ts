/**
 * Table of the circuits of a process. A tenant's circuit is created at its first call. Circuits with their own series
 * are kept. Of the other, closed ones, the hundred thousand used last are kept; counts of evicted ones remain in the
 * sum.
 */
import { LRUCache } from 'lru-cache'
import { OTHERS, type TenantLabels } from '../../kernel/metrics/tenant-labels.ts'
import { Circuit, type CircuitRule, type CircuitState } from '../../kernel/resilience/circuit.ts'
import type { CircuitKey } from './shared-state.ts'

const KEPT_CIRCUITS = 100_000

export interface CallCounts {
  successes: number
  failures: number
}

export interface KeyedCircuit {
  readonly key: CircuitKey
  readonly circuit: Circuit
  /** Name of the server, or of the tenant's server. */
  placement: string
  /** Time of the opening in the last received record, by the clock of its writer. */
  receivedMs: number
}

export interface TenantsCircuit extends KeyedCircuit {
  /** Undefined if the driver has no server. */
  server: KeyedCircuit | undefined
  counts: CallCounts
}

interface CircuitReport {
  readonly placement: string
  readonly state: CircuitState
  readonly openedAt: Date | null
}

export interface CircuitSnapshot {
  readonly servers: readonly CircuitReport[]
  /** Tenants with their own series, including all open ones. `state` is the worse of the tenant's and its server's. */
  readonly tenants: readonly (CircuitReport & Readonly<CallCounts> & { readonly tenantId: string })[]
  /** Sums and worst state of all other tenants. Null if there are none. */
  readonly others: (Readonly<CallCounts> & { readonly state: CircuitState }) | null
}

const BY_HARM: readonly CircuitState[] = ['CLOSED', 'HALF_OPEN', 'OPEN']

export class CircuitTable {
  readonly #rule: CircuitRule
  readonly #labels: TenantLabels
  readonly #servers = new Map<string, KeyedCircuit>()
  readonly #named = new Map<string, TenantsCircuit>()
  /** With `maxSize`, because `max` reserves 2.7 MiB for all entries. */
  readonly #others = new LRUCache<string, TenantsCircuit>({ maxSize: KEPT_CIRCUITS, sizeCalculation: () => 1 })
  readonly #otherCounts: CallCounts = { successes: 0, failures: 0 }
  readonly #otherServers = new Set<KeyedCircuit>()

  constructor(rule: CircuitRule, labels: TenantLabels) {
    this.#rule = rule
    this.#labels = labels
  }

  find({ kind, name }: CircuitKey): KeyedCircuit | undefined {
    return kind === 'server' ? this.#servers.get(name) : (this.#named.get(name) ?? this.#others.get(name))
  }

  server(placement: string): KeyedCircuit {
    const kept = this.#servers.get(placement)
    if (kept) return kept
    const key = { kind: 'server', name: placement } as const
    const made = { key, circuit: new Circuit(this.#rule), placement, receivedMs: 0 }
    this.#servers.set(placement, made)
    return made
  }

  tenant(tenantId: string, placement: string, server: KeyedCircuit | undefined): TenantsCircuit {
    const kept = this.#named.get(tenantId) ?? this.#others.get(tenantId)
    if (!kept) return this.#make(tenantId, placement, server)
    if (kept.placement !== placement || kept.server !== server) {
      kept.placement = placement
      kept.server = server
      if (server && kept.counts === this.#otherCounts) this.#otherServers.add(server)
    }
    return kept
  }

  /** Gives an opened circuit its own series. Its earlier counts remain in the sum, which only increases. */
  keep(keyed: KeyedCircuit): void {
    const { name } = keyed.key
    if (!isTenants(keyed) || this.#named.has(name)) return
    this.#labels.keep(name)
    this.#others.delete(name)
    keyed.counts = { successes: 0, failures: 0 }
    this.#named.set(name, keyed)
  }

  /** Circuits of servers and tenants that have opened. */
  open(): KeyedCircuit[] {
    return [...this.#servers.values(), ...this.#named.values()].filter(({ circuit }) => !circuit.isClosed)
  }

  /** Number of open circuits; a server counts as one. */
  openAt(nowMs: number): number {
    return this.open().filter(({ circuit }) => circuit.stateAt(nowMs) === 'OPEN').length
  }

  snapshot(nowMs: number): CircuitSnapshot {
    const { successes, failures } = this.#otherCounts
    const hasOthers = this.#others.size > 0 || successes + failures > 0
    return {
      servers: [...this.#servers.values()].map((server) => report(server.placement, [server], nowMs)),
      tenants: [...this.#named].map(([tenantId, tenant]) => ({
        tenantId,
        ...report(tenant.placement, tenant.server ? [tenant, tenant.server] : [tenant], nowMs),
        ...tenant.counts,
      })),
      others: hasOthers ? { state: report('', [...this.#otherServers], nowMs).state, successes, failures } : null,
    }
  }

  #make(tenantId: string, placement: string, server: KeyedCircuit | undefined): TenantsCircuit {
    const isNamed = this.#labels.of(tenantId) !== OTHERS
    const tenant: TenantsCircuit = {
      key: { kind: 'tenant', name: tenantId },
      circuit: new Circuit(this.#rule),
      placement,
      receivedMs: 0,
      server,
      counts: isNamed ? { successes: 0, failures: 0 } : this.#otherCounts,
    }
    if (isNamed) this.#named.set(tenantId, tenant)
    else this.#others.set(tenantId, tenant)
    if (server && !isNamed) this.#otherServers.add(server)
    return tenant
  }
}

const isTenants = (keyed: KeyedCircuit): keyed is TenantsCircuit => keyed.key.kind === 'tenant'

/** The worst state of several circuits. */
function report(placement: string, circuits: readonly KeyedCircuit[], nowMs: number): CircuitReport {
  const states = circuits.map(({ circuit }) => circuit.stateAt(nowMs))
  const state = BY_HARM.findLast((one) => states.includes(one)) ?? 'CLOSED'
  const openedAtMs = circuits[states.indexOf(state)]?.circuit.openedAtMs
  return { placement, state, openedAt: openedAtMs === undefined || state === 'CLOSED' ? null : new Date(openedAtMs) }
}
