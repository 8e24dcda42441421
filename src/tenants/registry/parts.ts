/** The parts of a tenancy for the registry of tenants and their plans. */
import type { Part } from '../../kernel/part-definition.ts'
import { tenantSeries } from './metrics.ts'
import { Plans, type PlansConfig } from './plans.ts'
import { Registry } from './registry.ts'
import { tenantProviders } from './search-providers.ts'

interface Dependencies {
  readonly configuration: { readonly plans: PlansConfig; readonly staleForSeconds?: number | undefined }
}

export const registryPart: Part<'registry', Registry, Dependencies> = {
  name: 'registry',
  tenantTables: ['tenant_domains'],
  service: (kernel, { configuration }) => new Registry(kernel, configuration),
  start: (registry) => registry.start(),
  searchProviders: tenantProviders,
  metrics: tenantSeries,
}

export const plansPart: Part<'plans', Plans, Dependencies> = {
  name: 'plans',
  service: (kernel, { configuration }) => new Plans(configuration.plans, kernel),
}
