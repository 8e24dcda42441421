/** The shown columns of a table: those in the address, else the usual ones of this browser, else the default ones. */
import { useEffect, useRef, useState } from 'react'
import { setUsualColumns, usualColumnsStore } from '../../data/personal.ts'
import { useStore } from '../../data/store.ts'
import { useCommonSearch, useSetSearch } from '../../routing/router.tsx'
import { type Column, defaultColumns, namedColumns, textOfColumns } from './columns.ts'

export interface ColumnChoice<Row> {
  readonly shown: readonly Column<Row>[]
  /** Whether they differ from the default ones. */
  readonly isChosen: boolean
  /** Undefined: the default ones again. */
  readonly choose: (columns: readonly Column<Row>[] | undefined) => void
}

/** @param name of the table; undefined: its default columns are shown */
export function useColumns<Row>(name: string | undefined, columns: readonly Column<Row>[]): ColumnChoice<Row> {
  const { columns: written } = useCommonSearch()
  // The address follows a choice after a moment, in which the table shows the choice.
  const [latest, setLatest] = useState<{ readonly before: string | undefined; readonly text: string | undefined }>()
  useEffect(() => setLatest((one) => (one?.before === written ? one : undefined)), [written])
  const ofAddress = latest && latest.before === written ? latest.text : written
  const usual = useStore(usualColumnsStore)
  const setSearch = useSetSearch()
  const chosen =
    name === undefined ? undefined : (namedColumns(columns, ofAddress) ?? namedColumns(columns, usual[name]))
  const shown = chosen ?? defaultColumns(columns)
  // Rows are rendered again for other columns only.
  const former = useRef(shown)
  if (!hasSameItems(former.current, shown)) former.current = shown
  return {
    shown: former.current,
    isChosen: chosen !== undefined,
    choose(next) {
      const text = next && textOfColumns(next)
      if (name !== undefined) setUsualColumns(name, text)
      setLatest({ before: written, text })
      setSearch({ columns: text })
    },
  }
}

const hasSameItems = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((one, index) => one === b[index])
