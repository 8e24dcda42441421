/** Selected rows of a table, outside of React: a click renders one row. */
import { useSyncExternalStore } from 'react'

export class Selection {
  #ids: ReadonlySet<string> = new Set()
  readonly #listeners = new Set<() => void>()
  #last: string | undefined

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
  readonly ids = (): ReadonlySet<string> => this.#ids

  /** @param order ids in the order of the rows, for a range with `Shift` */
  toggle(id: string, order: readonly string[] = [], isRange = false): void {
    const from = isRange && this.#last !== undefined ? order.indexOf(this.#last) : -1
    const to = order.indexOf(id)
    const range = from < 0 || to < 0 ? [id] : order.slice(Math.min(from, to), Math.max(from, to) + 1)
    const isAdded = !this.#ids.has(id)
    const next = new Set(this.#ids)
    for (const one of range) isAdded ? next.add(one) : next.delete(one)
    this.#last = id
    this.#set(next)
  }

  replace(ids: readonly string[]): void {
    this.#set(new Set(ids))
  }

  #set(ids: ReadonlySet<string>): void {
    this.#ids = ids
    for (const listener of this.#listeners) listener()
  }
}

export const useIsSelected = (selection: Selection, id: string): boolean =>
  useSyncExternalStore(selection.subscribe, () => selection.ids().has(id))

export const useSelected = (selection: Selection): ReadonlySet<string> =>
  useSyncExternalStore(selection.subscribe, selection.ids)
