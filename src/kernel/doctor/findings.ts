/** Findings of one diagnosis: the first ones of each kind, and the number of the others, so that memory does not grow with it. */

const MAX_REPORTED_EACH = 50

interface OfKind {
  readonly severity: string
  readonly code: string
}

export class FindingsByKind<One extends OfKind> {
  readonly #kinds = new Map<string, { readonly first: One[]; more: number }>()

  add(one: One): void {
    const name = `${one.severity} ${one.code}`
    const kind = this.#kinds.get(name) ?? { first: [], more: 0 }
    this.#kinds.set(name, kind)
    if (kind.first.length < MAX_REPORTED_EACH) kind.first.push(one)
    else kind.more++
  }

  /** Number of all findings of a severity, reported or not. */
  count(severity: string): number {
    const ofSeverity = [...this.#kinds.values()].filter(({ first }) => first[0]?.severity === severity)
    return ofSeverity.reduce((sum, { first, more }) => sum + first.length + more, 0)
  }

  /** Kind by kind. @param othersOf makes the finding for those of a kind that are only counted */
  reported(othersOf: (one: One, count: number) => One): One[] {
    return [...this.#kinds.values()].flatMap(({ first, more }) => {
      const [one] = first
      return one && more > 0 ? [...first, othersOf(one, more)] : first
    })
  }
}
