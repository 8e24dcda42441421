/**
 * Statements that have a name on one connection: PostgreSQL parses and plans them once, and has them by name from then on.
 *
 *   first met ──► remembered ──met again──► named ──out of use, or tables have changed──► to be closed
 *
 * A text that is met once is not worth a name. Names are for a time in which no tables changed: a statement keeps the types that
 * its parameters had when it was prepared, and would go on cutting what it is given to a type that a column has no more.
 */

/** Of one connection; each costs its backend some 10 KB and more. */
const MAX_KEPT = 200

let last = 0

export class NamedStatements {
  /** By key, out of use the longest first; without a name as long as they were met once. */
  readonly #kept = new Map<string, string | undefined>()
  #generation = 0
  #unneeded: string[] = []

  /** @param generation of the tables, as it is now */
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

  /** Whatever the server has under its name. */
  forget(key: string): void {
    const name = this.#kept.get(key)
    this.#kept.delete(key)
    if (name) this.#unneeded.push(name)
  }

  /** Names to be closed with what is sent next. To close one that the server does not know is no error. */
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
