/** Requests of bulk jobs, and what callers read about them. */
import { z } from 'zod'
import { defineError } from '../../kernel/base/errors.ts'
import { TenantSelection } from '../operations/tenant-reads.ts'
import { TenantId } from '../tenant/tenant.ts'
import { BULK_OPERATIONS, type BulkInput, type BulkOperation, Input } from './input.ts'
import type { BulkItemRow, BulkJobRow } from './tables.ts'

export const MAX_TENANTS = 10_000

export const BulkNotFound = defineError('E_BULK_NOT_FOUND', 404, 'Bulk job not found')
export const BulkEnded = defineError('E_BULK_ENDED', 409, 'Bulk job has ended')
export const Forbidden = defineError('E_FORBIDDEN', 403, 'Not allowed')

/** Operations with input; the others have none. */
const INPUTS: Partial<Record<BulkOperation, readonly (keyof BulkInput)[]>> = {
  'tenants.setPlan': ['plan'],
  'tenants.enterMaintenance': ['message', 'retryAfterSeconds'],
}

export const BulkRequest = z
  .strictObject({
    operation: z.enum(BULK_OPERATIONS).meta({ description: 'Operation for each tenant', example: 'tenants.suspend' }),
    tenantIds: z
      .array(TenantId)
      .min(1)
      .max(MAX_TENANTS)
      .optional()
      .meta({ description: 'Ids of the tenants; or `filter`' }),
    filter: TenantSelection.optional().meta({
      description:
        'Query of `tenants.list` in place of `tenantIds`; `{}` selects all. The tenants are selected at the start',
    }),
    ...Input.shape,
    dryRun: z.boolean().default(false).meta({ description: 'Only predict the result for each tenant' }),
  })
  .superRefine((request, { addIssue }) => {
    const issue = (path: string, message: string) => addIssue({ code: 'custom', path: [path], message })
    const { operation, tenantIds, filter } = request
    if ((tenantIds === undefined) === (filter === undefined)) issue('tenantIds', 'Give either tenantIds or filter.')
    const accepted = INPUTS[operation] ?? []
    for (const name of Object.keys(Input.shape) as (keyof BulkInput)[]) {
      if (request[name] !== undefined && !accepted.includes(name)) issue(name, `is no input of ${operation}`)
    }
    if (operation === 'tenants.setPlan' && request.plan === undefined) issue('plan', 'is required')
  })
export type BulkRequest = z.input<typeof BulkRequest>

export const inputOf = (request: z.output<typeof BulkRequest>): BulkInput => Input.parse(request)

const count = (description: string) => z.int().meta({ description })
const moment = z.iso.datetime()

export const BulkJob = z
  .object({
    id: z.uuid(),
    operation: z.enum(BULK_OPERATIONS),
    input: Input,
    dryRun: z.boolean(),
    state: z.enum(['pending', 'running', 'completed', 'cancelled']),
    startedBy: z.string().meta({ description: 'Name of the actor, also in the audit entries of its changes' }),
    total: count('Number of tenants'),
    done: count('Changed, or with `dryRun`: would be changed'),
    unchanged: count('The tenant already has the requested state'),
    failed: count('Rejected; the results have the code'),
    pending: count('Not carried out yet'),
    skipped: count('Not carried out before the end of the job, or purged before'),
    failure: z
      .object({ code: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'Why Tenantry ended the job early: the token of its start was revoked or has ended' }),
    createdAt: moment,
    finishedAt: moment.nullable(),
  })
  .meta({ id: 'BulkJob' })
export type BulkJob = z.output<typeof BulkJob>

export const BulkResult = z
  .object({
    tenantId: z.string(),
    state: z.enum(['pending', 'done', 'unchanged', 'failed', 'skipped']),
    code: z.string().nullable().meta({ description: 'Of the error, if it failed', example: 'E_TENANT_STATE' }),
    message: z.string().nullable(),
    finishedAt: moment.nullable(),
  })
  .meta({ id: 'BulkResult' })
export type BulkResult = z.output<typeof BulkResult>

export const hasEnded = ({ state }: Pick<BulkJobRow, 'state'>): boolean =>
  state === 'completed' || state === 'cancelled'

export function toBulkJob(row: BulkJobRow): BulkJob {
  const { id, operation, input, isDryRun, state, actor, total, done, unchanged, failed, failure } = row
  const rest = total - done - unchanged - failed
  const [pending, skipped] = hasEnded(row) ? [0, rest] : [rest, 0]
  return {
    id,
    operation,
    input,
    dryRun: isDryRun,
    state,
    startedBy: actor.name,
    total,
    done,
    unchanged,
    failed,
    pending,
    skipped,
    failure,
    createdAt: row.createdAt.toISOString(),
    finishedAt: row.finishedAt?.toISOString() ?? null,
  }
}

export const toBulkResult = ({ jobId: _, finishedAt, ...row }: BulkItemRow): BulkResult => ({
  ...row,
  finishedAt: finishedAt?.toISOString() ?? null,
})
