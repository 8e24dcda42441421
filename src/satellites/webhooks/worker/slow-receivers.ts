/**
 * Receivers that this process has lately found slow, or not answering, whoever is to blame: what goes to them stands apart, as what goes
 * to those that fail. The database knows of failures alone, and of those that are the receiver's own.
 */
import { LRUCache } from 'lru-cache'

/** The last that were. */
const MOST_KNOWN = 1_000

export class SlowReceivers {
  readonly #known = new LRUCache<string, true>({ max: MOST_KNOWN })
  readonly #slowMs: number

  /** @param slowMs an answer that takes longer keeps others waiting */
  constructor(slowMs: number) {
    this.#slowMs = slowMs
  }

  /** True when it is one now. */
  note(webhookId: string, exchange: { readonly error: string | null; readonly durationMs: number }): boolean {
    const isSlow = exchange.error !== null || exchange.durationMs > this.#slowMs
    if (isSlow) this.#known.set(webhookId, true)
    else this.#known.delete(webhookId)
    return isSlow
  }

  get all(): string[] {
    return [...this.#known.keys()]
  }

  has(webhookId: string): boolean {
    return this.#known.has(webhookId)
  }
}
