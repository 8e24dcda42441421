/** The part of a tenancy for the adoption of existing storage. */
import { handles } from '../../kernel/jobs/jobs.ts'
import type { Part } from '../../kernel/part-definition.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'
import type { Plans } from '../registry/plans.ts'
import type { Registry } from '../registry/registry.ts'
import { RecoverAdoptions } from '../tenant/job-types.ts'
import { Adoptions } from './adoptions.ts'
import { ADOPTIONS } from './tables.ts'

interface Dependencies {
  readonly registry: Registry
  readonly storage: Storage
  readonly plans: Plans
  readonly migrations: { readonly versions: SchemaVersions }
}

export const adoptionsPart: Part<'adoptions', Adoptions, Dependencies> = {
  name: 'adoptions',
  tables: ADOPTIONS,
  tenantTables: ['adoptions', 'row_adoption_tenants'],
  service: (kernel, { registry, storage, plans, migrations }) =>
    new Adoptions({ kernel, registry, storage, plans, versions: migrations.versions }),
  jobs: [handles(RecoverAdoptions, (adoptions: Adoptions) => adoptions.recover())],
  schedule: [{ type: RecoverAdoptions, cron: '* * * * *' }],
}
