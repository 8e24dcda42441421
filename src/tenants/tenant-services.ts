/** Lists the services of the parts that `Tenants` offers to hosts, operations and satellites. */
import type { Adoptions } from './adoption/adoptions.ts'
import type { Circuits } from './circuits/circuits.ts'
import type { CommandRuns } from './command-runs/command-runs.ts'
import type { Erasures } from './erasure/erasures.ts'
import type { Handles } from './handles/handles.ts'
import type { Storage } from './isolation/drivers.ts'
import type { Lifecycle } from './lifecycle/parts.ts'
import type { Installation } from './lifecycle/provisioning.ts'
import type { MigrationRuns } from './migrations/runs.ts'
import type { Outbox } from './outbox/outbox.ts'
import type { Overview } from './overview/overview.ts'
import type { Plans } from './registry/plans.ts'
import type { Registry } from './registry/registry.ts'
import type { TableImports } from './sql-import/tables/table-imports.ts'
import type { Transfers } from './transfers/transfers.ts'

export interface TenantServices {
  readonly storage: Storage
  readonly circuits: Circuits
  readonly registry: Registry
  readonly plans: Plans
  readonly lifecycle: Lifecycle
  readonly migrations: MigrationRuns
  readonly commandRuns: CommandRuns
  readonly transfers: Transfers
  readonly adoptions: Adoptions
  readonly provisioning: Installation
  readonly erasures: Erasures
  readonly handles: Handles
  readonly outbox: Outbox
  readonly tableImports: TableImports
  readonly overview: Overview
}
