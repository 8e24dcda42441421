/** Functions of a host that receive every change of something, until they unsubscribe. */
export class Listeners<Arguments extends readonly unknown[]> {
  readonly #all = new Set<(...change: Arguments) => void>()

  /** Returns a function that unsubscribes. */
  subscribe(listener: (...change: Arguments) => void): () => void {
    this.#all.add(listener)
    return () => void this.#all.delete(listener)
  }

  emit(...change: Arguments): void {
    for (const listener of this.#all) listener(...change)
  }

  clear(): void {
    this.#all.clear()
  }
}
