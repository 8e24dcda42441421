/** List of tenants: search, filters with counts, selection, and the panels for a new tenant and a bulk job. */
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Icon } from '../../../console/components/base/icon.tsx'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Badge, Status } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { Selection } from '../../../console/components/lists/selection.ts'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { load } from '../../../console/data/load.ts'
import { useList } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { planOf, type Tenant } from '../base/tenant.ts'
import { text } from '../base/text.ts'
import { BulkPanel, BulkToolbar, bulkOf, isBulkPermitted } from './bulk.tsx'
import { Filters, useFilter } from './filters.tsx'
import { SampleData } from './sample-data.tsx'

const SEARCH_DELAY_MS = 150
const NewTenant = lazy(() => load(() => import('./new-tenant.tsx')))

const columns: readonly Column<Tenant>[] = [
  {
    key: 'tenant',
    title: text.columns.tenant,
    width: '32%',
    cell: ({ id, name }) => (
      <span className="two">
        <span>{name}</span>
        <code>{id}</code>
      </span>
    ),
  },
  {
    key: 'status',
    title: text.columns.status,
    cell: ({ status, maintenance }) => (
      <>
        <Status state={status} />
        {maintenance && <Badge tone="warning">{text.inMaintenance}</Badge>}
      </>
    ),
  },
  { key: 'plan', title: text.columns.plan, cell: (tenant) => planOf(tenant) ?? <span className="faint">–</span> },
  { key: 'isolation', title: text.columns.isolation, cell: ({ isolation }) => isolation, isMinor: true },
  { key: 'placement', title: text.columns.placement, cell: ({ placement }) => placement, isMinor: true },
  { key: 'created', title: text.columns.created, cell: ({ createdAt }) => <Time at={createdAt} />, align: 'end' },
]

export default function Tenants() {
  const { q, sort } = useSearch('tenants.list')
  const setSearch = useSetSearch()
  const { filter, isFiltered, clear } = useFilter()
  const panel = useOpen()
  const selection = useMemo(() => new Selection(), [])
  const list = useList('tenants.list', { query: { ...filter, sort } })
  const bulkId = bulkOf(panel.id)
  const openNew = isPermitted('tenants.create') && (
    <Button variant="primary" icon="plus" onClick={() => panel.open('new')}>
      {text.newTenant}
    </Button>
  )
  return (
    <div className="with-panel">
      <div>
        <PageHeader title={text.tenants}>{openNew}</PageHeader>
        <div className="toolbar">
          <SearchField value={q ?? ''} onChange={(value) => setSearch({ q: value || undefined })} />
          <Filters
            count={list.rows && !list.isStale ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
          />
        </div>
        <Table
          label={text.tenants}
          kind="tenant"
          columns={columns}
          list={list}
          idOf={({ id }) => id}
          nameOf={({ name }) => name}
          hrefOf={({ id }) => tenantHref(id)}
          menuOf={(tenant) => menuEntriesOf('tenant', tenant)}
          {...(isBulkPermitted() ? { selection } : {})}
          empty={
            isFiltered ? (
              <Empty title={text.emptySearch} actions={<Button onClick={clear}>{text.clear}</Button>}>
                {text.emptySearchText}
              </Empty>
            ) : (
              <Empty
                title={text.empty}
                actions={
                  <>
                    {openNew}
                    <SampleData />
                  </>
                }
              >
                {text.emptyText}
              </Empty>
            )
          }
        />
        {isBulkPermitted() && (
          <BulkToolbar selection={selection} filter={filter} hasMore={list.loadMore !== undefined} />
        )}
      </div>
      {panel.id === 'new' && (
        <Suspense>
          <NewTenant onClose={panel.close} />
        </Suspense>
      )}
      {bulkId && <BulkPanel bulkId={bulkId} onClose={panel.close} />}
    </div>
  )
}

/** Its own state, so that no key is lost. It is written to the address after 150 ms. */
function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value)
  const latest = useRef(onChange)
  latest.current = onChange
  const written = useRef(value)
  useEffect(() => {
    if (typed.trim() === written.current) return
    const timer = setTimeout(() => {
      written.current = typed.trim()
      latest.current(written.current)
    }, SEARCH_DELAY_MS)
    return () => clearTimeout(timer)
  }, [typed])
  useEffect(() => {
    if (value === written.current) return
    written.current = value
    setTyped(value)
  }, [value])
  return (
    <div className="search-field">
      <Icon name="search" />
      <input
        type="search"
        aria-label={text.search}
        placeholder={text.search}
        value={typed}
        maxLength={200}
        data-search
        onChange={(event) => setTyped(event.target.value)}
      />
    </div>
  )
}
