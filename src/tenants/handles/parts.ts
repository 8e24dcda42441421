/** The parts of a tenancy for handles of tenants and the tenant of the context. */
import { type Part, STOP_TIMEOUT_MS } from '../../kernel/part-definition.ts'
import type { Lifecycle } from '../lifecycle/parts.ts'
import type { Plans } from '../registry/plans.ts'
import { Handles } from './handles.ts'
import type { SourceDependencies } from './router.ts'
import { createScope, type OwnedScope, type ScopedTenants } from './tenant-context.ts'

interface Dependencies extends Omit<SourceDependencies, 'fences' | 'tracing'> {
  readonly lifecycle: Lifecycle
  readonly plans: Plans
}

export const handlesPart: Part<'handles', Handles, Dependencies> = {
  name: 'handles',
  service: ({ tracing }, { registry, plans, storage, circuits, outbox, lifecycle: { fences } }) =>
    new Handles({ tracing, registry, plans, storage, circuits, outbox, fences }),
}

export const scopePart: Part<'scope', OwnedScope, { readonly tenants: ScopedTenants }> = {
  name: 'scope',
  service: ({ database, log }, { tenants }) => createScope(tenants, database, log),
  stop: (scope) => scope.stopClients(STOP_TIMEOUT_MS),
}
