/** The object that keys and the palette act on: that of the focused row, else that of the page. */
import { useEffect } from 'react'
import { createStore } from '../data/store.ts'

export interface Current {
  /** Kind of the object, as `target` of actions: `tenant`. */
  readonly kind: string
  readonly object: unknown
}

const pageStore = createStore<Current | undefined>(undefined)
let ofRow: ((row: Element) => Current | undefined) | undefined

/** Declares the object of a page. @example useCurrent('tenant', tenant) */
export function useCurrent(kind: string, object: unknown): void {
  useEffect(() => {
    const current = { kind, object }
    pageStore.set(current)
    return () => {
      if (pageStore.get() === current) pageStore.set(undefined)
    }
  }, [kind, object])
}

/** Registers how a table finds the object of a row. Returns a function that ends it. */
export function registerRows(find: (row: Element) => Current | undefined): () => void {
  ofRow = find
  return () => {
    if (ofRow === find) ofRow = undefined
  }
}

export const focusedRow = (): HTMLTableRowElement | null => document.activeElement?.closest('tbody tr') ?? null

export function current(): Current | undefined {
  const row = focusedRow()
  return (row && ofRow?.(row)) ?? pageStore.get()
}
