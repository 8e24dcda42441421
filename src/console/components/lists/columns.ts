/** Columns of a table, and the order of those that are shown. The first column contains the link of the row: it is always shown, and first. */
import type { ComponentType, ReactNode } from 'react'

export interface Column<Row> {
  /** Its name in the address. */
  readonly key: string
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  /** CSS width; default: by content. */
  readonly width?: string
  readonly align?: 'end'
  /** Whether the text of the cell may have several lines. */
  readonly isLong?: boolean
  /** Whether it is left out where space is scarce, unless the user has chosen it. */
  readonly isMinor?: boolean
  /** False: it is shown if the user chooses it. */
  readonly isDefault?: boolean
  /** Mounted once while the column is shown: it reads the data of all cells. */
  readonly Source?: ComponentType
}

type Keyed = Pick<Column<never>, 'key' | 'isDefault'>

/** Name of a column in an address, where commas separate names. */
const nameOf = ({ key }: Keyed): string => key.replaceAll('%', '%25').replaceAll(',', '%2C')

export const textOfColumns = (columns: readonly Keyed[]): string => columns.map(nameOf).join(',')

/** Columns that a text names, in its order. Unknown names are ignored; undefined: it has no known name. @param text `name,status,plan` */
export function namedColumns<One extends Keyed>(columns: readonly One[], text = ''): readonly One[] | undefined {
  const named = new Set(text.split(',').flatMap((name) => columns.find((one) => nameOf(one) === name) ?? []))
  const [first] = columns
  return named.size > 0 && first ? [...new Set([first, ...named])] : undefined
}

export const defaultColumns = <One extends Keyed>(columns: readonly One[]): readonly One[] =>
  columns.filter(({ isDefault = true }, index) => index === 0 || isDefault)

/** All columns for a choice: the shown ones in their order, and each other one after its neighbour in the table. */
export function columnsInOrder<One extends Keyed>(columns: readonly One[], shown: readonly One[]): readonly One[] {
  const all = [...shown]
  for (const [index, column] of columns.entries()) {
    if (!all.includes(column)) all.splice(all.indexOf(columns[index - 1] as One) + 1, 0, column)
  }
  return all
}

/** The shown columns after one is moved; the first one keeps its place. */
export function movedColumn<One extends Keyed>(shown: readonly One[], column: One, step: 1 | -1): readonly One[] {
  const from = shown.indexOf(column)
  const to = from + step
  if (to < 1 || to >= shown.length) return shown
  return shown.toSpliced(from, 1).toSpliced(to, 0, column)
}
