/**
 * Circuits of a process: one per tenant database, and one per server. Both must admit a call. Its outcome counts for
 * the circuit that it concerns (see classify.ts): an unavailable server is detected once for all tenants, and an
 * unavailable database of a tenant affects only that tenant.
 *
 *   run()           around each call of a driver that can be rejected: a connection, a single statement. Not around
 *                   code of the host, whose errors do not concern the database
 *   watch()         around statements and commits inside a transaction
 *   assertClosed()  before a request is admitted; it counts nothing
 *
 * A circuit is open in every process (see shared-state.ts). When a probe is due, one call is admitted: the first of
 * this process, with the lease among all processes. The others are rejected until its outcome is known. There are no
 * timers.
 */

import type { Kernel } from '../../kernel/kernel.ts'
import type { TenantLabels } from '../../kernel/metrics/tenant-labels.ts'
import { CIRCUIT_RULE, type CircuitRule, type Outcome } from '../../kernel/resilience/circuit.ts'
import { CheckFailure } from '../../kernel/resilience/health.ts'
import { CircuitOpen } from '../tenant/errors.ts'
import { type CircuitList, listCircuits } from './circuit-list.ts'
import { type CircuitSnapshot, CircuitTable, type KeyedCircuit, type TenantsCircuit } from './circuit-table.ts'
import { outcomesOf, type Reach } from './classify.ts'
import { CircuitRecords, type Opening, type ReceivedChange } from './shared-state.ts'

/** Between two attempts to get the lease of a probe from another process. */
const LEASE_PAUSE_MS = 1_000
const RESTORE_PAUSE_MS = 5_000

export interface CircuitLocation {
  readonly tenantId: string
  readonly placement: string
  readonly isolation?: string
}

export interface CircuitsConfig {
  readonly rule?: Partial<CircuitRule>
  /** Names of all servers. */
  readonly placements: readonly string[]
  readonly labels: TenantLabels
  /** Dependencies of the tenants of an isolation driver; default: a shared database. */
  readonly reach?: (isolation: string | undefined) => Reach
}

/** The circuits that must admit a call. */
interface Above {
  readonly reach: Reach
  readonly server: KeyedCircuit | undefined
  readonly tenant: TenantsCircuit
}

export class Circuits {
  readonly #kernel: Pick<Kernel, 'clock' | 'log'>
  readonly #placements: readonly string[]
  readonly #rule: CircuitRule
  readonly #reach: (isolation: string | undefined) => Reach
  readonly #records: CircuitRecords
  readonly #table: CircuitTable
  #restoring: Promise<void> = Promise.resolve()
  #restoreAtMs = Number.POSITIVE_INFINITY

  constructor(
    kernel: Pick<Kernel, 'store' | 'database' | 'secrets' | 'resilience' | 'clock' | 'log'>,
    { rule: given, placements, labels, reach = () => 'shared database' }: CircuitsConfig,
  ) {
    const rule = { ...CIRCUIT_RULE, ...given }
    this.#kernel = kernel
    this.#rule = rule
    this.#placements = placements
    this.#reach = reach
    this.#records = new CircuitRecords(kernel, rule)
    this.#table = new CircuitTable(rule, labels)
  }

