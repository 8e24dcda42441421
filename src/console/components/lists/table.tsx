/**
 * A table. Columns are data; filters, sorting and pages run on the server.
 *
 * - The first cell contains the link of the row; the whole row is clickable.
 * - In a narrow container it becomes a list: the first column as heading, then the next two.
 */
import { type MouseEvent, memo, type ReactNode, useEffect, useMemo, useRef } from 'react'
import type { List } from '../../data/queries.ts'
import { registerRows } from '../../routing/current.ts'
import { Button } from '../base/button.tsx'
import { ProblemView } from '../base/problem.tsx'
import { text } from '../base/text.ts'
import { MenuTrigger } from '../menu.tsx'
import type { MenuEntry } from '../menu-entry.ts'
import { type Selection, useIsSelected, useSelected } from './selection.ts'

export interface Column<Row> {
  readonly key: string
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  /** CSS width; default: by content. */
  readonly width?: string
  readonly align?: 'end'
  /** Whether the text of the cell may have several lines. */
  readonly isLong?: boolean
  /** Whether it is left out where space is scarce. */
  readonly isMinor?: boolean
}

export interface TableProps<Row> {
  /** Accessible name. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly list: List<Row>
  readonly idOf: (row: Row) => string
  /** Name of a row for screen readers; default: its id. */
  readonly nameOf?: (row: Row) => string
  readonly hrefOf?: (row: Row) => string | undefined
  readonly menuOf?: (row: Row) => readonly MenuEntry[]
  readonly selection?: Selection
  /** Kind of the rows, for the keys of its actions. */
  readonly kind?: string
  /** Shown without rows. */
  readonly empty: ReactNode
}

export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, list, idOf, selection, menuOf, empty } = props
  const { rows, error, isStale, isLoadingMore, loadMore, loadEarlier, retry } = list
  const latest = useRef(props)
  latest.current = props
  const rowCount = useRef(8)
  useEffect(() => {
    if (rows) rowCount.current = Math.max(rows.length, 1)
  }, [rows])
  // Functions of the caller are new at each render; rows read the latest ones and render only for their own data.
  const stable = useMemo(() => ({ get: () => latest.current as TableProps<unknown> }), [])

  useEffect(
    () =>
      registerRows((element) => {
        const { kind, list, idOf } = latest.current
        const object = list.rows?.find((row) => idOf(row) === (element as HTMLElement).dataset.id)
        return kind && object ? { kind, object } : undefined
      }),
    [],
  )

  if (error && !rows) return <ProblemView error={error} onRetry={retry} />
  if (!rows) return <Skeleton rows={Math.min(rowCount.current, 12)} />
  if (rows.length === 0) return empty
  return (
    <div className="table-frame">
      {error && <ProblemView error={error} onRetry={retry} isCompact />}
      {loadEarlier && (
        <div className="table-more">
          <Button onClick={loadEarlier}>{text.earlier}</Button>
        </div>
      )}
      <div className="table-scroll" data-stale={isStale || undefined}>
        <table>
          <caption className="hidden">{label}</caption>
          <colgroup>
            {selection && <col className="col-select" />}
            {columns.map(({ key, width }) => (
              <col key={key} style={width ? { width } : undefined} />
            ))}
            {menuOf && <col className="col-menu" />}
          </colgroup>
          <thead>
            <tr>
              {selection && (
                <th scope="col" className="cell-select">
                  <SelectAll selection={selection} ids={rows.map(idOf)} />
                </th>
              )}
              {columns.map(({ key, title, align, isMinor }) => (
                <th key={key} scope="col" data-align={align} data-minor={isMinor}>
                  {title}
                </th>
              ))}
              {menuOf && (
                <th scope="col" className="cell-menu">
                  <span className="hidden">{text.actions}</span>
                </th>
              )}
            </tr>
          </thead>
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: the link of each row is the control for the keyboard */}
          <tbody onClick={openRow}>
            {rows.map((row) => (
              <TableRow key={idOf(row)} row={row} columns={columns as readonly Column<unknown>[]} props={stable} />
            ))}
          </tbody>
        </table>
      </div>
      {loadMore && (
        <div className="table-more">
          <Button onClick={loadMore} isRunning={isLoadingMore}>
            {text.older}
          </Button>
        </div>
      )}
    </div>
  )
}

interface RowProps {
  readonly row: unknown
  readonly columns: readonly Column<unknown>[]
  readonly props: { readonly get: () => TableProps<unknown> }
}

const TableRow = memo(function TableRow({ row, columns, props }: RowProps) {
  const { idOf, nameOf = idOf, hrefOf, menuOf, selection } = props.get()
  const id = idOf(row)
  const name = nameOf(row)
  const link = hrefOf?.(row)
  const isSelected = useIsSelected(selection ?? NONE, id)
  const entries = menuOf?.(row) ?? []
  return (
    <tr data-id={id} data-clickable={link ? true : undefined} aria-selected={selection ? isSelected : undefined}>
      {selection && (
        <td className="cell-select">
          <input
            type="checkbox"
            aria-label={text.select(name)}
            checked={isSelected}
            onChange={() => undefined}
            onClick={(event) => selection.toggle(id, orderOf(event), event.shiftKey)}
          />
        </td>
      )}
      {columns.map(({ key, title, cell, align, isLong, isMinor }, index) =>
        index === 0 ? (
          <th key={key} scope="row" data-align={align}>
            {link ? <a href={link}>{cell(row)}</a> : cell(row)}
          </th>
        ) : (
          <td key={key} data-title={title} data-align={align} data-wrap={isLong} data-minor={isMinor}>
            {cell(row)}
          </td>
        ),
      )}
      {menuOf && (
        <td className="cell-menu">
          {entries.length > 0 && <MenuTrigger label={text.actionsOf(name)} entries={entries} />}
        </td>
      )}
    </tr>
  )
})

const NONE = { subscribe: () => () => undefined, ids: () => new Set<string>() } as unknown as Selection

const orderOf = (event: MouseEvent): string[] => {
  const rows = event.currentTarget.closest('tbody')?.rows ?? []
  return [...rows].map(({ dataset }) => dataset.id ?? '')
}

/** A click beside the controls of a row opens its link. */
function openRow(event: MouseEvent): void {
  const target = event.target as Element
  if (target.closest('a, button, input, label') || getSelection()?.toString()) return
  const link = target.closest('tr')?.querySelector<HTMLAnchorElement>('th a')
  if (event.metaKey || event.ctrlKey) window.open(link?.href, '_blank', 'noopener')
  else link?.click()
}

function SelectAll({ selection, ids }: { selection: Selection; ids: readonly string[] }) {
  const selected = useSelected(selection)
  const isAll = ids.every((id) => selected.has(id))
  return (
    <input
      type="checkbox"
      aria-label={text.selectAll}
      checked={isAll}
      ref={(input) => {
        if (input) input.indeterminate = !isAll && ids.some((id) => selected.has(id))
      }}
      onChange={() => selection.replace(isAll ? [] : ids)}
    />
  )
}

/** In place of rows. It appears after 150 ms. */
export const Skeleton = ({ rows = 6 }: { rows?: number }) => (
  <div className="skeleton" role="status" aria-label={text.loading}>
    {Array.from({ length: rows }, (_, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all alike
      <div key={index} />
    ))}
  </div>
)
