/**
 * Reads over all parts for the console: the attention list, the explanation of a tenant's access and its timeline, counts, placements, and
 * the search.
 */
import { refreshed } from '../../kernel/base/cached-query.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { SMALL_SHARE } from '../../kernel/metrics/cached-gauges.ts'
import type { AttentionEntry, AttentionRequest, AttentionResult } from '../../kernel/shares/contributions.ts'
import type { Circuits } from '../circuits/circuits.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { MigrationRuns } from '../migrations/runs.ts'
import type { Plans } from '../registry/plans.ts'
import type { Located, Registry } from '../registry/registry.ts'
import type { TroubledBackups } from '../transfers/doctor-queries.ts'
import type { Transfers } from '../transfers/transfers.ts'
import { Attention } from './attention.ts'
import { Counts } from './counts.ts'
import { Explanations } from './explanation.ts'
import { listPlacements } from './placements.ts'
import { findObjects } from './search.ts'
import { Timelines } from './timeline.ts'

export interface OverviewServices {
  readonly registry: Registry
  readonly circuits: Circuits
  readonly storage: Storage
  readonly plans: Plans
  readonly migrations: MigrationRuns
  readonly transfers: Transfers
  /** Time limit of each part in a search. */
  readonly configuration: { readonly searchTimeoutMs: number }
}

const MAX_OVERDUE = 50

export class Overview {
  readonly attention: Attention
  readonly explanations: Explanations
  readonly timelines: Timelines
  /** Numbers of tenants, cached for ten seconds. */
  readonly counts: Counts
  readonly kernel: Kernel
  readonly services: OverviewServices
  /** The plans of all tenants decide, and the host may decide plans: read in the background. */
  readonly #overdue = refreshed(() => this.#readOverdue(), { maxShare: SMALL_SHARE })

  constructor(kernel: Kernel, services: OverviewServices) {
    const { registry, circuits } = services
    this.kernel = kernel
    this.services = services
    this.attention = new Attention(kernel)
    this.explanations = new Explanations(
      kernel,
      registry,
      { assertCircuitClosed: ({ location }) => circuits.assertClosed(location) },
      (located) => this.openedAt(located),
    )
    this.timelines = new Timelines(kernel, registry)
    this.counts = new Counts({ kernel, ...services })
  }

  stop(): void {
    this.#overdue.stop()
    this.counts.stop()
  }

  /** Placements with their tenants, connections and circuits, and the isolation drivers. */
  placements() {
    return listPlacements({ ...this.services, kernel: this.kernel, counts: this.counts })
  }

  /** Objects of all parts with this id, name or value. In a request, only those that its token may read. */
  search(q: string) {
    return findObjects(this.kernel, q, this.services.configuration.searchTimeoutMs)
  }

  /** Time at which the circuit of a tenant or of its server was opened; null while both are closed. */
  openedAt({ location: { tenantId, placement } }: Pick<Located, 'location'>): Date | null {
    const { servers, tenants } = this.services.circuits.snapshot()
    const ofTenant = tenants.find((one) => one.tenantId === tenantId)?.openedAt
    return ofTenant ?? servers.find((one) => one.placement === placement)?.openedAt ?? null
  }

  overdueBackups({ tenantId }: AttentionRequest): Promise<AttentionResult> {
    return tenantId === undefined ? this.#overdue.get() : this.#readOverdue(tenantId)
  }

  async #readOverdue(only?: string): Promise<AttentionResult> {
    const entries: AttentionEntry[] = []
    let total = 0
    for await (const one of this.services.transfers.state.troubled(only)) {
      if (!one.isStale) continue
      total += 1
      entries.push(toEntry(one))
      if (entries.length > 2 * MAX_OVERDUE) keepOldest(entries)
    }
    keepOldest(entries)
    return { entries, total }
  }
}

function keepOldest(entries: AttentionEntry[]): void {
  entries.sort((a, b) => (a.since?.getTime() ?? 0) - (b.since?.getTime() ?? 0))
  entries.splice(MAX_OVERDUE)
}

const toEntry = ({ tenantId, everyHours, last }: TroubledBackups): AttentionEntry => ({
  tenantId,
  title: `No backup within twice the interval of ${everyHours} hours`,
  since: last,
  count: 1,
  operation: 'backups.list',
  params: { id: tenantId },
})
