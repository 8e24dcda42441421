/**
 * Migration runs that jobs of the workers carry out, and the list of all runs.
 *
 *   start ──► running ──WorkMigrationRun──► completed | failed
 *                └──cancel──► after the storages in progress: cancelled
 *
 * - The job can run twice: each storage has a lease, and several processes share a run.
 * - A worker whose migrations differ from those of the run leaves it to other workers.
 */

import { NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { isUuid } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { pollUntil } from '../../kernel/jobs/poll.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { versionOf } from '../tenant/schema-version.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { MigrationRunEnded, MigrationRunNotFound } from './errors.ts'
import { MigrationItems } from './items.ts'
import { WorkMigrationRun } from './job-types.ts'
import type { ItemState, MigrationRun } from './model/run.ts'
import { LEASE_MS, RunOptions } from './options.ts'
import { assertMigratable } from './plan.ts'
import {
  type MigrationItemResource,
  type MigrationRunResource,
  type StartRequest,
  toItemResource,
  toRunResource,
} from './resources.ts'
import { countedRuns, withCounts } from './run-rows.ts'
import type { RunStarter } from './run-starter.ts'
import type { SchemaVersions } from './schema-versions.ts'
import type { WorkerOptions } from './worker.ts'

const POLL_MS = 500
/** Longer than the queue needs to detect and repeat a lost job. */
const LOST_SECONDS = 60
const BY_STORAGE = { columns: ['storage'], direction: 'asc' } as const

interface Dependencies {
  readonly kernel: Kernel
  readonly versions: SchemaVersions
  readonly starter: RunStarter
  readonly work: (run: MigrationRun, options: WorkerOptions) => Promise<void>
}

interface WorkOptions {
  readonly signal: AbortSignal
  /** Time until other processes take over the storages of a killed process; default 30,000. */
  readonly leaseMs?: number
}

export class BackgroundRuns {
  readonly #dependencies: Dependencies

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies
  }

  /**
   * Starts a run of the pending migrations, or joins the unfinished one with the same request. Without pending migrations it has ended.
   *
   * @throws E_MIGRATION_RUNNING, E_TENANT_NOT_FOUND, E_TENANT_STATE
   * @example const { id } = await tenancy.tenants.migrations.background.start()
   */
  async start({ tenantIds, verify = false, ...given }: StartRequest = {}): Promise<MigrationRunResource> {
    const { starter, kernel } = this.#dependencies
    const ids = tenantIds && [...new Set(tenantIds)]
    if (ids) await assertMigratable(kernel.database, ids)
    const selection = { direction: 'up', ids, verify } as const
    const options = parsed(RunOptions, given)
    const run = await starter.joinOrStart({ selection, steps: null, options, isBackground: true })
    if (!run) throw new Error('a background run was not started')
    return this.get(run.id)
  }

  /** @throws E_MIGRATION_RUN_NOT_FOUND */
  async get(id: string): Promise<MigrationRunResource> {
    const { database } = this.#dependencies.kernel
    const run = isUuid(id) ? await countedRuns(database).where('id', '=', id).executeTakeFirst() : undefined
    if (!run) throw notFound(id)
    return toRunResource(withCounts(run))
  }

  /** The newest first. The last 20 runs are kept. */
  list(page: PageOptions = {}): Promise<PageOf<MigrationRunResource>> {
    const { database, cursors } = this.#dependencies.kernel
    const keyset = { name: 'migrationRuns', order: NEWEST_FIRST }
    return cursors.keysetPage(countedRuns(database), { ...keyset, item: (run) => toRunResource(withCounts(run)) }, page)
  }

  /** Storages of a run in the order of their names. @throws E_MIGRATION_RUN_NOT_FOUND */
  async items(
    id: string,
    { state, ...page }: PageOptions & { readonly state?: ItemState | undefined } = {},
  ): Promise<PageOf<MigrationItemResource>> {
    await this.get(id)
    const { database, cursors } = this.#dependencies.kernel
    let query = database.query<TenantTables>().selectFrom('migrationItems').selectAll().where('runId', '=', id)
    if (state) query = query.where('state', '=', state)
    const keyset = { name: 'migrationItems', filters: [id, state], order: BY_STORAGE, item: toItemResource }
    return cursors.keysetPage(query, keyset, page)
  }

  /**
   * Ends a run after the storages in progress; the others are skipped. A repeated call returns the cancelled run.
   *
   * @throws E_MIGRATION_RUN_NOT_FOUND, E_MIGRATION_RUN_ENDED
   */
  cancel(id: string): Promise<MigrationRunResource> {
    const { kernel, starter } = this.#dependencies
    return kernel.database.transaction(async () => {
      const run = await this.#find(id, 'locked')
      if (!run) throw notFound(id)
      if (run.state !== 'running') {
        if (run.isCancelled) return this.get(id)
        throw MigrationRunEnded(`Migration run "${id}" is ${run.state}.`)
      }
      await starter.cancel(run)
      const items = new MigrationItems(kernel.database, run, LEASE_MS)
      await items.reclaim()
      await items.finish(kernel.clock.now())
      return this.get(id)
    })
  }

  /** The run when it has ended, or its present state when `signal` aborts. */
  settled(
    id: string,
    signal: AbortSignal,
    show: (run: MigrationRunResource) => void = () => undefined,
  ): Promise<MigrationRunResource> {
    const read = async () => {
      const run = await this.get(id)
      show(run)
      return run
    }
    return pollUntil(read, ({ state }) => state !== 'running', { signal, pollMs: POLL_MS })
  }

  /** Works on a run until it has ended. Throws if the signal aborts, so that the job is repeated. */
  async work(id: string, { signal, leaseMs = LEASE_MS }: WorkOptions): Promise<void> {
    const { kernel, versions, work } = this.#dependencies
    const run = await this.#find(id)
    if (run?.state !== 'running') return
    if (!run.isCancelled && run.target !== versionOf(versions.folder)) {
      kernel.log.warn({ runId: id }, 'this process has other migrations than the run, and leaves it to other workers')
      return
    }
    const { concurrency } = RunOptions.parse({})
    const context = { requestId: run.requestId, actor: run.actor ?? currentContext().actor, ip: null }
    await enterContext(context, () => work(run, { concurrency, leaseMs, signal, onProgress: undefined }))
    signal.throwIfAborted()
  }

  /** The job of every minute: continues runs without a worker, and ends cancelled ones. */
  async recover(): Promise<void> {
    const { database, jobs } = this.#dependencies.kernel
    const { rows } = await database.sql(
      `select id from multitenancy.migration_runs where state = 'running' and (is_background or is_cancelled)
         and worked_until < now() - $1 * interval '1 second'`,
      [LOST_SECONDS],
    )
    for (const { id } of rows) await jobs.send(WorkMigrationRun, { runId: id }, { key: id })
  }

  async #find(id: string, lock?: 'locked'): Promise<MigrationRun | undefined> {
    const { database } = this.#dependencies.kernel
    if (!isUuid(id)) return undefined
    const query = database.query<TenantTables>().selectFrom('migrationRuns').selectAll().where('id', '=', id)
    return (lock ? query.forUpdate() : query).executeTakeFirst()
  }
}

const notFound = (id: string) => MigrationRunNotFound(`Migration run "${id}" not found.`)
