/**
 * What was read of subscriptions before they were changed. Whoever asks for deliveries notes when; what comes of it is stale where its
 * subscription has been changed since, or where it may have been, because for a while nobody could be heard.
 */

/** Longer than anything that was asked for is on its way. */
const KEPT_MS = 10 * 60_000

export class StaleSubscriptions {
  /** When, as `performance.now()` tells time, by subscription. */
  readonly #changedAt = new Map<string, number>()
  #gapAt = Number.NEGATIVE_INFINITY

  /** @param webhookId undefined: any may have changed */
  add(webhookId: string | undefined): void {
    const now = performance.now()
    if (webhookId === undefined) {
      this.#gapAt = now
      return
    }
    this.#changedAt.delete(webhookId) // the last to change stands last
    this.#changedAt.set(webhookId, now)
    for (const [id, at] of this.#changedAt) {
      if (at > now - KEPT_MS) break
      this.#changedAt.delete(id)
    }
  }

  has({ webhookId }: { readonly webhookId: string }, requestedAt: number): boolean {
    return requestedAt <= Math.max(this.#gapAt, this.#changedAt.get(webhookId) ?? Number.NEGATIVE_INFINITY)
  }
}
