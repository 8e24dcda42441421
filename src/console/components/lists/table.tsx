/**
 * A table. Columns are data; filters, sorting and pages run on the server.
 *
 * - The first cell contains the link of the row; the whole row is clickable.
 * - Where it is wider than its place it scrolls sideways, and its first column stays.
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
import { useColumns } from './column-choice.ts'
import { ColumnMenu } from './column-menu.tsx'
import type { Column } from './columns.ts'
import { type Selection, useIsSelected, useSelected } from './selection.ts'
import { watchWidth } from './wide.ts'

export type { Column } from './columns.ts'

export interface TableProps<Row> {
  /** Accessible name. */
  readonly label: string
  /** Name of the choice of its columns. The address has one choice, so one table of a screen may have a name. Default: no choice. */
  readonly name?: string
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
  const { label, name, columns, list, idOf, selection, menuOf, empty } = props
  const { rows, error, isStale, isLoadingMore, loadMore, loadEarlier, retry } = list
  const choice = useColumns(name, columns)
  const { shown } = choice
  const hasMenu = name !== undefined && columns.length > 1
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
      {shown.map(({ key, Source }) => Source && <Source key={key} />)}
      <div
        className="table-scroll"
        data-stale={isStale || undefined}
        data-chosen={choice.isChosen || undefined}
        ref={watchWidth}
      >
        <table>
          <caption className="hidden">{label}</caption>
          <colgroup>
            {selection && <col className="col-select" />}
            {shown.map(({ key, width }) => (
              <col key={key} style={width ? { width } : undefined} />
            ))}
            {(menuOf || hasMenu) && <col className="col-menu" />}
          </colgroup>
          <thead>
            <tr>
              {selection && (
                <th scope="col" className="cell-select">
                  <SelectAll selection={selection} ids={rows.map(idOf)} />
                </th>
              )}
              {shown.map(({ key, title, align, isMinor }) => (
                <th key={key} scope="col" data-align={align} data-minor={isMinor}>
                  {title}
                </th>
              ))}
              {(menuOf || hasMenu) && (
                <th scope="col" className="cell-menu">
                  {menuOf && <span className="hidden">{text.actions}</span>}
                  {hasMenu && <ColumnMenu columns={columns} choice={choice} />}
                </th>
              )}
            </tr>
          </thead>
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: the link of each row is the control for the keyboard */}
          <tbody onClick={openRow}>
            {rows.map((row) => (
              <TableRow
                key={idOf(row)}
                row={row}
                columns={shown as readonly Column<unknown>[]}
                hasEnd={hasMenu}
                props={stable}
              />
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
  /** Whether the row has a cell below the menu of the columns. */
  readonly hasEnd: boolean
  readonly props: { readonly get: () => TableProps<unknown> }
}

const TableRow = memo(function TableRow({ row, columns, hasEnd, props }: RowProps) {
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
      {(menuOf || hasEnd) && (
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
