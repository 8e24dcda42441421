/**
 * The service of bulk jobs: one operation for up to 10,000 tenants.
 *
 *   start ──► pending ──worker──► running ──► completed
 *      └─(dryRun)─► completed        └──cancel, or its token is revoked──► cancelled
 */

import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { invalid, TenancyError } from '../../kernel/base/errors.ts'
import { isUuid, uuidv7 } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { pollUntil } from '../../kernel/jobs/poll.ts'
import { filterOf, TenantSelection } from '../operations/tenant-reads.ts'
import type { TenantFilter } from '../registry/registry.ts'
import { PlanNotFound, PlanResolvedByHost, tenantNotFound } from '../tenant/errors.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { ACTIONS } from './actions.ts'
import type { BulkInput } from './input.ts'
import { RunBulk } from './job-types.ts'
import {
  BulkEnded,
  type BulkJob,
  BulkNotFound,
  BulkRequest,
  type BulkResult,
  Forbidden,
  hasEnded,
  inputOf,
  MAX_TENANTS,
  toBulkJob,
  toBulkResult,
} from './requests.ts'
import { type BulkItemRow, type BulkJobRow, type BulkTables, ITEMS, JOBS } from './tables.ts'
import { finish, type WorkDependencies, type WorkOptions, work } from './worker.ts'

const PAGE = 200
const POLL_MS = 500
const KEPT_DAYS = 90
/** Of dry runs: predictions are soon out of date, and have a row for each tenant. */
const DRY_RUN_KEPT_DAYS = 1
const BY_TENANT = { columns: ['tenantId'], direction: 'asc' } as const
/** Longer than the queue needs to detect and repeat a lost job. */
const LOST_SECONDS = 60
const RECOVERED_AT_ONCE = 1_000

type Item = Pick<BulkItemRow, 'tenantId' | 'state' | 'code' | 'message'>

export class Bulk {
  readonly #dependencies: WorkDependencies