  /** Reads the open circuits, and subscribes to changes of other processes. */
  async start(): Promise<void> {
    await this.#records.start(
      (received) => this.#learn(received),
      () => void this.#restore(),
    )
    await this.#restore()
  }

  /** Resolves after all changes are written. */
  async stop(): Promise<void> {
    await this.#restoring
    await this.#records.stop()
  }

  /** Calls `work`, or throws `E_CIRCUIT_OPEN` while the tenant's database or its server is known to be unavailable. */
  async run<T>(location: CircuitLocation, work: () => Promise<T>): Promise<T> {
    const above = this.#above(location)
    const { server, tenant } = above
    if (!tenant.circuit.isClosed || (server && !server.circuit.isClosed)) await this.#admit(server, tenant)
    return this.#counted(above, work)
  }

  /** Resets the circuit in every process: its counts concern former storage, or intentionally closed storage. */
  reset(tenantId: string): void {
    const key = { kind: 'tenant', name: tenantId } as const
    this.#table.find(key)?.circuit.close(this.#nowMs)
    this.#records.write(key, () => null)
  }

  /** Counts calls on an admitted connection. They are never rejected, and never a probe. */
  async watch<T>(location: CircuitLocation, work: () => Promise<T>): Promise<T> {
    return this.isClosed(location) ? this.#counted(this.#above(location), work) : work()
  }

  async #counted<T>({ reach, server, tenant }: Above, work: () => Promise<T>): Promise<T> {
    const era = tenant.circuit.era
    const serverEra = server?.circuit.era ?? 0
    let value: T
    try {
      value = await work()
    } catch (error) {
      const outcomes = outcomesOf(error, reach)
      if (outcomes.server === 'failure' || outcomes.tenant === 'failure') tenant.counts.failures++
      else if (outcomes.tenant === 'success') tenant.counts.successes++
      if (server) await this.#settle(server, serverEra, outcomes.server)
      await this.#settle(tenant, era, outcomes.tenant)
      if (this.#nowMs >= this.#restoreAtMs) void this.#restore()
      throw error
    }
    const nowMs = this.#nowMs
    tenant.counts.successes++
    if (tenant.circuit.isClosed) tenant.circuit.succeeded(era, nowMs)
    else await this.#settle(tenant, era, 'success')
    if (server?.circuit.isClosed) server.circuit.succeeded(serverEra, nowMs)
    else if (server) await this.#settle(server, serverEra, 'success')
    if (nowMs >= this.#restoreAtMs) void this.#restore()
    return value
  }

  /** Throws `E_CIRCUIT_OPEN` with the seconds to wait, unless a call is admitted now, including as the probe. */
  assertClosed({ tenantId, placement, isolation }: CircuitLocation): void {
    this.#rejectUnlessDue(this.#table.find({ kind: 'tenant', name: tenantId }))
    if (this.#reach(isolation) !== 'no server') {
      this.#rejectUnlessDue(this.#table.find({ kind: 'server', name: placement }))
    }
  }

  isClosed({ tenantId, placement, isolation }: CircuitLocation): boolean {
    const { circuit } = this.#table.find({ kind: 'tenant', name: tenantId }) ?? {}
    if (circuit && !circuit.isClosed) return false
    if (this.#reach(isolation) === 'no server') return true
    return this.#table.find({ kind: 'server', name: placement })?.circuit.isClosed ?? true
  }

  snapshot(): CircuitSnapshot {
    return this.#table.snapshot(this.#nowMs)
  }

  /** The circuits of all processes; of this one while the store is unavailable. */
  async list(): Promise<CircuitList> {
    const shared = await this.#records.openings(this.#placements)
    const openings = shared ?? this.#table.open().map((keyed) => ({ key: keyed.key, opening: openingOf(keyed) }))
    const options = { placements: this.#placements, rule: this.#rule, nowMs: this.#nowMs }
    return { ...listCircuits(openings, options), source: shared ? 'store' : 'process' }
  }

  /** The health check: fails while a circuit is open. A server counts as one, with any number of tenants. */
  check(): void {
    const open = this.#table.openAt(this.#nowMs)
    if (open > 0) throw new CheckFailure(`${open} circuit${open === 1 ? '' : 's'} open`)
  }

  #above({ tenantId, placement, isolation }: CircuitLocation): Above {
    const reach = this.#reach(isolation)
    const server = reach === 'no server' ? undefined : this.#table.server(placement)
    return { reach, server, tenant: this.#table.tenant(tenantId, placement, server) }
  }

  get #nowMs(): number {
    return this.#kernel.clock.now().getTime()
  }

  #rejectUnlessDue(keyed: KeyedCircuit | undefined): void {
    if (!keyed || keyed.circuit.isClosed) return
    const rejectedForMs = keyed.circuit.rejectedForMs(this.#nowMs)
    if (rejectedForMs > 0) throw rejection(rejectedForMs)
  }

  /** Resolves when the call is admitted, as the probe of each circuit that is not closed. */
  async #admit(server: KeyedCircuit | undefined, tenant: KeyedCircuit): Promise<void> {
    this.#rejectUnlessDue(tenant)
    this.#rejectUnlessDue(server)
    if (server && !server.circuit.isClosed) await this.#probe(server)
    const serverEra = server?.circuit.era ?? 0
    try {
      this.#rejectUnlessDue(tenant)
      if (!tenant.circuit.isClosed) await this.#probe(tenant)
    } catch (error) {
      if (server) await this.#settle(server, serverEra, 'neither')
      throw error
    }
  }

  /** The call is the probe from here on, so that others are rejected while the store decides on the lease. */
  async #probe(keyed: KeyedCircuit): Promise<void> {
    const { key, circuit } = keyed
    if (circuit.stateAt(this.#nowMs) === 'CLOSED') {
      circuit.close(this.#nowMs)
      return
    }
    const known = knownMs(keyed)
    circuit.beginProbe(this.#nowMs)
    const { era } = circuit
    const opening = await this.#records.opening(key)
    if (circuit.era === era && opening && opening.openedAt > known) {
      keyed.receivedMs = opening.openedAt
      circuit.open(opening.openedAt, this.#nowMs)
    } else if (circuit.era === era && !(await this.#records.lease(key))) {
      await circuit.settle(era, 'neither', this.#nowMs)
      circuit.waitUntil(this.#nowMs + LEASE_PAUSE_MS)
    }
    // The lease was lost, or another process has published the state.
    if (circuit.era !== era && !circuit.isClosed) throw rejection(circuit.rejectedForMs(this.#nowMs))
  }

  async #settle(keyed: KeyedCircuit, era: number, outcome: Outcome): Promise<void> {
    const { key, circuit } = keyed
    const changed = await circuit.settle(era, outcome, this.#nowMs)
    if (!changed) return
    if (changed === 'undecided') return this.#records.release(key)
    if (changed === 'opened') this.#table.keep(keyed)
    const names = key.kind === 'tenant' ? { tenantId: key.name } : { placement: key.name }
    if (changed === 'opened') this.#kernel.log.warn(names, 'circuit opened')
    else this.#kernel.log.info(names, 'circuit closed')
    this.#records.write(key, () => openingOf(keyed))
  }

  /**
   * Applies the change of another process. The own probe in progress takes precedence, unless the other one succeeded.
   */
  #learn({ key, opening }: ReceivedChange): void {
    const nowMs = this.#nowMs
    if (!opening) {
      this.#table.find(key)?.circuit.close(nowMs)
      return
    }
    const server = this.#table.server(opening.placement)
    const keyed = key.kind === 'server' ? server : this.#table.tenant(key.name, opening.placement, server)
    const { circuit } = keyed
    if (circuit.isProbing(nowMs) || (!circuit.isClosed && opening.openedAt <= knownMs(keyed))) return
    keyed.receivedMs = opening.openedAt
    circuit.open(opening.openedAt, nowMs)
    this.#table.keep(keyed)
  }

  /** Serialized: a change during one read may be missed by it. */
  #restore(): Promise<void> {
    this.#restoreAtMs = Number.POSITIVE_INFINITY
    this.#restoring = this.#restoring.then(() => this.#takeOver())
    return this.#restoring
  }

  /** If the store is unavailable, the next call after a pause tries again. */
  async #takeOver(): Promise<void> {
    const open = await this.#records.openings(this.#placements)
    if (!open) this.#restoreAtMs = this.#nowMs + RESTORE_PAUSE_MS
    for (const { key, opening } of open ?? []) {
      // A record may be read just before its removal.
      const closedAtMs = this.#table.find(key)?.circuit.closedAtMs ?? Number.NEGATIVE_INFINITY
      if (opening && opening.openedAt > closedAtMs) this.#learn({ key, opening })
    }
  }
}

/** The last known opening: its record is no news, regardless of its writer's clock. */
const knownMs = ({ circuit, receivedMs }: KeyedCircuit): number => Math.max(receivedMs, circuit.openedAtMs ?? 0)

const openingOf = ({ circuit, placement }: KeyedCircuit): Opening | null =>
  circuit.openedAtMs === undefined ? null : { openedAt: circuit.openedAtMs, placement }

const rejection = (rejectedForMs: number) =>
  CircuitOpen('The storage of the tenant is currently unavailable.', {
    retryAfterSeconds: Math.max(1, Math.ceil(rejectedForMs / 1_000)),
  })
