/** The tenants that have a flag, each with its switch. */
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { ChoiceChips } from '../../../console/components/lists/filters.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { useList } from '../../../console/data/queries.ts'
import { href, tenantHref } from '../../../console/routing/links.ts'
import { useParams, useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { type Flag, flagPath } from './model.ts'
import { Switch } from './switch.tsx'
import { text } from './text.ts'

const columns: readonly Column<Flag>[] = [
  { key: 'tenant', title: text.columns.tenant, width: '40%', cell: ({ tenantId }) => <code>{tenantId}</code> },
  { key: 'state', title: text.columns.state, cell: (flag) => <Switch flag={flag} /> },
  {
    key: 'rollout',
    title: text.columns.rollout,
    cell: ({ rolloutPercent }) =>
      rolloutPercent === null ? <span className="faint">{text.everyone}</span> : text.percent(rolloutPercent),
  },
  {
    key: 'bucketKey',
    title: text.columns.bucketKey,
    isDefault: false,
    cell: ({ bucketKey }) => (bucketKey ? <code>{bucketKey}</code> : <span className="faint">{text.callerKey}</span>),
  },
  { key: 'updated', title: text.columns.updated, align: 'end', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
]

export default function TenantsOfFlag() {
  const { key = '' } = useParams()
  const { enabled } = useSearch('featureFlags.listTenants')
  const setSearch = useSetSearch()
  const list = useList('featureFlags.listTenants', { params: { key }, query: { enabled, limit: 100 } })
  return (
    <>
      <PageHeader title={key} context={text.flags} lead={<a href={href('/flags')}>{text.flags}</a>} />
      <div className="toolbar">
        <ChoiceChips
          label={text.stateFilter}
          value={enabled}
          choices={[
            { value: undefined, title: text.states.all },
            { value: 'true' as const, title: text.states.true },
            { value: 'false' as const, title: text.states.false },
          ]}
          onChange={(value) => setSearch({ enabled: value })}
        />
        <p className="count" role="status">
          {list.rows && !list.isStale ? text.countTenants(list.rows.length, list.loadMore !== undefined) : ''}
        </p>
      </div>
      <Table
        label={key}
        name="tenants-of-flag"
        kind="flag"
        columns={columns}
        list={list}
        idOf={({ id }) => id}
        nameOf={({ tenantId }) => tenantId}
        hrefOf={({ tenantId }) => tenantHref(tenantId, flagPath(key))}
        menuOf={(flag) => menuEntriesOf('flag', flag)}
        empty={
          enabled === undefined ? (
            <Empty title={text.emptyTenants}>{text.emptyTenantsText}</Empty>
          ) : (
            <Empty
              title={text.emptyFiltered}
              actions={<Button onClick={() => setSearch({ enabled: undefined })}>{text.states.all}</Button>}
            />
          )
        }
      />
    </>
  )
}
