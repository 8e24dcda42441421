/**
 * Migrates many tenants, with any number of processes.
 *
 *   await tenancy.tenants.migrations.run({ concurrency: 8, onProgress: ({ done, total }) => … })
 *
 * The same call joins an unfinished run. Other processes take over the items of a killed process after its lease (model/run.ts).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { z } from 'zod'
import { DependencyUnavailable, invalid } from '../../kernel/base/errors.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { leasedUntil } from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import { versionOf } from '../tenant/schema-version.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { MigrationRunning } from './errors.ts'
import { MigrationItems } from './items.ts'
import {
  defaultStopAfter,
  type MigrationRun,
  NO_COUNTS,
  type RunRequest,
  resolveConflict,
  scopeOf,
} from './model/run.ts'
import {
  Count,
  LEASE_MS,
  type MigrateOptions,
  type MigrationReport,
  type RollbackOptions,
  RunOptions,
} from './options.ts'
import { addItems, assertMigratable, hasCandidates, isolationsInUse, type Selection } from './plan.ts'
import type { SchemaVersions } from './schema-versions.ts'
import { MigrationResultWriter } from './settlement.ts'
import { MigrationStatus } from './status.ts'
import { StorageMigration } from './storage-migration.ts'
import { MigrationWorker } from './worker.ts'

const RUNS_KEPT = 20
/** A rollback holds a connection to the backoffice for each storage. */
const MAX_CONCURRENT_ROLLBACKS = 4
const POLL_INTERVAL_MS = 50
const NOTHING = { ...NO_COUNTS, isStopped: false, items: [] }

type Options = z.output<typeof RunOptions>

export class MigrationRuns {
  readonly status: MigrationStatus
  readonly versions: SchemaVersions
  readonly #kernel: Kernel
  readonly #storage: Storage
  readonly #changes: TableChanges

  constructor(kernel: Kernel, storage: Storage, versions: SchemaVersions, changes: TableChanges) {
    this.#kernel = kernel
    this.#changes = changes
    this.#storage = storage
    this.versions = versions
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
    const run = await this.#active()
    if (!run) return undefined
    await this.#markCancelled(run)
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
    const run = await this.#joinOrStart(selection, steps, options)
    if (!run) return { runId: null, direction: selection.direction, state: 'completed', total: 0, ...NOTHING }
    const items = this.#itemsOf(run, options.leaseMs)
    const dependencies = { kernel: this.#kernel, storage: this.#storage, versions: this.versions, run, items }
    const worker = new MigrationWorker(
      {
        ...dependencies,
        migration: new StorageMigration(dependencies),
        results: new MigrationResultWriter(dependencies),
      },
      {
        concurrency:
          run.direction === 'up' ? options.concurrency : Math.min(options.concurrency, MAX_CONCURRENT_ROLLBACKS),
        leaseMs: options.leaseMs,
        signal,
        onProgress,
      },
    )
    await worker.work()
    return this.#report(run)
  }

  async #joinOrStart(selection: Selection, steps: number | null, options: Options): Promise<MigrationRun | undefined> {
    const { database, clock } = this.#kernel
    const request: RunRequest = {
      direction: selection.direction,
      steps,
      scope: scopeOf(selection.ids, selection.verify),
      target: versionOf(this.versions.folder),
    }
    for (;;) {
      const active = await this.#active()
      if (!active) {
        if (!(await hasCandidates(database, selection, this.versions.folder))) return undefined
        const started = await this.#start(request, selection, options)
        if (started) return started
        continue
      }
      const resolution = resolveConflict(active, active.isWorkedOn, request)
      if (resolution === 'join') return active
      if (resolution === 'reject') throw rejection(active)
      await this.#markCancelled(active)
      const items = this.#itemsOf(active, options.leaseMs)
      await items.reclaim()
      if (!(await items.finish(clock.now()))) throw rejection(active)
    }
  }

  /** Undefined if another process has started a run first, or no work is left. */
  async #start(
    request: RunRequest,
    selection: Selection,
    { retries, lockTimeoutMs, stopAfterFailures, leaseMs }: Options,
  ): Promise<MigrationRun | undefined> {
    const { database, clock } = this.#kernel
    const sharing = (await isolationsInUse(database)).filter((name) => this.#isShared(name))
    const now = clock.now()
    return database.transaction(async () => {
      const run = await database
        .query<TenantTables>()
        .insertInto('migrationRuns')
        .values({
          ...request,
          id: uuidv7(now.getTime()),
          state: 'running',
          isCancelled: false,
          retries,
          lockTimeoutMs,
          stopAfterFailures: null, // below: the default depends on the number of items
          workedUntil: sql.raw<Date>(leasedUntil(leaseMs)),
          createdAt: now,
          finishedAt: null,
        })
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst()
      if (!run) return undefined
      await this.#changes.notify()
      const items = await addItems(database, run.id, selection, this.versions.folder, sharing)
      const stopAfter = stopAfterFailures ?? defaultStopAfter(run.direction, items)
      await database.sql('update multitenancy.migration_runs set stop_after_failures = $2 where id = $1', [
        run.id,
        stopAfter,
      ])
      await this.#prune()
      return { ...run, stopAfterFailures: stopAfter }
    })
  }

  async #assertNotSharing(ids: readonly string[]): Promise<void> {
    const { rows } = await this.#kernel.database.sql(
      'select id, isolation from multitenancy.tenants where id = any ($1) order by id',
      [ids],
    )
    const sharing = rows.find(({ isolation }) => this.#isShared(isolation))
    if (!sharing) return
    const message = `tenant "${sharing.id}" shares its tables with the other tenants of its placement: roll back all of them`
    throw invalid([{ path: 'ids', message }])
  }

  async #markCancelled({ id }: MigrationRun): Promise<void> {
    await this.#kernel.database
      .query<TenantTables>()
      .updateTable('migrationRuns')
      .set({ isCancelled: true })
      .where('id', '=', id)
      .where('state', '=', 'running')
      .execute()
  }

  /** A missing driver is reported later, by the item. */
  #isShared(isolation: string): boolean {
    try {
      return !this.#storage.driver(isolation).capabilities.separateStorage
    } catch (error) {
      if (DependencyUnavailable.matches(error)) return false
      throw error
    }
  }

  async #prune(): Promise<void> {
    await this.#kernel.database.sql(
      `delete from multitenancy.migration_runs where state <> 'running' and id in (
         select id from multitenancy.migration_runs order by created_at desc, id desc offset $1)`,
      [RUNS_KEPT],
    )
  }

  async #active(): Promise<(MigrationRun & { isWorkedOn: boolean }) | undefined> {
    const { database } = this.#kernel
    return database
      .query<TenantTables>()
      .selectFrom('migrationRuns')
      .selectAll()
      .select(({ eb, fn, exists, or, selectFrom }) =>
        or([
          eb('workedUntil', '>', fn<Date>('now')),
          exists(
            selectFrom('migrationItems')
              .select('storage')
              .whereRef('runId', '=', 'migrationRuns.id')
              .where('migrationItems.state', '=', 'running')
              .where('leaseUntil', '>', fn<Date>('now')),
          ),
        ])
          .$castTo<boolean>()
          .as('isWorkedOn'),
      )
      .where('state', '=', 'running')
      .executeTakeFirst()
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

function rejection({ direction, isCancelled }: MigrationRun) {
  const which = direction === 'up' ? 'A run of migrations' : 'A rollback of migrations'
  return MigrationRunning(
    isCancelled
      ? `${which} is being cancelled; try again after its end.`
      : `${which} is unfinished: repeat the same call to continue it, or cancel it.`,
  )
}
