/** Schemas of requests for adoptions, and of their plans. */
import { z } from 'zod'
import { Metadata, Placement, TenantId, TenantName } from '../tenant/tenant.ts'

const MAX_NAME_BYTES = 63
const MAX_ACCEPTED = 1_000

export const StorageName = z
  .string()
  .min(1)
  .refine((name) => Buffer.byteLength(name) <= MAX_NAME_BYTES && !name.includes('\0'), 'must have at most 63 bytes')

const members = {
  id: TenantId,
  name: TenantName.optional().meta({ description: 'Name of the customer; default: the id' }),
  metadata: Metadata.default({}),
  isolation: z.string().min(1).max(64).meta({ description: 'Isolation driver whose storage it becomes' }),
  placement: Placement.optional().meta({ description: 'PostgreSQL server with the storage; default: `main`' }),
  schema: StorageName.optional().meta({
    description: 'Existing schema, for `schema-pg`; for `database-pg` the schema of the application, default `public`',
  }),
  database: StorageName.optional().meta({ description: 'Existing database, for `database-pg`' }),
  baseline: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: 'Last of the migrations whose result the storage has; required if there are migrations' }),
  acceptDifferences: z
    .array(z.string().min(1).max(500))
    .max(MAX_ACCEPTED)
    .default([])
    .meta({ description: 'Objects that may differ from the result of the migrations, as named by the plan' }),
}

export const AdoptionPlanRequest = z
  .strictObject(members)
  .meta({ example: { id: 'acme', isolation: 'schema-pg', schema: 'legacy_acme', baseline: '0012_invoices' } })

export const AdoptionRequest = z
  .strictObject({
    ...members,
    digest: z.string().min(1).max(64).meta({ description: 'That of the plan which is to be executed' }),
  })
  .meta({
    example: {
      id: 'acme',
      isolation: 'schema-pg',
      schema: 'legacy_acme',
      baseline: '0012_invoices',
      digest: '3f0c8a5be7d94c1f8a5be7d94c1f3f0c',
    },
  })

export const AdoptionPlan = z
  .object({
    id: TenantId,
    isolation: z.string(),
    placement: z.string(),
    storage: z.string().meta({ description: 'Name of the existing storage' }),
    digest: z.string().meta({ description: 'Different for each state of the catalog and each request' }),
    isAdoptable: z.boolean(),
    reasons: z.array(z.string()).meta({ description: 'Why it cannot be adopted; empty if it can' }),
    warnings: z.array(z.string()),
    differences: z.array(
      z.object({
        object: z.string(),
        expected: z.string().nullable().meta({ description: 'Result of the migrations' }),
        actual: z.string().nullable().meta({ description: 'Definition in the storage' }),
        isAccepted: z.boolean(),
      }),
    ),
    statements: z.array(z.string()).meta({ description: 'All statements of the adoption, in order' }),
  })
  .meta({ id: 'AdoptionPlan' })
export type AdoptionPlan = z.output<typeof AdoptionPlan>

export const Released = z
  .object({
    id: TenantId,
    isolation: z.string(),
    placement: z.string(),
    storage: z.string().meta({ description: 'Name of the storage, which is unchanged except for owners and rights' }),
  })
  .meta({ id: 'ReleasedTenant' })
export type Released = z.output<typeof Released>
