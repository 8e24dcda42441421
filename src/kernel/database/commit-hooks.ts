/** Hooks of transactions: those before the commit run in the transaction, those after it run outside of transaction and deadline. */
import { withoutDeadline } from '../base/deadline.ts'
import type { Logger } from '../base/logger.ts'

/** Receives all items of a transaction together, before its commit. An error rolls it back. */
export type Collect<Item> = (items: readonly Item[]) => Promise<unknown>

/** Hooks of one transaction or savepoint. Those of a rolled back savepoint are dropped. */
export class CommitHooks {
  readonly after: (() => unknown)[] = []
  readonly #collected = new Map<Collect<any>, unknown[]>()

  before<Item>(collect: Collect<Item>, items: readonly Item[]): void {
    const all = this.#collected.get(collect) ?? []
    for (const item of items) all.push(item)
    this.#collected.set(collect, all)
  }

  /** Takes the hooks of a released savepoint. */
  take(inner: CommitHooks): void {
    this.after.push(...inner.after)
    for (const [collect, items] of inner.#collected) this.before(collect, items)
  }

  async runBefore(): Promise<void> {
    for (const [collect, items] of this.#collected) await collect(items)
  }
}

/** Runs hooks after commits. Their failures are only logged. */
export class AfterCommit {
  readonly #log: Logger
  readonly #outside: <T>(work: () => T) => T
  readonly #pending = new Set<Promise<unknown>>()

  constructor(log: Logger, outside: <T>(work: () => T) => T) {
    this.#log = log
    this.#outside = outside
  }

  run(hook: () => unknown): void {
    const failed = (error: unknown) => this.#log.error({ err: error }, 'a listener failed after the commit')
    try {
      const outcome = this.#outside(() => withoutDeadline(hook))
      if (!(outcome instanceof Promise)) return
      const pending: Promise<unknown> = outcome.catch(failed).finally(() => this.#pending.delete(pending))
      this.#pending.add(pending)
    } catch (error) {
      failed(error)
    }
  }

  /** Resolves when the hooks in progress have ended. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#pending)
  }
}
