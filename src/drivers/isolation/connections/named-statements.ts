/**
 * Names the prepared statements of one connection, so that PostgreSQL parses and plans repeated texts once.
 *
 *   first use ──► remembered ──second use──► named ──least recently used, or tables have changed──► to be closed
 *
 * A text that is used once is not worth a name. Names are valid only until tables change: a prepared statement keeps
 * the types of its parameters, and would truncate values to the former type of a column.
 */

/** Maximum for one connection; each statement costs its backend 10 KB and more. */
const MAX_KEPT = 200

let last = 0

export class NamedStatements {
  /** By key, least recently used first; undefined for a statement that was used once. */
  readonly #kept = new Map<string, string | undefined>()
  #generation = 0
  #unneeded: string[] = []

  /** @param generation present generation of the tables */
  nameOf(key: string, generation: number): string | undefined {
    if (generation !== this.#generation) this.#forgetAll(generation)
    const isKnown = this.#kept.has(key)
    const name = this.#kept.get(key) ?? (isKnown ? `tenantry_${++last}` : undefined)
    if (isKnown) this.#kept.delete(key)
    this.#kept.set(key, name)
    if (this.#kept.size > MAX_KEPT) {
      const [oldest] = this.#kept.keys()
      if (oldest !== undefined) this.forget(oldest)
    }
    return name
  }

  /** Forgets a statement, and closes the one that the server has under its name. */
  forget(key: string): void {
    const name = this.#kept.get(key)
    this.#kept.delete(key)
    if (name) this.#unneeded.push(name)
  }

  /** Returns names to be closed with the next message. Closing an unknown name is no error. */
  takeUnneeded(): readonly string[] {
    const unneeded = this.#unneeded
    if (unneeded.length > 0) this.#unneeded = []
    return unneeded
  }

  #forgetAll(generation: number): void {
    for (const name of this.#kept.values()) if (name) this.#unneeded.push(name)
    this.#kept.clear()
    this.#generation = generation
  }
}
