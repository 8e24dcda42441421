/**
 * Carries out a bulk job under a lease: one tenant after the other, each in one transaction with its stored result.
 *
 *   claimed ─► for each pending tenant: [ lease held ─► operation ─► result ] ─► completed
 *                 │ signal aborts, or the backoffice is unavailable: released, the job comes again
 *                 └ cancelled, or another worker has the lease: ends, and changes nothing more
 *
 * - After a kill, another worker continues with the tenants without a result. None is changed twice.
 * - A rejected operation is a result: its changes are rolled back, the others continue.
 * - Before each hundred tenants, the token of the start must still exist and permit the operation.
 */
import { enterContext } from '../../kernel/base/context.ts'
import { TenancyError } from '../../kernel/base/errors.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { AttemptLost, createLease, expired, type Lease, leasedUntil } from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { lockExistingTenant } from '../registry/tenant-assertions.ts'
import { type Failure, failureOf } from '../tenant/failure.ts'
import type { Tenants } from '../tenants.ts'
import { ACTIONS } from './actions.ts'
import { Forbidden } from './requests.ts'
import { type BulkItemRow, type BulkJobRow, ITEMS, JOBS } from './tables.ts'

const LEASE_MS = 60_000
const READ_AT_ONCE = 100
const OTHERWISE: Failure = { code: 'E_INTERNAL', message: 'The operation failed. See the log for the cause.' }

export interface WorkDependencies {
  readonly kernel: Kernel
  readonly tenants: Tenants
  /** The present permissions of a token of the database; undefined if it was revoked or has ended. */
  readonly tokens: {
    find(id: string): Promise<{ readonly grant: { readonly operations: ReadonlySet<string> } } | undefined>
  }
}

export interface WorkOptions {
  readonly signal: AbortSignal
  /** Time without a result after which another worker may take over; default 60,000. */
  readonly leaseMs?: number | undefined
}

type Result = Pick<BulkItemRow, 'state' | 'code' | 'message'>

/** Returns if the job has ended, or another worker has it. Throws if the signal aborts, or the backoffice is unavailable. */
export async function work(dependencies: WorkDependencies, id: string, options: WorkOptions): Promise<void> {
  const { database, log } = dependencies.kernel
  const { leaseMs = LEASE_MS, signal } = options
  const lease = createLease(database, { table: JOBS, group: 'id', row: 'id' }, id, leaseMs)
  const job = await claim(dependencies, id, lease.worker, leaseMs)
  if (!job) return
  try {
    const { actor, requestId } = job
    await enterContext({ requestId, actor, ip: null }, () => new Attempt(dependencies, job, lease, leaseMs).run(signal))
  } catch (error) {
    if (error instanceof AttemptLost) return
    await lease
      .update(`state = 'pending', worker = null`)
      .catch((failure) => log.warn({ err: failure, bulkId: id }, 'could not release a bulk job'))
    throw error
  }
}

async function claim(
  { kernel: { database } }: WorkDependencies,
  id: string,
  worker: string,
  leaseMs: number,
): Promise<Pick<BulkJobRow, 'id' | 'operation' | 'input' | 'actor' | 'requestId' | 'tokenId'> | undefined> {
  const { rows } = await database.sql(
    `update ${JOBS} set state = 'running', worker = $2, lease_until = ${leasedUntil('$3')}
     where id = $1 and (state = 'pending' or ${expired('bulk_jobs')})
     returning id, operation, input, actor, request_id as "requestId", token_id as "tokenId"`,
    [id, worker, leaseMs],
  )
  return rows[0]
}

type ClaimedJob = NonNullable<Awaited<ReturnType<typeof claim>>>

class Attempt {
  readonly #dependencies: WorkDependencies
  readonly #job: ClaimedJob
  readonly #lease: Lease
  readonly #leaseMs: number

  constructor(dependencies: WorkDependencies, job: ClaimedJob, lease: Lease, leaseMs: number) {
    this.#dependencies = dependencies
    this.#job = job
    this.#lease = lease
    this.#leaseMs = leaseMs
  }

