/** What a tenant's rows must be, and may be: of a pair whose writer was killed nobody knows, until it is read. */
import { expect } from 'vitest'
import { type Note, numberOf, pairOf } from './notes.ts'

export class Notes {
  readonly #tenantId: string
  readonly #written = new Set<number>()
  readonly #inDoubt = new Set<number>()

  constructor(tenantId: string) {
    this.#tenantId = tenantId
  }

  /** From now on it may be there. */
  begin(number: number): void {
    this.#inDoubt.add(number)
  }

  end(number: number, how: 'written' | 'in doubt' | 'refused'): void {
    if (how === 'written') this.#written.add(number)
    if (how !== 'in doubt') this.#inDoubt.delete(number)
  }

  /** @param isAlone whether nobody was writing meanwhile: then what is in doubt is decided by what is read. */
  check(read: readonly Note[], isAlone: boolean): void {
    const there = new Set(read.map(numberOf))
    const whole = [...there].sort((one, other) => one - other).flatMap((number) => pairOf(this.#tenantId, number))
    expect(read, `the rows of ${this.#tenantId}: its own, and whole`).toEqual(whole)
    const known = new Set([...this.#written, ...this.#inDoubt])
    expect(
      [...there].filter((number) => !known.has(number)),
      'rows that were refused',
    ).toEqual([])
    if (!isAlone) return
    expect(
      [...this.#written].filter((number) => !there.has(number)),
      'rows that are lost',
    ).toEqual([])
    this.#inDoubt.clear()
    for (const number of there) this.#written.add(number)
  }
}
