/** List of tenants: search, filter by status, selection, and the panel for a new tenant. */
import { useEffect, useRef, useState } from 'react'
import { menuEntriesOf } from '../../console/components/actions.tsx'
import { Button } from '../../console/components/base/button.tsx'
import { Icon } from '../../console/components/base/icon.tsx'
import { Empty, PageHeader } from '../../console/components/base/page.tsx'
import { Badge, Status } from '../../console/components/base/status.tsx'
import { Time } from '../../console/components/base/time.tsx'
import { type Column, Table } from '../../console/components/table.tsx'
import { useList } from '../../console/data/queries.ts'
import { isPermitted } from '../../console/data/session.ts'
import { tenantHref } from '../../console/routing/links.ts'
import { useOpen } from '../../console/routing/open.ts'
import { useSearch, useSetSearch } from '../../console/routing/router.tsx'
import { NewTenant } from './new-tenant.tsx'
import { planOf, type Tenant } from './tenant.ts'
import { text } from './text.ts'

const SEARCH_DELAY_MS = 150

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
  const { status, q } = useSearch('tenants.list')
  const setSearch = useSetSearch()
  const panel = useOpen()
  const list = useList('tenants.list', { query: { status, q, limit: 100 } })
  const isFiltered = status !== undefined || q !== undefined
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
          <StatusFilter value={status} onChange={(value) => setSearch({ status: value })} />
          <p className="count" role="status">
            {list.rows && !list.isStale ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
          </p>
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
          empty={
            isFiltered ? (
              <Empty
                title={text.emptySearch}
                actions={<Button onClick={() => setSearch({ q: undefined, status: undefined })}>{text.clear}</Button>}
              >
                {text.emptySearchText}
              </Empty>
            ) : (
              <Empty title={text.empty} actions={openNew}>
                {text.emptyText}
              </Empty>
            )
          }
        />
      </div>
      {panel.id === 'new' && <NewTenant onClose={panel.close} />}
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

type StatusName = Tenant['status'] | undefined

function StatusFilter({ value, onChange }: { value: StatusName; onChange: (value: StatusName) => void }) {
  const { all, ...statuses } = text.statuses
  const chips = [[undefined, all], ...Object.entries(statuses)] as [StatusName, string][]
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset would be a form control
    <div className="chips" role="group" aria-label={text.statusFilter}>
      {chips.map(([status, title]) => (
        <button
          type="button"
          key={title}
          className="chip"
          aria-pressed={status === value}
          onClick={() => onChange(status)}
        >
          {title}
        </button>
      ))}
    </div>
  )
}
