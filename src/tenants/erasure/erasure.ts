/** An erasure and its report in the API. */
import { z } from 'zod'
import { type ErasureRow, STATES } from './tables.ts'

export const EraseRequest = z.strictObject({
  confirm: z.string().max(256).meta({ description: 'The id of the tenant again' }),
  reason: z.string().trim().min(1).max(500).meta({
    description: 'Kept in the report; it must not contain data of the tenant',
    example: 'request 4711',
  }),
  billing: z
    .enum(['keep', 'delete'])
    .default('keep')
    .meta({ description: 'Whether the payment provider keeps the customer: invoices have legal retention' }),
})
export type EraseRequest = z.input<typeof EraseRequest>

const actor = z.object({ type: z.string(), id: z.string(), name: z.string() })

export const Report = z
  .object({
    version: z.literal(1),
    tenantId: z.string(),
    reason: z.string(),
    billing: z.enum(['keep', 'delete']),
    requestedBy: actor,
    requestedAt: z.iso.datetime(),
    finishedAt: z.iso.datetime(),
    systems: z.array(
      z.object({
        system: z.string().meta({ example: 'archives' }),
        kind: z.string().meta({ description: 'Kind of data, or name of a table', example: 'objects' }),
        found: z.int().meta({ description: 'Before the removal' }),
        removed: z.int(),
        foundAfterwards: z.int(),
        kept: z.string().nullable().meta({ description: 'Reason for which the rest is kept' }),
      }),
    ),
    expires: z
      .array(
        z.object({
          what: z.string(),
          at: z.iso.datetime().nullable().meta({ description: 'Null: by a retention that Tenantry does not know' }),
        }),
      )
      .meta({ description: 'Copies that end later with their retention' }),
    clones: z.array(z.string()).meta({ description: 'Tenants that were created as copies of this one' }),
    limits: z.array(z.string()),
  })
  .meta({ id: 'ErasureReport' })
export type Report = z.output<typeof Report>

export const Erasure = z
  .object({
    tenantId: z.string(),
    state: z.enum(STATES),
    reason: z.string(),
    billing: z.enum(['keep', 'delete']),
    requestedBy: actor,
    requestedAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
    waitingFor: z
      .string()
      .nullable()
      .meta({ description: 'The unavailable system that delays it', example: 'placement "eu-1"' }),
    steps: z
      .array(z.object({ name: z.string(), startedAt: z.iso.datetime(), finishedAt: z.iso.datetime().nullable() }))
      .meta({ description: 'Started steps, in their order' }),
    report: Report.nullable().meta({ description: 'Null until it is completed' }),
    signature: z
      .object({
        key: z
          .enum(['audit', 'application'])
          .meta({ description: 'Key of the audit chain, or without that satellite the application key' }),
        value: z.string().meta({ description: 'HMAC-SHA256 of the report' }),
        isValid: z
          .boolean()
          .nullable()
          .meta({ description: 'Whether it matches the stored report; null if its key is not available' }),
      })
      .nullable(),
  })
  .meta({ id: 'Erasure' })
export type Erasure = z.output<typeof Erasure>

export const toErasure = (row: ErasureRow, isValid: boolean | null): Erasure => ({
  tenantId: row.tenantId,
  state: row.state,
  reason: row.reason,
  billing: row.billing,
  requestedBy: { type: row.requestedBy.type, id: row.requestedBy.id, name: row.requestedBy.name },
  requestedAt: row.requestedAt.toISOString(),
  finishedAt: row.finishedAt?.toISOString() ?? null,
  waitingFor: row.waitingFor,
  steps: Object.entries(row.steps)
    .toSorted(([, one], [, other]) => one.position - other.position)
    .map(([name, { startedAt, finishedAt = null }]) => ({ name, startedAt, finishedAt })),
  report: row.report === null ? null : Report.parse(JSON.parse(row.report)),
  signature:
    row.signature === null || row.signedWith === null ? null : { key: row.signedWith, value: row.signature, isValid },
})
