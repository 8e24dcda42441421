/** The audit log of one tenant, or of all: filters, entries, verification, export, and the panel of an entry. */
import type { Result } from '../../../console/api/contract.ts'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Absent, Badge } from '../../../console/components/base/status.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { ExportButtons } from '../../../console/components/lists/export.tsx'
import { type ActiveFilter, EmptyFiltered, without } from '../../../console/components/lists/filters.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { useList } from '../../../console/data/queries.ts'
import { isPermitted } from '../../../console/data/session.ts'
import { href } from '../../../console/routing/links.ts'
import { useOpen } from '../../../console/routing/open.ts'
import { useParams, usePath, useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { EntryPanel } from './entry.tsx'
import { Filters } from './filters.tsx'
import { text } from './text.ts'
import { Verification } from './verification.tsx'

type Entry = Result<'auditLogs.get'>

const ACTION: Column<Entry> = {
  key: 'action',
  title: text.columns.action,
  width: '46%',
  cell: ({ action, target }) => (
    <span className="two">
      <span>{action}</span>
      <code>{target}</code>
    </span>
  ),
}
const ACTOR: Column<Entry> = {
  key: 'actor',
  title: text.columns.actor,
  cell: ({ actor, outcome }) => (
    <span className="with-badge">
      <span>{actor.name}</span>
      {outcome === 'failure' && <Badge tone="bad">{text.outcomes.failure}</Badge>}
    </span>
  ),
}
const TENANT: Column<Entry> = {
  key: 'tenant',
  title: text.columns.tenant,
  cell: ({ tenantId }) => (tenantId ? <code>{tenantId}</code> : <Absent />),
}
const TIME: Column<Entry> = {
  key: 'time',
  title: text.columns.time,
  align: 'end',
  cell: ({ createdAt }) => <Time at={createdAt} />,
}

const REQUEST: Column<Entry> = {
  key: 'request',
  title: text.columns.request,
  isDefault: false,
  cell: ({ requestId }) => (requestId ? <code>{requestId}</code> : <Absent />),
}
const IP: Column<Entry> = {
  key: 'ip',
  title: text.columns.ip,
  isDefault: false,
  cell: ({ ip }) => (ip ? <code>{ip}</code> : <Absent />),
}
const COLUMNS = [ACTION, ACTOR, REQUEST, IP, TIME]
const COLUMNS_OF_ALL = [ACTION, ACTOR, TENANT, REQUEST, IP, TIME]

export default function AuditLog() {
  const { id } = useParams()
  const path = usePath()
  const search = useSearch('auditLogs.listAll')
  const { action, actor, target, requestId, from, to, tenantId } = search
  const setSearch = useSetSearch()
  const panel = useOpen()
  const filter = { action, actor, target, requestId, from, to }
  const ofTenant = { params: { id: id ?? '' }, query: { ...filter, limit: 100 } }
  const ofAll = { query: { ...filter, tenantId, limit: 100 } }
  const one = useList('auditLogs.list', ofTenant, { enabled: id !== undefined })
  const all = useList('auditLogs.listAll', ofAll, { enabled: id === undefined })
  const list = id === undefined ? all : one
  const active = (Object.entries(text.filters) as [keyof typeof text.filters, string][]).flatMap(
    ([key, label]): ActiveFilter[] => {
      const value = search[key]
      return value === undefined || (key === 'tenantId' && id !== undefined) ? [] : [{ key, label, value }]
    },
  )
  const actions = (
    <>
      {id === undefined ? (
        <ExportButtons name="auditLogs.listAll" input={{ query: { ...filter, tenantId } }} file="audit-logs" />
      ) : (
        <ExportButtons name="auditLogs.list" input={{ params: { id }, query: filter }} file={`audit-logs-${id}`} />
      )}
    </>
  )
  return (
    <div className="with-panel">
      <div>
        {id === undefined && <PageHeader title={text.auditLog}>{actions}</PageHeader>}
        {isPermitted('auditLogs.verify') && (
          <Verification key={id} tenantId={id ?? tenantId}>
            {id !== undefined && actions}
          </Verification>
        )}
        <Filters tenantId={id ?? tenantId} search={search} hasTenant={id === undefined} onChange={setSearch}>
          <p className="count" role="status">
            {list.rows && !list.isStale ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
          </p>
        </Filters>
        <Table
          label={text.auditLog}
          name="audit"
          columns={id === undefined ? COLUMNS_OF_ALL : COLUMNS}
          list={list}
          idOf={(entry) => entry.id}
          nameOf={(entry) => `${entry.action} ${entry.target}`}
          hrefOf={(entry) => href(path, { ...search, open: entry.id })}
          empty={
            active.length > 0 ? (
              <EmptyFiltered
                title={text.emptyFiltered}
                filters={active}
                onRemove={(keys) => setSearch(without(keys))}
              />
            ) : (
              <Empty title={text.empty}>{text.emptyText}</Empty>
            )
          }
        />
      </div>
      {panel.id !== undefined && <EntryPanel id={panel.id} onClose={panel.close} />}
    </div>
  )
}
