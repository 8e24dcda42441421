/**
 * Expected and possible rows of a tenant: if the writer of a pair was killed, the pair is in doubt until it is read.
 */
import { expect } from 'vitest'
import { type Note, numberOf, pairOf } from './notes.ts'

export class Notes {
  readonly #tenantId: string
  readonly #written = new Set<number>()
  readonly #inDoubt = new Set<number>()

  constructor(tenantId: string) {
    this.#tenantId = tenantId
  }

  /** Marks the pair as possible. */
  begin(number: number): void {
    this.#inDoubt.add(number)
  }

  end(number: number, how: 'written' | 'in doubt' | 'refused'): void {
    if (how === 'written') this.#written.add(number)
    if (how !== 'in doubt') this.#inDoubt.delete(number)
  }

  /** @param isAlone whether no write ran during the read: then the read decides the pairs in doubt */
  check(read: readonly Note[], isAlone: boolean): void {
    const there = new Set(read.map(numberOf))
    const whole = [...there].sort((one, other) => one - other).flatMap((number) => pairOf(this.#tenantId, number))
    expect(read, `the rows of ${this.#tenantId} are its own, and complete`).toEqual(whole)
    const known = new Set([...this.#written, ...this.#inDoubt])
    expect(
      [...there].filter((number) => !known.has(number)),
      'rows of rejected writes',
    ).toEqual([])
    if (!isAlone) return
    expect(
      [...this.#written].filter((number) => !there.has(number)),
      'lost rows',
    ).toEqual([])
    this.#inDoubt.clear()
    for (const number of there) this.#written.add(number)
  }
}
