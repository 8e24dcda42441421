/** Schemas of requests for adoptions of shared tables, and of their plans. */
import { z } from 'zod'
import { Metadata, Placement } from '../tenant/tenant.ts'
import { AdoptionPlan, AdoptionRequest, StorageName } from './requests.ts'

const TABLE_NAME = /^[^\0]{1,127}$/

const members = {
  isolation: z.string().min(1).max(64).default('rowscope-pg').meta({
    description: 'Isolation driver whose tables they become; its settings name the schema and the tenant column',
  }),
  placement: Placement.optional().meta({ description: 'PostgreSQL server with the tables; default: `main`' }),
  metadata: Metadata.default({}).meta({ description: 'Metadata of each tenant' }),
  from: z.string().regex(TABLE_NAME).optional().meta({
    description:
      'Table with the tenants, as `table` or `schema.table`; default: each value of the tenant column is a tenant',
  }),
  idColumn: StorageName.default('id').meta({ description: 'Column of `from` with the ids' }),
  nameColumn: StorageName.optional().meta({ description: 'Column of `from` with the names; default: the ids' }),
  baseline: AdoptionRequest.shape.baseline,
  acceptDifferences: AdoptionRequest.shape.acceptDifferences,
}

export const RowAdoptionPlanRequest = z
  .strictObject(members)
  .meta({ example: { from: 'internal.orgs', nameColumn: 'name', baseline: '0012_invoices' } })

export const RowAdoptionRequest = z.strictObject({ ...members, digest: AdoptionRequest.shape.digest }).meta({
  example: {
    from: 'internal.orgs',
    nameColumn: 'name',
    baseline: '0012_invoices',
    digest: '3f0c8a5be7d94c1f8a5be7d94c1f3f0c',
  },
})

const { isolation, placement, digest, isAdoptable, reasons, warnings, differences, statements } = AdoptionPlan.shape
const storage = z.string().meta({ description: 'Schema of the tables' })

export const RowAdoptionPlan = z
  .object({
    isolation,
    placement,
    storage,
    digest,
    isAdoptable,
    reasons,
    warnings,
    differences,
    tenants: z.number().int().meta({ description: 'Number of tenants' }),
    firstTenants: z
      .array(z.object({ id: z.string(), name: z.string() }))
      .meta({ description: 'The first 20 of them, by id' }),
    locks: z.array(z.string()).meta({ description: 'Locks that the statements hold until their commit, by table' }),
    statements,
  })
  .meta({ id: 'TableAdoptionPlan' })
export type RowAdoptionPlan = z.output<typeof RowAdoptionPlan>

export const AdoptedTables = z
  .object({ isolation, placement, storage, tenants: z.number().int() })
  .meta({ id: 'AdoptedTables' })
export type AdoptedTables = z.output<typeof AdoptedTables>

export const RowReleaseRequest = z
  .strictObject({ isolation: members.isolation, placement: members.placement })
  .meta({ example: { placement: 'main' } })

export const ReleasedTables = z
  .object({
    isolation,
    placement,
    storage,
    tenants: z.number().int().meta({ description: 'Number of tenants that are purged, without their rows' }),
  })
  .meta({ id: 'ReleasedTables' })
export type ReleasedTables = z.output<typeof ReleasedTables>
