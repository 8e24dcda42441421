/**
 * Works on a run in one process: claims items, migrates several storages concurrently, and settles results in batches.
 *
 * - A storage records its migrations in the transaction that runs them.
 * - `TenantMigrated` is published exactly once, in the transaction that writes the tenant's version. If a process dies before it,
 *   the version is unchanged: the next worker finds no migration to run and publishes the event.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type PaceSample, recentOf } from '../../kernel/base/progress-rate.ts'
import { repeat } from '../../kernel/base/repeat.ts'
import { RENEWALS_PER_LEASE } from '../../kernel/jobs/lease.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { Claimed, MigrationItems } from './items.ts'
import { finishedOf, type MigrationRun, type Progress, progressOf } from './model/run.ts'
import type { MigrationResultWriter } from './settlement.ts'
import type { Outcome, StorageMigration } from './storage-migration.ts'

/** Maximum of items of one claim, for each concurrent storage. */
const CLAIMED_PER_WORKER = 16
/** Results of one transaction, for each concurrent storage. */
const SETTLED_PER_WORKER = 8
/** Multiple of such a transaction after which workers wait for the settlement. */
const MAX_UNSETTLED = 4
const UPKEEP_MS = 1_000
const SHORTEST_WAIT_MS = 20
const LONGEST_WAIT_MS = 250

export interface WorkerOptions {
  readonly concurrency: number
  readonly leaseMs: number
  readonly signal: AbortSignal | undefined
  readonly onProgress: ((progress: Progress) => void) | undefined
}

export interface WorkerDependencies {
  readonly kernel: Kernel
  readonly run: MigrationRun
  readonly items: MigrationItems
  readonly migration: StorageMigration
  readonly results: MigrationResultWriter
}

export class MigrationWorker {
  readonly #dependencies: WorkerDependencies
  readonly #options: WorkerOptions
  readonly #claimed: Claimed[] = []
  readonly #outcomes: Outcome[] = []
  #claiming: Promise<void> | undefined
  #recording: Promise<void> | undefined
  #samples: PaceSample[] = []
  #failures = 0
  #hasFailed = false

  constructor(dependencies: WorkerDependencies, options: WorkerOptions) {
    this.#dependencies = dependencies
    this.#options = options
  }

  /** Resolves when the run has ended in any process, or when the signal has aborted and all items are released. */
  async work(): Promise<void> {
    const { items, kernel } = this.#dependencies
    const stops = [
      repeat(
        () => items.renew(),
        this.#options.leaseMs / RENEWALS_PER_LEASE,
        (error) => kernel.log.warn({ err: error }, 'the leases of a migration run could not be renewed'),
      ),
      repeat(
        () => this.#upkeep(),
        UPKEEP_MS,
        (error) => kernel.log.warn({ err: error }, 'the progress of a migration run could not be read'),
      ),
    ]
    try {
      while (!this.#isStopping) {
        await this.#migrateAll()
        if (this.#isStopping) break
        const waitMs = await items.reclaim()
        if (await items.finish(kernel.clock.now())) break
        await this.#pause(Math.min(waitMs, LONGEST_WAIT_MS))
      }
    } finally {
      await Promise.all(stops.map((stop) => stop()))
      if (this.#isStopping) await this.#leave()
    }
    await this.#reportProgress()
  }

  get #isStopping(): boolean {
    return this.#hasFailed || (this.#options.signal?.aborted ?? false)
  }

  /** Migrates until no item is claimable. */
  async #migrateAll(): Promise<void> {
    const workers = await Promise.allSettled(Array.from({ length: this.#options.concurrency }, () => this.#runWorker()))
    const failed = workers.find((worker) => worker.status === 'rejected')
    if (failed) throw failed.reason
    await this.#recordAll()
  }

  async #runWorker(): Promise<void> {
    const batchSize = this.#options.concurrency * SETTLED_PER_WORKER
    try {
      for (let item = await this.#take(); item; item = await this.#take()) {
        const outcome = await this.#dependencies.migration.run(item)
        this.#outcomes.push(outcome)
        if (outcome.state === 'failed') await this.#countFailure()
        if (this.#outcomes.length >= batchSize * MAX_UNSETTLED) await this.#record()
        else if (this.#outcomes.length >= batchSize) this.#recordInBackground()
      }
    } catch (error) {
      this.#hasFailed = true
      throw error
    }
  }

  /** A failure is not lost: the next settlement retries the results, and the last one throws. */
  #recordInBackground(): void {
    this.#record().catch((error) =>
      this.#dependencies.kernel.log.warn({ err: error }, 'results of migrations could not be recorded yet'),
    )
  }

  /** With a maximum of failures, each is recorded immediately. At the maximum, claimed items are released. */
  async #countFailure(): Promise<void> {
    const { stopAfterFailures } = this.#dependencies.run
    this.#failures++
    if (stopAfterFailures === null) return
    await this.#recordAll()
    if (this.#failures >= stopAfterFailures) await this.#release()
  }

  async #take(): Promise<Claimed | undefined> {
    if (this.#isStopping) return undefined
    if (this.#claimed.length === 0) {
      this.#claiming ??= this.#claim().finally(() => {
        this.#claiming = undefined
      })
      await this.#claiming
    }
    return this.#isStopping ? undefined : this.#claimed.shift()
  }

  async #claim(): Promise<void> {
    this.#claimed.push(...(await this.#dependencies.items.claim(this.#options.concurrency * CLAIMED_PER_WORKER)))
  }

  async #recordAll(): Promise<void> {
    while (this.#outcomes.length > 0) await this.#record()
    await this.#recording
  }

  /** One settlement at a time. Results during a settlement are part of the next one. */
  #record(): Promise<void> {
    this.#recording ??= this.#recordReady().finally(() => {
      this.#recording = undefined
    })
    return this.#recording
  }

  async #recordReady(): Promise<void> {
    const ready = this.#outcomes.splice(0)
    try {
      await this.#dependencies.results.record(ready)
    } catch (error) {
      this.#outcomes.unshift(...ready)
      throw error
    }
  }

  async #release(): Promise<void> {
    const storages = this.#claimed.splice(0).map(({ storage }) => storage)
    if (storages.length > 0) await this.#dependencies.items.release(storages)
  }

  async #leave(): Promise<void> {
    const { items, kernel } = this.#dependencies
    try {
      await this.#release()
      await items.leave()
    } catch (error) {
      kernel.log.warn({ err: error }, 'claimed items of a migration run could not be released; their lease expires')
    }
  }

  async #upkeep(): Promise<void> {
    this.#recordInBackground()
    if (await this.#dependencies.items.isCancelled()) await this.#release()
    await this.#reportProgress()
  }

  async #reportProgress(): Promise<void> {
    const { onProgress } = this.#options
    if (!onProgress) return
    const { items, kernel } = this.#dependencies
    const counts = await items.counts()
    this.#samples = recentOf([...this.#samples, { atMs: kernel.clock.now().getTime(), finished: finishedOf(counts) }])
    onProgress(progressOf(counts, this.#samples))
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#options
    await sleep(Math.max(ms, SHORTEST_WAIT_MS), undefined, signal ? { signal } : {}).catch((error) => {
      if (!signal?.aborted) throw error
    })
  }
}
