/** Quotas of all tenants, by the used share of the limit. */

import type { Result } from '../../../console/api/contract.ts'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Empty, PageHeader } from '../../../console/components/base/page.tsx'
import { Time } from '../../../console/components/base/time.tsx'
import { ChoiceChips, EmptyFiltered, FilterSelect, without } from '../../../console/components/lists/filters.tsx'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { QuotaBar } from './bar.tsx'
import { text } from './text.ts'

type Use = Result<'quotas.top'>['data'][number]

const DEFAULT_SHARE = '0.8'
const SHARES = ['0.5', '0.8', '0.9', '1']

const columns: readonly Column<Use>[] = [
  {
    key: 'tenant',
    title: text.columns.tenant,
    width: '30%',
    cell: ({ name, tenantId }) => (
      <span className="two">
        <span>{name}</span>
        <code>{tenantId}</code>
      </span>
    ),
  },
  { key: 'use', title: text.columns.use, width: '32%', cell: (use) => <QuotaBar {...use} /> },
  { key: 'quota', title: text.columns.quota, cell: ({ quota }) => <code>{quota}</code> },
  { key: 'plan', title: text.columns.plan, cell: ({ plan }) => plan },
  {
    key: 'noted',
    title: text.columns.noted,
    align: 'end',
    cell: ({ notedAt }) => <Time at={notedAt} />,
    isMinor: true,
  },
]

export default function TopQuotas() {
  const { quota, above = DEFAULT_SHARE } = useSearch('quotas.top')
  const setSearch = useSetSearch()
  const { data: plans } = useOperation('plans.list', {})
  const list = useList('quotas.top', { query: { quota, above, limit: 100 } })
  const names = [...new Set(Object.values(plans?.definitions ?? {}).flatMap(({ limits }) => Object.keys(limits)))]
  return (
    <>
      <PageHeader title={text.quotas} />
      <div className="toolbar">
        <ChoiceChips
          label={text.filters.above}
          value={above}
          choices={SHARES.map((share) => ({ value: share, title: text.above(Number(share)) }))}
          onChange={(share) => setSearch({ above: share === DEFAULT_SHARE ? undefined : share })}
        />
        <FilterSelect
          label={text.filters.quota}
          all={text.all}
          value={quota}
          options={names.toSorted().map((name) => [name, name])}
          onChange={(value) => setSearch({ quota: value })}
        />
        <p className="count" role="status">
          {list.rows && !list.isStale ? text.count(list.rows.length, list.loadMore !== undefined) : ''}
        </p>
      </div>
      <Table
        label={text.quotas}
        name="quotas"
        kind="quota"
        columns={columns}
        list={list}
        idOf={({ tenantId, quota }) => `${tenantId} ${quota}`}
        nameOf={({ name, quota }) => `${name}, ${quota}`}
        hrefOf={({ tenantId }) => tenantHref(tenantId, 'quotas')}
        menuOf={(use) => menuEntriesOf('quota', use)}
        empty={
          quota === undefined ? (
            <Empty title={text.emptyTop}>{text.emptyTopText}</Empty>
          ) : (
            <EmptyFiltered
              title={text.emptyTop}
              filters={[{ key: 'quota', label: text.filters.quota, value: quota }]}
              onRemove={(keys) => setSearch(without(keys))}
            />
          )
        }
      />
    </>
  )
}
