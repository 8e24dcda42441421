/** Usage over all tenants: a metric by day, and the tenants with the greatest sums. */
import type { Result } from '../../../console/api/contract.ts'
import { Empty, PageHeader, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { ExportButtons } from '../../../console/components/lists/export.tsx'
import { type Column, Skeleton, Table } from '../../../console/components/lists/table.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { tenantHref } from '../../../console/routing/links.ts'
import { useSearch } from '../../../console/routing/router.tsx'
import { DayChart } from './chart.tsx'
import { chosenKey, keysOf, Period } from './period.tsx'
import { text } from './text.ts'

const TOP = 20

export default function Usage() {
  const { key: wanted, from, to } = useSearch('metrics.sums')
  const newest = useList('metrics.listAll', { query: { limit: 200 } })
  const keys = keysOf(newest.rows)
  const key = chosenKey(wanted, keys)
  const exported = <ExportButtons name="metrics.listAll" input={{ query: { key, from, to } }} file="metrics" />
  return (
    <>
      <PageHeader title={text.usage}>{key !== undefined && exported}</PageHeader>
      {newest.error && !newest.rows ? (
        <ProblemView error={newest.error} onRetry={newest.retry} />
      ) : !newest.rows ? (
        <Skeleton />
      ) : key === undefined ? (
        <Empty title={text.empty}>{text.emptyText}</Empty>
      ) : (
        <>
          <Period chosen={key} keys={keys}>
            <p className="count">{text.asOf}</p>
          </Period>
          <Sums metric={key} from={from} to={to} />
        </>
      )}
    </>
  )
}

function Sums({ metric: key, from, to }: { metric: string; from: string | undefined; to: string | undefined }) {
  const { data, error, refetch } = useOperation('metrics.sums', { query: { key, from, to } })
  const tenants = useOperation('metrics.sums', { query: { key, by: 'tenant', top: TOP, from, to } })
  if (error && !data) return <ProblemView error={error} onRetry={refetch} />
  if (!data) return <Skeleton />
  return (
    <>
      <DayChart sums={data} />
      <Section title={text.topTenants}>
        {tenants.error && !tenants.data && <ProblemView error={tenants.error} onRetry={tenants.refetch} />}
        {tenants.data && <TopTenants sums={tenants.data} from={from} to={to} />}
      </Section>
    </>
  )
}

type TenantSums = Result<'metrics.sums'>
type Row = TenantSums['data'][number]

function TopTenants({ sums, from, to }: { sums: TenantSums; from: string | undefined; to: string | undefined }) {
  const { key, total, data } = sums
  const columns: readonly Column<Row>[] = [
    { key: 'tenant', title: text.columns.tenant, width: '50%', cell: ({ tenantId }) => <code>{tenantId}</code> },
    { key: 'value', title: text.columns.value, align: 'end', cell: ({ value }) => text.value(key, value) },
    { key: 'share', title: text.columns.share, align: 'end', cell: ({ value }) => text.shareOf(value, total) },
  ]
  const list = {
    rows: data,
    error: null,
    isStale: false,
    isLoadingMore: false,
    loadMore: undefined,
    loadEarlier: undefined,
    retry: () => undefined,
  }
  return (
    <Table
      key={key}
      label={text.topTenants}
      columns={columns}
      list={list}
      idOf={({ tenantId = '' }) => tenantId}
      hrefOf={({ tenantId = '' }) => tenantHref(tenantId, 'usage', { key, from, to })}
      empty={<Empty title={text.emptyPeriod} />}
    />
  )
}
