/** A list of unknown rows: columns by the members of its schema, the page of a row, and its operations in a menu. */
import { useMemo } from 'react'
import type { OperationName } from '../api/contract.ts'
import { Empty } from '../components/base/page.tsx'
import { isObject, textOf } from '../components/base/value-text.ts'
import { EmptyFiltered, without } from '../components/lists/filters.tsx'
import { type Column, Table } from '../components/lists/table.tsx'
import type { MenuEntry } from '../components/menu-entry.ts'
import { useList } from '../data/queries.ts'
import { linkTo } from '../routing/links.ts'
import { useOpen } from '../routing/open.ts'
import { useParams, useSetSearch } from '../routing/router.tsx'
import { Filters, useRead } from './filters.tsx'
import { type HostOperation, paramOf } from './operation.ts'
import { type GenericPage, type RowOperation, titleOf } from './pages.ts'
import { text } from './text.ts'
import { Inline } from './value.tsx'

/** Further columns are shown if the user chooses them. */
const MAX_COLUMNS = 8
/** Further columns are left out where space is scarce. */
const MAJOR_COLUMNS = 4

interface Row {
  /** Rows need not have an id. */
  readonly position: string
  readonly members: Readonly<Record<string, unknown>>
}

export function RowList({ page, read }: { page: GenericPage; read: HostOperation }) {
  const params = useParams()
  const panel = useOpen()
  const setSearch = useSetSearch()
  const { input, missing } = useRead(read)
  const list = useList(read.name as 'tenants.list', input as never, { enabled: missing.length === 0 })
  const found = list.rows as readonly unknown[] | undefined
  const rows = useMemo(
    () => found?.map((one, index): Row => ({ position: String(index), members: isObject(one) ? one : { value: one } })),
    [found],
  )
  const names =
    read.columns.length > 0 ? read.columns : [...new Set(rows?.flatMap(({ members }) => Object.keys(members)))]
  const columns = names.map(
    (name, index): Column<Row> => ({
      key: name,
      title: textOf(titleOf(name)),
      cell: ({ members }) => <Inline value={members[name]} />,
      isLong: true,
      isMinor: index >= MAJOR_COLUMNS,
      isDefault: index < MAX_COLUMNS,
    }),
  )
  const memberOf = ({ members }: Row, { member }: RowOperation) => paramOf(members[member])
  const pageOf = (row: Row, search: { readonly open?: string } = {}) => {
    const value = page.row && memberOf(row, page.row)
    if (!page.row || !value) return undefined
    return linkTo(page.row.operation.name as OperationName, { ...params, [page.row.param]: value }, search)
  }
  const menuOf = (row: Row): MenuEntry[] =>
    page.rowForms
      .filter((form) => memberOf(row, form) !== '')
      .map((form) => {
        const { name, summary, method, path } = form.operation
        const isOnPage = page.row !== undefined && path.startsWith(page.row.operation.path)
        return {
          title: summary,
          isDestructive: method === 'DELETE',
          ...(isOnPage
            ? { href: pageOf(row, { open: name }) ?? '' }
            : { onSelect: () => panel.open(`${name}/${memberOf(row, form)}`) }),
        }
      })
  const filters = Object.entries(input.query).map(([key, value]) => ({
    key,
    label: titleOf(key),
    value: textOf(value),
  }))
  return (
    <>
      <Filters read={read} missing={missing} />
      {missing.length === 0 && (
        <Table
          label={read.summary}
          name={read.name}
          columns={columns}
          list={{ ...list, rows }}
          idOf={({ position }) => position}
          nameOf={({ position, members }) => textOf(members[names[0] ?? '']) || text.entry(Number(position) + 1)}
          hrefOf={(row) => pageOf(row)}
          {...(page.rowForms.length > 0 ? { menuOf } : {})}
          empty={
            filters.length > 0 ? (
              <EmptyFiltered
                title={text.emptyFiltered}
                filters={filters}
                onRemove={(keys) => setSearch(without(keys))}
              />
            ) : (
              <Empty title={text.empty} />
            )
          }
        />
      )}
    </>
  )
}
