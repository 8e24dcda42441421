/** Billing of all tenants. The navigation opens it with the filter "in dunning". */
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Absent } from '../../../console/components/base/status.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { Time } from '../../../console/components/base/time.tsx'
import { Chips } from '../../../console/components/lists/chips.tsx'
import { ExportButtons } from '../../../console/components/lists/export.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { type Item, useList } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { DunningState, SubscriptionStatus } from './billing.tsx'
import { text } from './text.ts'

type Row = Item<'billing.list'>

const columns: readonly Column<Row>[] = [
  {
    key: 'tenant',
    title: text.columns.tenant,
    width: '26%',
    cell: ({ tenantId, name }) => (
      <span className="two">
        <span>{name}</span>
        <code>{tenantId}</code>
      </span>
    ),
  },
  { key: 'status', title: text.columns.status, cell: ({ subscription }) => <SubscriptionStatus of={subscription} /> },
  { key: 'dunning', title: text.columns.dunning, cell: ({ dunning }) => <DunningState of={dunning} /> },
  {
    key: 'attempts',
    title: text.columns.attempts,
    align: 'end',
    cell: ({ dunning }) => (dunning ? formatNumber(dunning.attempt) : <Absent />),
  },
  { key: 'since', title: text.columns.since, cell: ({ dunning }) => <Time at={dunning?.since} /> },
  { key: 'plan', title: text.columns.plan, cell: ({ plan }) => plan },
  {
    key: 'customer',
    title: text.columns.customer,
    isDefault: false,
    cell: ({ customerId }) => (customerId ? <code>{customerId}</code> : <Absent />),
  },
  {
    key: 'periodEnd',
    title: text.columns.periodEnd,
    isMinor: true,
    cell: ({ subscription }) => <Time at={subscription?.periodEnd} />,
    align: 'end',
  },
]

const NO_FILTER = { dunning: undefined, status: undefined, plan: undefined }

export default function AllBilling() {
  const { dunning, status, plan } = useSearch('billing.list')
  const setSearch = useSetSearch()
  const query = { dunning, status, plan }
  const list = useList('billing.list', { query })
  return (
    <>
      <PageHeader title={text.billing}>
        <ExportButtons name="billing.list" input={{ query }} file="billing" />
      </PageHeader>
      <div className="toolbar">
        <Chips
          label={text.dunningFilter}
          all={text.allDunning}
          choices={text.dunningFilters}
          value={dunning}
          onChange={(value) => setSearch({ dunning: value })}
        />
        <select
          className="toolbar-select"
          aria-label={text.statusFilter}
          value={status ?? ''}
          onChange={(event) => setSearch({ status: event.target.value || undefined })}
        >
          <option value="">{text.anyStatus}</option>
          {Object.entries(text.statuses).map(([value, title]) => (
            <option key={value} value={value}>
              {title}
            </option>
          ))}
        </select>
        {plan && (
          <Button icon="close" onClick={() => setSearch({ plan: undefined })}>
            {text.ofPlan(plan)}
          </Button>
        )}
        <p className="count" role="status">
          {list.rows && !list.isStale ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
        </p>
      </div>
      <Table
        label={text.billing}
        name="billing"
        columns={columns}
        list={list}
        kind="billing"
        idOf={({ tenantId }) => tenantId}
        nameOf={({ name }) => name}
        hrefOf={({ tenantId }) => tenantHref(tenantId, 'billing')}
        menuOf={(row) => menuEntriesOf('billing', row)}
        empty={<Nothing query={query} onClear={() => setSearch(NO_FILTER)} />}
      />
    </>
  )
}

function Nothing({ query, onClear }: { query: typeof NO_FILTER | object; onClear: () => void }) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined)
  if (set.length === 0) return <Empty title={text.empty}>{text.emptyText}</Empty>
  const isDunningOnly = set.every(([key, value]) => key === 'dunning' && value === 'open')
  return (
    <Empty
      title={isDunningOnly ? text.noDunning : text.emptyFilter}
      actions={<Button onClick={onClear}>{text.clear}</Button>}
    >
      {isDunningOnly && text.noDunningText}
    </Empty>
  )
}
