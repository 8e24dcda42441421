/** Jobs and loops of a host over tenants, as members of the tenancy. */
import type { Part } from '../../kernel/part-definition.ts'
import type { Tenant } from '../handles/handle.ts'
import type { OwnedScope } from '../handles/tenant-context.ts'
import type { Names } from '../tenant/names.ts'
import { type CarriedData, carry } from './carried.ts'
import {
  type ForEachTenantDependencies,
  type ForEachTenantOptions,
  type ForEachTenantResult,
  forEachTenant,
} from './for-each-tenant.ts'
import { createJob, type JobDependencies, type JobHandler, type JobOptions, type UntypedJob } from './job.ts'

export interface HostJobs<DB = any, N extends Names = Names> {
  /**
   * Adds the tenant, the request id and the actor of the context to the data of a job, as `$tenantry`.
   *
   * @example
   *   await queue.add('mail', tenancy.carry({ to }))
   */
  carry<Data extends object>(data: Data): CarriedData<Data>
  /**
   * Returns a handler for the worker of a queue. It runs `work` in the context of the tenant that `carry` has added, as the
   * actor that sent the job. Rejects data without a tenant (`E_TENANT_NOT_IDENTIFIED`), except with `central`. Skips jobs of
   * suspended and unknown tenants, except with `onUnusable: 'retry'`.
   *
   * @example
   *   new Worker<{ to: string }>('mail', tenancy.job(async ({ data }, tenant) => send(data.to, tenant.id)), { connection })
   */
  job<Job = UntypedJob, Result = unknown, Rest extends readonly unknown[] = []>(
    work: (job: Job, tenant: Tenant<DB, N>, ...rest: Rest) => Result | Promise<Result>,
    options?: JobOptions<Job> & { readonly central?: false },
  ): JobHandler<Job, Result, Rest>
  job<Job = UntypedJob, Result = unknown, Rest extends readonly unknown[] = []>(
    work: (job: Job, tenant: Tenant<DB, N> | undefined, ...rest: Rest) => Result | Promise<Result>,
    options: JobOptions<Job> & { readonly central: true },
  ): JobHandler<Job, Result, Rest>
  /**
   * Runs `work` for each active tenant in its context, several concurrently. Throws the first error, or with
   * `onError: 'continue'` returns all of them. `E_TENANT_MISMATCH` in the context of a tenant.
   *
   * @example
   *   const { done, failed } = await tenancy.forEachTenant({ concurrency: 8, onError: 'continue' }, (tenant) => remind(tenant))
   */
  forEachTenant(options: ForEachTenantOptions, work: (tenant: Tenant<DB, N>) => unknown): Promise<ForEachTenantResult>
}

interface Dependencies {
  readonly scope: OwnedScope
  readonly tenants: ForEachTenantDependencies['tenants'] & JobDependencies['tenants']
}

export const hostJobsPart: Part<'hostJobs', HostJobs, Dependencies> = {
  name: 'hostJobs',
  service: ({ log }, { scope, tenants }) => ({
    carry,
    job: (work: (job: any, tenant: any, ...rest: any[]) => any, options?: JobOptions) =>
      createJob({ scope, tenants, log }, work, options),
    forEachTenant: (options, work) => forEachTenant({ scope, tenants }, options, work),
  }),
}
