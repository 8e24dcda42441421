/**
 * Runs the jobs of a host's own queue (BullMQ, pg-boss) in the context of their tenants.
 *
 *   data ─► invalid $tenantry ─► rejected: the queue repeats the job, perhaps in a process of a newer release
 *     ├───► no $tenantry, or no tenant in it ─► rejected permanently, except with `central`
 *     └───► tenant suspended or not found ─────────► skipped and logged, or rejected with `onUnusable: 'retry'`
 *             └─► not ready, in maintenance, database unavailable ─► rejected: the queue repeats the job
 *             └─► usable ─► the host's handler
 */
import { z } from 'zod'
import { enterContext } from '../../kernel/base/context.ts'
import { tenancyErrorOf } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { parsed } from '../../kernel/base/validate.ts'
import type { Tenant } from '../handles/handle.ts'
import type { Scope } from '../handles/tenant-context.ts'
import { TenantIsSuspended, TenantNotFound, TenantNotIdentified } from '../tenant/errors.ts'
import { type Carried, carriedBy, contextOf } from './carried.ts'

/** A job whose type neither the handler nor its queue gives. */
export interface UntypedJob {
  readonly data: unknown
}

export interface JobOptions<Job = any> {
  /** Where `tenancy.carry(data)` is in a job; default `job.data`. */
  readonly data?: (job: Job) => unknown
  /**
   * For a tenant that is suspended or not found: `skip` (default) logs a warning and ends the job successfully with
   * undefined, `retry` rejects, so that the queue repeats the job.
   */
  readonly onUnusable?: 'skip' | 'retry'
  /** Whether jobs without a tenant are accepted; default false. */
  readonly central?: boolean
}

const Options = z.strictObject({
  data: z.custom<(job: any) => unknown>((value) => typeof value === 'function', 'must be a function').optional(),
  onUnusable: z.enum(['skip', 'retry']).default('skip'),
  central: z.boolean().default(false),
})

/** The function for the worker of a queue. Further arguments of the queue reach the handler. */
export type JobHandler<Job, Result, Rest extends readonly unknown[]> = (
  job: Job,
  ...rest: Rest
) => Promise<Result | undefined>

export interface JobDependencies {
  readonly scope: Pick<Scope, 'run' | 'withoutTenant'>
  readonly tenants: { handle(id: string): Promise<Tenant> }
  readonly log: Pick<Logger, 'warn'>
}

export function createJob<Job, Result, Rest extends readonly unknown[]>(
  { scope, tenants, log }: JobDependencies,
  work: (job: Job, tenant: Tenant | undefined, ...rest: Rest) => Result | Promise<Result>,
  options: JobOptions<Job> = {},
): JobHandler<Job, Result, Rest> {
  const { data = (job: any) => job.data, onUnusable, central } = parsed(Options, options)
  const inTenant = async (tenantId: string, job: Job, rest: Rest): Promise<Result | undefined> => {
    try {
      return await scope.run(tenantId, (tenant) => work(job, tenant, ...rest))
    } catch (error) {
      if (onUnusable === 'retry' || !(await isUnusable(tenantId, error))) throw error
      log.warn({ tenantId, code: tenancyErrorOf(error)?.code }, 'skipped a job of a tenant that is not usable')
      return undefined
    }
  }
  /** An error of the handler may concern another tenant, so the tenant of the job is checked again. */
  const isUnusable = async (tenantId: string, error: unknown): Promise<boolean> => {
    if (!isPermanent(error)) return false
    try {
      await tenants.handle(tenantId)
      return false
    } catch (reason) {
      return isPermanent(reason)
    }
  }
  return (job, ...rest) => {
    const carried = carriedBy(data(job))
    const run = async (): Promise<Result | undefined> => {
      if (carried === null) throw TenantNotIdentified(INVALID)
      if (carried?.tenantId) return inTenant(carried.tenantId, job, rest)
      if (!central) throw withoutTenant(carried)
      return await work(job, undefined, ...rest)
    }
    return scope.withoutTenant(() => (carried ? enterContext(contextOf(carried), run) : run()))
  }
}

function isPermanent(error: unknown): boolean {
  const known = tenancyErrorOf(error)
  return TenantIsSuspended.matches(known) || TenantNotFound.matches(known)
}

const INVALID =
  'The $tenantry of the job is invalid. Send it with tenancy.carry(data), and run workers of the release of its sender or of a newer one.'

/** A repetition has the same data. BullMQ does not repeat a job after an error of this name. */
function withoutTenant(carried: Carried | undefined): Error {
  const error = TenantNotIdentified(
    carried
      ? 'The job has no tenant: it was sent outside of one. Send it in the context of a tenant, or accept it with { central: true }.'
      : 'The data of the job has no $tenantry. Send it with tenancy.carry(data).',
  )
  return Object.defineProperty(error, 'name', { value: 'UnrecoverableError' })
}
