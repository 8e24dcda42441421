/**
 * Runs a function of the host for each active tenant.
 *
 * - Reads the tenants page by page. A tenant that is created during the loop is not included.
 * - Checks each tenant again at its turn: one that is no longer active is skipped.
 */
import { z } from 'zod'
import type { PageOf } from '../../kernel/api/page.ts'
import { mapConcurrent } from '../../kernel/base/concurrency.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import type { Tenant } from '../handles/handle.ts'
import type { Scope } from '../handles/tenant-context.ts'
import type { TenantFilter } from '../registry/registry.ts'
import { TenantIsSuspended, TenantMismatch, TenantNotFound, TenantNotReady } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'

const PAGE = 200
const CONCURRENCY = 4

export interface ForEachTenantOptions {
  /** The only status whose storage can be used. */
  readonly status?: 'active'
  /** Only tenants with this text in their id, name or a domain. */
  readonly q?: string
  /** Number of tenants in progress, at most; default 4. */
  readonly concurrency?: number
  /** After a failure: `stop` (default) starts no further tenant and throws the error, `continue` runs the other tenants. */
  readonly onError?: 'stop' | 'continue'
  /** Starts no further tenant after it aborts, and throws its reason. */
  readonly signal?: AbortSignal
}

const Options = z.strictObject({
  status: z.literal('active').optional(),
  q: z.string().optional(),
  concurrency: z.int().min(1).default(CONCURRENCY),
  onError: z.enum(['stop', 'continue']).default('stop'),
  signal: z.custom<AbortSignal>().optional(),
})

export interface ForEachTenantResult {
  readonly done: number
  /** With `onError: 'continue'`: the error of each failed tenant, in the order of the failures. */
  readonly failed: readonly { readonly id: string; readonly error: unknown }[]
  /** Tenants that were active when the loop read them, and not at their turn. */
  readonly skipped: number
}

export interface ForEachTenantDependencies {
  readonly scope: Pick<Scope, 'run'>
  readonly tenants: { list(filter: TenantFilter): Promise<PageOf<TenantRecord>> }
}

export async function forEachTenant(
  { scope, tenants }: ForEachTenantDependencies,
  options: ForEachTenantOptions,
  work: (tenant: Tenant) => unknown,
): Promise<ForEachTenantResult> {
  if (typeof work !== 'function') {
    throw invalid([
      { path: 'work', message: 'must be a function. Call forEachTenant(options, work), with {} for the defaults' },
    ])
  }
  const { q, concurrency, onError, signal } = parsed(Options, options)
  const { tenantId } = currentContext()
  if (tenantId !== undefined && tenantId !== null) {
    throw TenantMismatch('forEachTenant uses all tenants: call it outside of a guarded route, a job and tenancy.run().')
  }
  const one = async (id: string): Promise<'done' | 'skipped' | { id: string; error: unknown }> => {
    let isStarted = false
    try {
      await scope.run(id, (tenant) => {
        isStarted = true
        return work(tenant)
      })
      return 'done'
    } catch (error) {
      if (!isStarted && isInactive(error)) return 'skipped'
      if (onError === 'stop') throw error
      return { id, error }
    }
  }
  let done = 0
  let skipped = 0
  const failed: { id: string; error: unknown }[] = []
  for await (const result of mapConcurrent(activeIds(tenants, q), concurrency, one, signal)) {
    if (result === 'done') done++
    else if (result === 'skipped') skipped++
    else failed.push(result)
  }
  signal?.throwIfAborted()
  return { done, failed, skipped }
}

async function* activeIds(
  tenants: ForEachTenantDependencies['tenants'],
  q: string | undefined,
): AsyncGenerator<string, void> {
  let cursor: string | undefined
  do {
    const page = await tenants.list({ status: 'active', q, limit: PAGE, cursor })
    for (const { id } of page.data) yield id
    cursor = page.nextCursor ?? undefined
  } while (cursor)
}

const isInactive = (error: unknown): boolean =>
  TenantIsSuspended.matches(error) || TenantNotFound.matches(error) || TenantNotReady.matches(error)
