/** Starts a migration run, or joins the unfinished one with the same request. */
import { sql } from 'kysely'
import type { z } from 'zod'
import { currentContext } from '../../kernel/base/context.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { leasedUntil } from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Storage } from '../isolation/drivers.ts'
import type { TableChanges } from '../isolation/schema-generation.ts'
import { versionOf } from '../tenant/schema-version.ts'
import type { TenantTables } from '../tenant/tables.ts'
import { MigrationRunning } from './errors.ts'
import { MigrationItems } from './items.ts'
import { WorkMigrationRun } from './job-types.ts'
import { defaultStopAfter, type MigrationRun, type RunRequest, resolveConflict, scopeOf } from './model/run.ts'
import type { RunOptions } from './options.ts'
import { addItems, hasCandidates, isolationsInUse, type Selection } from './plan.ts'
import type { SchemaVersions } from './schema-versions.ts'

const RUNS_KEPT = 20

interface StartOptions {
  readonly selection: Selection
  /** Number of migrations to roll back; null for a migration. */
  readonly steps: number | null
  readonly options: z.output<typeof RunOptions>
  /** Whether a job of the workers carries it out. */
  readonly isBackground: boolean
}

export class RunStarter {
  readonly #kernel: Kernel
  readonly #storage: Storage
  readonly #versions: SchemaVersions
  readonly #changes: TableChanges

  constructor(kernel: Kernel, storage: Storage, versions: SchemaVersions, changes: TableChanges) {
    this.#kernel = kernel
    this.#storage = storage
    this.#versions = versions
    this.#changes = changes
  }

  /** Undefined if no storage has work, except in the background: such a run has ended. */
  async joinOrStart(start: StartOptions): Promise<MigrationRun | undefined> {
    const { database, clock } = this.#kernel
    const { selection, steps, options, isBackground } = start
    const request: RunRequest = {
      direction: selection.direction,
      steps,
      scope: scopeOf(selection.ids, selection.verify),
      target: versionOf(this.#versions.folder),
    }
    for (;;) {
      const active = await this.active()
      if (!active) {
        if (!isBackground && !(await hasCandidates(database, selection, this.#versions.folder))) return undefined
        const started = await this.#start(request, start)
        if (started) return started
        continue
      }
      const resolution = resolveConflict(active, active.isWorkedOn, request)
      if (resolution === 'join') {
        if (isBackground && !active.isBackground && !(await this.#moveToBackground(active))) continue
        return active
      }
      if (resolution === 'reject') throw rejection(active)
      await this.cancel(active)
      const items = new MigrationItems(database, active, options.leaseMs)
      await items.reclaim()
      if (!(await items.finish(clock.now()))) throw rejection(active)
    }
  }

  /** The unfinished run, and whether a process works on it. */
  async active(): Promise<(MigrationRun & { isWorkedOn: boolean }) | undefined> {
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

  /** Marks an unfinished run as cancelled, with an audit entry if workers carry it out. */
  cancel({ id }: Pick<MigrationRun, 'id'>): Promise<void> {
    const { database, events } = this.#kernel
    return database.transaction(async () => {
      const cancelled = await database
        .query<TenantTables>()
        .updateTable('migrationRuns')
        .set({ isCancelled: true })
        .where('id', '=', id)
        .where('state', '=', 'running')
        .where('isCancelled', '=', false)
        .returning('isBackground')
        .executeTakeFirst()
      if (!cancelled?.isBackground) return
      await recordChange(events, { action: 'migrationRuns.cancel', tenantId: null, target: `migrationRun:${id}` })
    })
  }

  /** A missing driver is reported later, by the item. */
  isShared(isolation: string): boolean {
    try {
      return !this.#storage.driver(isolation).capabilities.separateStorage
    } catch (error) {
      if (DependencyUnavailable.matches(error)) return false
      throw error
    }
  }

  /** Undefined if another process has started a run first. */
  async #start(
    request: RunRequest,
    { selection, options, isBackground }: StartOptions,
  ): Promise<MigrationRun | undefined> {
    const { database, clock } = this.#kernel
    const { retries, lockTimeoutMs, stopAfterFailures, leaseMs } = options
    const sharing = (await isolationsInUse(database)).filter((name) => this.isShared(name))
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
          isBackground,
          ...startedBy(),
          retries,
          lockTimeoutMs,
          stopAfterFailures: null, // below: the default depends on the number of items
          workedUntil: sql.raw<Date>(leasedUntil(leaseMs)),
          createdAt: now,
          finishedAt: null,
          counts: null,
        })
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst()
      if (!run) return undefined
      await this.#changes.notify()
      const items = await addItems(database, run.id, selection, this.#versions.folder, sharing)
      const stopAfter = stopAfterFailures ?? defaultStopAfter(run.direction, items)
      await database.sql('update multitenancy.migration_runs set stop_after_failures = $2 where id = $1', [
        run.id,
        stopAfter,
      ])
      await this.#prune()
      if (isBackground) await this.#sendWork(run, items)
      if (isBackground && items === 0) await new MigrationItems(database, run, leaseMs).finish(now)
      return { ...run, stopAfterFailures: stopAfter }
    })
  }

  /** The workers continue a run that a process of a command or of the host has started. False if the run has ended, or was moved. */
  #moveToBackground(run: MigrationRun): Promise<boolean> {
    const { database } = this.#kernel
    return database.transaction(async () => {
      const moved = await database
        .query<TenantTables>()
        .updateTable('migrationRuns')
        .set({ isBackground: true, ...startedBy() })
        .where('id', '=', run.id)
        .where('state', '=', 'running')
        .where('isBackground', '=', false)
        .returning('id')
        .executeTakeFirst()
      if (!moved) return false
      const { pending, running } = await new MigrationItems(database, run, 0).counts()
      await this.#sendWork(run, pending + running)
      return true
    })
  }

  async #sendWork({ id, direction }: MigrationRun, storages: number): Promise<void> {
    const { jobs, events } = this.#kernel
    if (storages > 0) await jobs.send(WorkMigrationRun, { runId: id }, { key: id })
    const after = { direction, storages }
    await recordChange(events, { action: 'migrationRuns.start', tenantId: null, target: `migrationRun:${id}`, after })
  }

  async #prune(): Promise<void> {
    await this.#kernel.database.sql(
      `delete from multitenancy.migration_runs where state <> 'running' and id in (
         select id from multitenancy.migration_runs order by created_at desc, id desc offset $1)`,
      [RUNS_KEPT],
    )
  }
}

/** Changes of a background run are in the name of the caller who started it. */
function startedBy(): Pick<MigrationRun, 'actor' | 'requestId'> {
  const { actor, requestId } = currentContext()
  return { actor: JSON.stringify(actor) as unknown as MigrationRun['actor'], requestId }
}

function rejection({ direction, isCancelled }: MigrationRun) {
  const which = direction === 'up' ? 'A run of migrations' : 'A rollback of migrations'
  return MigrationRunning(
    isCancelled
      ? `${which} is being cancelled; try again after its end.`
      : `${which} is unfinished: repeat the same call to continue it, or cancel it.`,
  )
}
