/**
 * Migrates many tenants, with any number of processes.
 *
 *   await tenancy.tenants.migrations.run({ concurrency: 8, onProgress: ({ done, total }) => … })
 *
 * The same call joins an unfinished run. Other processes take over the items of a killed process after its lease (model/run.ts).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { BackgroundRuns } from './background-runs.ts'
import { MigrationItems } from './items.ts'
import { type MigrationRun, NO_COUNTS } from './model/run.ts'
import {
  Count,
  LEASE_MS,
  type MigrateOptions,
  type MigrationReport,
  type RollbackOptions,
  RunOptions,
} from './options.ts'
import { assertMigratable, type Selection } from './plan.ts'
import { RunStarter } from './run-starter.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { MigrationResultWriter } from './settlement.ts'
import { MigrationStatus } from './status.ts'
import { StorageMigration } from './storage-migration.ts'
import { MigrationWorker, type WorkerOptions } from './worker.ts'

/** A rollback holds a connection to the backoffice for each storage. */
const MAX_CONCURRENT_ROLLBACKS = 4
const POLL_INTERVAL_MS = 50
const NOTHING = { ...NO_COUNTS, isStopped: false, items: [] }

export class MigrationRuns {
  readonly status: MigrationStatus
  readonly versions: SchemaVersions
  /** Runs that jobs of the workers carry out, and the list of all runs. */
  readonly background: BackgroundRuns
  readonly #kernel: Kernel
  readonly #storage: Storage
  readonly #starter: RunStarter

  constructor(kernel: Kernel, storage: Storage, versions: SchemaVersions, changes: TableChanges) {
    this.#kernel = kernel
    this.#storage = storage
    this.versions = versions
    this.#starter = new RunStarter(kernel, storage, versions, changes)
    this.background = new BackgroundRuns({
      kernel,
      versions,
      starter: this.#starter,
      work: (run, options) => this.#work(run, options),
    })
    this.status = new MigrationStatus(kernel.database, storage, versions)
  }

  /** Runs pending migrations. `E_MIGRATION_RUNNING` if another run is unfinished. */
  run({ verify = false, ...options }: MigrateOptions = {}): Promise<MigrationReport> {
    return this.#runSelection({ direction: 'up', ids: options.ids, verify }, null, options)
  }

  /**
   * Rolls back the last migrations of each storage, newest first. Rejects single tenants of a shared storage: the rollback would
   * affect its other tenants, too.
   */
  async rollback({ steps, ...options }: RollbackOptions): Promise<MigrationReport> {
    if (options.ids) await this.#assertNotSharing(options.ids)
    return this.#runSelection(
      { direction: 'down', ids: options.ids, verify: false },
      parsed(Count, steps, 'steps'),
      options,
    )
  }

  /** Cancels the unfinished run and waits for the storages in progress. Undefined if no run is unfinished. */
  async cancel(): Promise<MigrationReport | undefined> {
    const run = await this.#starter.active()
    if (!run) return undefined
    await this.#starter.cancel(run)
    const items = this.#itemsOf(run, LEASE_MS)
    while (!(await items.finish(this.#kernel.clock.now()))) {
      await items.reclaim()
      await sleep(POLL_INTERVAL_MS)
    }
    return this.#report(run)
  }

  async #runSelection(
    selection: Selection,
    steps: number | null,
    { signal, onProgress, ...given }: Omit<MigrateOptions, 'verify'>,
  ): Promise<MigrationReport> {
    if (this.#kernel.database.inTransaction) {
      throw new Error('a migration run has its own transactions: call it outside of a transaction')
    }
    const options = parsed(RunOptions, given)
    if (selection.ids) await assertMigratable(this.#kernel.database, selection.ids)
    const run = await this.#starter.joinOrStart({ selection, steps, options, isBackground: false })
    if (!run) return { runId: null, direction: selection.direction, state: 'completed', total: 0, ...NOTHING }
    await this.#work(run, { ...options, signal, onProgress })
    return this.#report(run)
  }

  /** Migrates the storages of a run in this process, until it has ended or the signal aborts. */
  async #work(run: MigrationRun, { concurrency, leaseMs, signal, onProgress }: WorkerOptions): Promise<void> {
    const items = this.#itemsOf(run, leaseMs)
    const dependencies = { kernel: this.#kernel, storage: this.#storage, versions: this.versions, run, items }
    const worker = new MigrationWorker(
      {
        ...dependencies,
        migration: new StorageMigration(dependencies),
        results: new MigrationResultWriter(dependencies),
      },
      {
        concurrency: run.direction === 'up' ? concurrency : Math.min(concurrency, MAX_CONCURRENT_ROLLBACKS),
        leaseMs,
        signal,
        onProgress,
      },
    )
    await worker.work()
  }

  async #assertNotSharing(ids: readonly string[]): Promise<void> {
    const { rows } = await this.#kernel.database.sql(
      'select id, isolation from multitenancy.tenants where id = any ($1) order by id',
      [ids],
    )
    const sharing = rows.find(({ isolation }) => this.#starter.isShared(isolation))
    if (!sharing) return
    const message = `tenant "${sharing.id}" shares its tables with the other tenants of its placement: roll back all of them`
    throw invalid([{ path: 'ids', message }])
  }

  #itemsOf(run: MigrationRun, leaseMs: number): MigrationItems {
    return new MigrationItems(this.#kernel.database, run, leaseMs)
  }

  async #report(run: MigrationRun): Promise<MigrationReport> {
    const items = this.#itemsOf(run, LEASE_MS)
    const { state } = await this.#kernel.database
      .query<TenantTables>()
      .selectFrom('migrationRuns')
      .select('state')
      .where('id', '=', run.id)
      .executeTakeFirstOrThrow()
    const [counts, all] = [await items.counts(), await items.all()]
    const isStopped = run.stopAfterFailures !== null && counts.failed >= run.stopAfterFailures && counts.skipped > 0
    return { runId: run.id, direction: run.direction, state, total: all.length, ...counts, isStopped, items: all }
  }
}
