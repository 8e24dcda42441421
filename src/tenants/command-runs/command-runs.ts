/**
 * Runs a command of the operator for many tenants (`tenant:each`), and continues a run that was stopped.
 *
 *   start ──► worked on by one process ──► finished, or stopped ──resume (any process)──► worked on …
 *
 *   tenant of a run: pending ──claim──► running ──settle──► done | failed
 *                      ▲  └── no longer in the status: skipped │
 *                      └── stopped, or resume ────────────────┘ (of running and failed)
 *
 * - The tenants of a run are those in its status at its start.
 * - Each change requires that this process works on the run. Another process takes it over only after this one has ended.
 * - A process that was killed leaves its tenants `running`: a resumed run executes the command for them again.
 */
import { NotFound } from '../../kernel/base/errors.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { isAlive } from '../../kernel/processes/processes.ts'
import { RunInProgress } from '../tenant/errors.ts'
import type { Status } from '../tenant/lifecycle.ts'

const RUNS_KEPT = 20
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export interface RunCounts {
  readonly total: number
  readonly pending: number
  readonly running: number
  readonly done: number
  readonly failed: number
  readonly skipped: number
}

export interface FailedTenant {
  readonly id: string
  /** Null: a signal ended the command. */
  readonly exitCode: number | null
}

export class CommandRuns {
  readonly #database: Kernel['database']
  readonly #processId: string
  readonly #clock: Kernel['clock']

  constructor({ database, processes, clock }: Pick<Kernel, 'database' | 'processes' | 'clock'>) {
    this.#database = database
    this.#processId = processes.id
    this.#clock = clock
  }

  /** Starts a run for the tenants in this status, and returns its id. */
  start(status: Status): Promise<string> {
    const id = uuidv7(this.#clock.now().getTime())
    return this.#database.transaction(async () => {
      await this.#database.sql('insert into multitenancy.command_runs (id, status, process_id) values ($1, $2, $3)', [
        id,
        status,
        this.#processId,
      ])
      await this.#database.sql(
        `insert into multitenancy.command_run_items (run_id, tenant_id)
         select $1, id from multitenancy.tenants where status = $2 and purged_at is null`,
        [id, status],
      )
      await this.#database.sql(PRUNE, [RUNS_KEPT])
      return id
    })
  }

  /** Continues a run with its unfinished and failed tenants. `E_NOT_FOUND`, or `E_RUN_IN_PROGRESS`. */
  async resume(id: string): Promise<void> {
    if (!UUID.test(id)) throw notFound(id)
    const { rows } = await this.#database.sql(RESUME, [id, this.#processId])
    if (rows[0].resumed) return
    if (!rows[0].found) throw notFound(id)
    throw RunInProgress(`Another process works on run "${id}". Wait for its end, or stop it.`)
  }

  /** The next tenant, which it marks as running. Undefined if none is left, or another process has taken over the run. */
  async claim(id: string): Promise<string | undefined> {
    for (;;) {
      const { rows } = await this.#database.sql(CLAIM, [id, this.#processId])
      if (rows.length === 0) return undefined
      if (rows[0].state === 'running') return rows[0].tenant_id
    }
  }

  /** Records the end of the command for a tenant. `pending`: it was stopped. */
  async settle(
    id: string,
    tenantId: string,
    state: 'done' | 'failed' | 'pending',
    exitCode: number | null,
  ): Promise<void> {
    await this.#database.sql(
      `update multitenancy.command_run_items set state = $4, exit_code = $5
       where run_id = $1 and tenant_id = $3 and state = 'running' and ${IS_MINE}`,
      [id, this.#processId, tenantId, state, exitCode],
    )
  }

  /** Ends the work of this process on a run, so that another one can resume it. */
  async leave(id: string): Promise<void> {
    await this.#database.sql(
      'update multitenancy.command_runs set process_id = null where id = $1 and process_id = $2',
      [id, this.#processId],
    )
  }

  async counts(id: string): Promise<RunCounts> {
    const { rows } = await this.#database.sql(
      `select count(*)::int as total, ${['pending', 'running', 'done', 'failed', 'skipped']
        .map((state) => `(count(*) filter (where state = '${state}'))::int as ${state}`)
        .join(', ')} from multitenancy.command_run_items where run_id = $1`,
      [id],
    )
    return rows[0]
  }

  /** The first failed tenants. */
  async failures(id: string, limit: number): Promise<FailedTenant[]> {
    const { rows } = await this.#database.sql(
      `select tenant_id as id, exit_code as "exitCode" from multitenancy.command_run_items
       where run_id = $1 and state = 'failed' order by tenant_id limit $2`,
      [id, limit],
    )
    return rows
  }
}

const notFound = (id: string) => NotFound(`Run "${id}" not found. The last ${RUNS_KEPT} runs are kept.`)

/** `$1` is the run, `$2` this process. */
const IS_MINE = 'exists (select from multitenancy.command_runs where id = $1 and process_id = $2)'

const RESUME = `
  with found as (
    select id, process_id from multitenancy.command_runs where id = $1 for update
  ), resumed as (
    update multitenancy.command_runs run set process_id = $2 from found
    where run.id = found.id and (found.process_id is null or not ${isAlive('found.process_id')})
    returning run.id
  ), again as (
    update multitenancy.command_run_items item set state = 'pending', exit_code = null from resumed
    where item.run_id = resumed.id and item.state in ('running', 'failed')
  )
  select exists (select from found) as found, exists (select from resumed) as resumed`

const CLAIM = `
  with next as (
    select item.tenant_id, tenant.status = run.status and tenant.purged_at is null as fits
    from multitenancy.command_run_items item
      join multitenancy.command_runs run on run.id = item.run_id
      join multitenancy.tenants tenant on tenant.id = item.tenant_id
    where item.run_id = $1 and item.state = 'pending' and run.process_id = $2
    order by item.tenant_id limit 1 for update of item skip locked
  )
  update multitenancy.command_run_items item set state = case when next.fits then 'running' else 'skipped' end
  from next where item.run_id = $1 and item.tenant_id = next.tenant_id
  returning item.tenant_id, item.state`

const PRUNE = `
  delete from multitenancy.command_runs where (process_id is null or not ${isAlive('process_id')}) and id in (
    select id from multitenancy.command_runs order by created_at desc, id desc offset $1)`