  constructor(dependencies: WorkDependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Starts a job, with the permissions of the caller. A dry run has ended when it returns.
   *
   * @throws E_FORBIDDEN, E_PLAN_NOT_FOUND, E_PLAN_RESOLVED_BY_HOST, E_INVALID_REQUEST also for a filter that matches more tenants
   * @example await bulk.start({ operation: 'tenants.suspend', filter: { q: 'trial-' } })
   */
  async start(request: BulkRequest): Promise<BulkJob> {
    const valid = parsed(BulkRequest, request)
    const { operation, tenantIds, filter = {}, dryRun } = valid
    const input = inputOf(valid)
    assertPermitted([operation, ...(tenantIds ? [] : ['tenants.list'])])
    this.#assertPlan(input)
    const ids = tenantIds ? [...new Set(tenantIds)] : await this.#matching(filterOf(filter, TenantSelection))
    const items = dryRun ? await this.#predicted(operation, input, ids) : ids.map(pendingItem)
    const { database, clock, jobs, events } = this.#dependencies.kernel
    const { actor, requestId, grant } = currentContext()
    const id = uuidv7(clock.now().getTime())
    const count = (state: BulkItemRow['state']) => items.filter((one) => one.state === state).length
    return database.transaction(async () => {
      const now = clock.now()
      await database
        .query<BulkTables>()
        .insertInto('bulkJobs')
        .values({
          id,
          operation,
          input: JSON.stringify(input) as unknown as BulkInput,
          isDryRun: dryRun,
          state: dryRun ? 'completed' : 'pending',
          actor: JSON.stringify(actor) as unknown as BulkJobRow['actor'],
          requestId,
          tokenId: grant?.tokenId ?? null,
          total: items.length,
          done: count('done'),
          unchanged: count('unchanged'),
          failed: count('failed'),
          failure: null,
          worker: null,
          leaseUntil: now,
          createdAt: now,
          finishedAt: dryRun ? now : null,
        })
        .execute()
      await this.#insertItems(id, items, dryRun ? now : null)
      if (!dryRun) {
        await jobs.send(RunBulk, { bulkId: id }, { key: id })
        const after = { operation, ...input, tenants: items.length }
        await recordChange(events, { action: 'bulk.start', tenantId: null, target: `bulk:${id}`, after })
      }
      return toBulkJob(await this.#row(id))
    })
  }

  /** @throws E_BULK_NOT_FOUND */
  async get(id: string): Promise<BulkJob> {
    return toBulkJob(await this.#row(id))
  }

  /** The newest first. Jobs that ended 90 days ago are deleted, dry runs after one day. */
  list(page: PageOptions = {}): Promise<PageOf<BulkJob>> {
    const { database, cursors } = this.#dependencies.kernel
    const query = database.query<BulkTables>().selectFrom('bulkJobs').selectAll()
    return cursors.keysetPage(query, { name: 'bulk', order: NEWEST_FIRST, item: toBulkJob }, page)
  }

  /** Results by tenant, in the order of ids. @throws E_BULK_NOT_FOUND */
  async results(
    id: string,
    { state, ...page }: PageOptions & { readonly state?: BulkItemRow['state'] | undefined } = {},
  ): Promise<PageOf<BulkResult>> {
    await this.#row(id)
    const { database, cursors } = this.#dependencies.kernel
    let query = database.query<BulkTables>().selectFrom('bulkItems').selectAll().where('jobId', '=', id)
    if (state) query = query.where('state', '=', state)
    const keyset = { name: 'bulkResults', filters: [id, state], order: BY_TENANT, item: toBulkResult }
    return cursors.keysetPage(query, keyset, page)
  }

  /** Ends a job: tenants without a result are skipped, results stay. @throws E_BULK_NOT_FOUND, E_BULK_ENDED */
  async cancel(id: string): Promise<BulkJob> {
    const { kernel } = this.#dependencies
    return kernel.database.transaction(async () => {
      const before = await this.#row(id, true)
      if (hasEnded(before)) throw BulkEnded(`Bulk job "${id}" is ${before.state}.`)
      const { done, unchanged, failed } = await finish(kernel, id, 'cancelled', null)
      const after = { done, unchanged, failed }
      await recordChange(kernel.events, { action: 'bulk.cancel', tenantId: null, target: `bulk:${id}`, after })
      return this.get(id)
    })
  }

  /** Carries out a job, unless another worker has it. */
  work(id: string, options: WorkOptions): Promise<void> {
    return work(this.#dependencies, id, options)
  }

  /** The job when it has ended, or its present state when `signal` aborts. */
  settled(id: string, signal: AbortSignal, show: (job: BulkJob) => void = () => undefined): Promise<BulkJob> {
    const read = async () => {
      const job = await this.get(id)
      show(job)
      return job
    }
    return pollUntil(read, hasEnded, { signal, pollMs: POLL_MS })
  }

  /** The job of every minute: continues jobs without a worker, and deletes old ones. */
  async recover(): Promise<void> {
    const { database, jobs } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select id from ${JOBS} where state in ('pending', 'running') and lease_until < now() - $1 * interval '1 second'
       order by lease_until limit ${RECOVERED_AT_ONCE}`,
      [LOST_SECONDS],
    )
    const lost = rows.map(({ id }: { id: string }) => ({ data: { bulkId: id }, key: id }))
    if (lost.length > 0) await jobs.sendAll(RunBulk, lost)
    await database.sql(
      `delete from ${JOBS} where finished_at < now() - case when is_dry_run then $1::int else $2::int end * interval '1 day'`,
      [DRY_RUN_KEPT_DAYS, KEPT_DAYS],
    )
  }

  #assertPlan({ plan }: BulkInput): void {
    const { plans } = this.#dependencies.tenants
    if (plan === undefined) return
    if (plans.isDecidedByHost)
      throw PlanResolvedByHost("The host's getPlan decides the plan of a tenant. Change it there.")
    if (!plans.isDefined(plan)) throw PlanNotFound(`Plan "${plan}" not found. GET /plans lists all plans.`)
  }

  async #matching(filter: Partial<TenantFilter>): Promise<string[]> {
    const { tenants } = this.#dependencies
    const ids = new Set<string>() // a tenant that changes meanwhile may be on two pages
    let cursor: string | undefined
    do {
      const page = await tenants.list({ ...filter, limit: PAGE, ...(cursor ? { cursor } : {}) })
      for (const { id } of page.data) ids.add(id)
      cursor = page.nextCursor ?? undefined
      if (ids.size > MAX_TENANTS || (cursor && ids.size === MAX_TENANTS)) {
        throw invalid([{ path: 'filter', message: `matches more than ${MAX_TENANTS} tenants; choose a narrower one` }])
      }
    } while (cursor)
    if (ids.size === 0) throw invalid([{ path: 'filter', message: 'matches no tenant' }])
    return [...ids]
  }

  async #predicted(operation: BulkJobRow['operation'], input: BulkInput, ids: readonly string[]): Promise<Item[]> {
    const { database } = this.#dependencies.kernel
    const rows = await database.query<TenantTables>().selectFrom('tenants').selectAll().where('id', 'in', ids).execute()
    const byId = new Map(rows.map((row) => [row.id, row]))
    return ids.map((tenantId) => {
      try {
        const row = byId.get(tenantId)
        if (!row || row.purgedAt) throw tenantNotFound(tenantId)
        return { tenantId, state: ACTIONS[operation].predict(row, input), code: null, message: null }
      } catch (error) {
        if (!(error instanceof TenancyError)) throw error
        return { tenantId, state: 'failed', code: error.code, message: error.detail }
      }
    })
  }

  async #insertItems(jobId: string, items: readonly Item[], finishedAt: Date | null): Promise<void> {
    await this.#dependencies.kernel.database.sql(
      `insert into ${ITEMS} (job_id, tenant_id, state, code, message, finished_at)
       select $1, item.*, $6 from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as item`,
      [
        jobId,
        items.map(({ tenantId }) => tenantId),
        items.map(({ state }) => state),
        items.map(({ code }) => code),
        items.map(({ message }) => message),
        finishedAt,
      ],
    )
  }

  async #row(id: string, isLocked = false): Promise<BulkJobRow> {
    const query = this.#dependencies.kernel.database.query<BulkTables>().selectFrom('bulkJobs').selectAll()
    const one = query.where('id', '=', id)
    const row = isUuid(id) ? await (isLocked ? one.forUpdate() : one).executeTakeFirst() : undefined
    if (!row) throw BulkNotFound(`Bulk job "${id}" not found.`)
    return row
  }
}

/** A token with a tenant limit starts no job: its operations have one tenant. */
function assertPermitted(names: readonly string[]): void {
  const { grant, actor } = currentContext()
  const denied = names.find((name) => grant && (grant.tenants !== null || !grant.operations.has(name)))
  if (denied) throw Forbidden(`Token "${actor.name}" may not call ${denied}.`)
}

const pendingItem = (tenantId: string): Item => ({ tenantId, state: 'pending', code: null, message: null })
