/** The object that keys and the palette act on: that of the focused row, else the innermost one of the page. */
import { useEffect, useState } from 'react'

export interface Current {
  /** Kind of the object, as `target` of actions: `tenant`. */
  readonly kind: string
  readonly object: unknown
}

/** Objects of the page by the order in which their components were rendered first: an outer one before those inside it. */
const ofPage = new Map<number, Current>()
let rendered = 0
let ofRow: ((row: Element) => Current | undefined) | undefined

/** Declares the object of a page, or of a part of it. Undefined: not loaded. @example useCurrent('tenant', tenant) */
export function useCurrent(kind: string, object: unknown): void {
  const [order] = useState(() => ++rendered)
  useEffect(() => {
    if (object === undefined) return
    ofPage.set(order, { kind, object })
    return () => void ofPage.delete(order)
  }, [order, kind, object])
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
  return (row && ofRow?.(row)) ?? ofPage.get(Math.max(...ofPage.keys()))
}