  async run(signal: AbortSignal): Promise<void> {
    const { database } = this.#dependencies.kernel
    for (;;) {
      if (!(await this.#isPermitted())) return this.#end('cancelled', REVOKED)
      const { rows } = await database.sql(
        `select tenant_id as id from ${ITEMS} where job_id = $1 and state = 'pending' order by tenant_id limit ${READ_AT_ONCE}`,
        [this.#job.id],
      )
      if (rows.length === 0) return this.#end('completed', null)
      for (const { id } of rows) {
        signal.throwIfAborted()
        await this.#runOne(id)
        await this.#dependencies.tenants.fences.opened(id)
      }
    }
  }

  async #isPermitted(): Promise<boolean> {
    const { tokenId, operation } = this.#job
    if (tokenId === null) return true
    return (await this.#dependencies.tokens.find(tokenId))?.grant.operations.has(operation) ?? false
  }

  #runOne(tenantId: string): Promise<void> {
    const { database } = this.#dependencies.kernel
    return database.transaction(async () => {
      await this.#hold()
      const { state, code, message } = await this.#result(tenantId)
      await database.sql(
        `with item as (
           update ${ITEMS} set state = $3, code = $4, message = $5, finished_at = now()
           where job_id = $1 and tenant_id = $2 and state = 'pending' returning job_id
         )
         update ${JOBS} job set ${state} = job.${state} + 1, lease_until = ${leasedUntil('$6')} from item where job.id = item.job_id`,
        [this.#job.id, tenantId, state, code, message, this.#leaseMs],
      )
    })
  }

  async #result(tenantId: string): Promise<Result> {
    const { kernel, tenants } = this.#dependencies
    const { operation, input, id } = this.#job
    const { predict, run } = ACTIONS[operation]
    try {
      const state = await kernel.database.transaction(async () => {
        const predicted = predict(await lockExistingTenant(kernel.database, tenantId), input)
        await run(tenants, tenantId, input)
        return predicted
      })
      return { state, code: null, message: null }
    } catch (error) {
      if (!(error instanceof TenancyError)) {
        kernel.log.error({ err: error, tenantId, bulkId: id, operation }, 'an operation of a bulk job failed')
      }
      return { state: 'failed', ...failureOf(error, OTHERWISE) }
    }
  }

  /** In a transaction: until it ends, no worker takes over, and the job is not cancelled. */
  async #hold(): Promise<void> {
    if (!(await this.#lease.lock(this.#job.id))) throw this.#lost()
  }

  #end(state: 'completed' | 'cancelled', failure: Failure | null): Promise<void> {
    const { database, events } = this.#dependencies.kernel
    const { id } = this.#job
    return database.transaction(async () => {
      await this.#hold()
      const { done, unchanged, failed } = await finish(this.#dependencies.kernel, id, state, failure)
      const after = { state, done, unchanged, failed, ...(failure ? { failure } : {}) }
      const outcome = failure ? ('failure' as const) : ('success' as const)
      await recordChange(events, { action: 'bulk.complete', tenantId: null, target: `bulk:${id}`, after, outcome })
    })
  }

  #lost = () => new AttemptLost(`The bulk job ${this.#job.id} no longer belongs to this worker.`)
}

const REVOKED: Failure = {
  code: Forbidden.code,
  message: 'The token of the start was revoked or has ended.',
}

/** Ends a job with the row locked. Tenants without a result are skipped. */
export async function finish(
  { database }: Pick<Kernel, 'database'>,
  id: string,
  state: 'completed' | 'cancelled',
  failure: Failure | null,
): Promise<Pick<BulkJobRow, 'done' | 'unchanged' | 'failed'>> {
  await database.sql(`update ${ITEMS} set state = 'skipped' where job_id = $1 and state = 'pending'`, [id])
  const { rows } = await database.sql(
    `update ${JOBS} set state = $2, failure = $3, worker = null, finished_at = now() where id = $1
     returning done, unchanged, failed`,
    [id, state, failure && JSON.stringify(failure)],
  )
  return rows[0]
}
