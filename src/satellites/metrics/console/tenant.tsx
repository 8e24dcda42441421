/** Usage of a tenant: a metric by day, and all metrics by day. */
import type { Result } from '../../../console/api/contract.ts'
import { Button } from '../../../console/components/base/button.tsx'
import { Empty, Section } from '../../../console/components/base/page.tsx'
import { ProblemView } from '../../../console/components/base/problem.tsx'
import { ExportButtons } from '../../../console/components/lists/export.tsx'
import { type Column, Skeleton, Table } from '../../../console/components/lists/table.tsx'
import { useList, useOperation } from '../../../console/data/queries.ts'
import { useParams, useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { DayChart } from './chart.tsx'
import { chosenKey, firstDay, keysOf, LONGEST_DAYS, Period } from './period.tsx'
import { text } from './text.ts'

type Metric = Result<'metrics.list'>['data'][number]

const columns: readonly Column<Metric>[] = [
  { key: 'day', title: text.columns.day, width: '34%', cell: ({ period }) => text.day(period) },
  { key: 'key', title: text.columns.key, cell: ({ key }) => <code>{key}</code> },
  { key: 'value', title: text.columns.value, align: 'end', cell: ({ key, value }) => text.value(key, value) },
]

export default function UsageOfTenant() {
  const { id = '' } = useParams()
  const { key: wanted, from, to } = useSearch('metrics.sums')
  const setSearch = useSetSearch()
  const query = { from, to }
  const list = useList('metrics.list', { params: { id }, query: { ...query, limit: 200 } })
  const keys = keysOf(list.rows)
  const key = chosenKey(wanted, keys)
  const { data, error, refetch } = useOperation(
    'metrics.sums',
    { query: { ...query, key: key ?? '', tenantId: id } },
    { enabled: key !== undefined },
  )
  if (list.error && !list.rows) return <ProblemView error={list.error} onRetry={list.retry} />
  if (!list.rows) return <Skeleton />
  if (key === undefined) {
    return (
      <Empty
        title={from === undefined ? text.empty : text.emptyPeriod}
        actions={
          from !== firstDay(LONGEST_DAYS) && (
            <Button onClick={() => setSearch({ from: firstDay(LONGEST_DAYS), to: undefined })}>{text.longer}</Button>
          )
        }
      >
        {text.emptyText}
      </Empty>
    )
  }
  return (
    <>
      <Period chosen={key} keys={keys} />
      {error && <ProblemView error={error} onRetry={refetch} isCompact={data !== undefined} />}
      {data ? <DayChart sums={data} /> : !error && <Skeleton rows={4} />}
      <Section
        title={text.byDay}
        actions={<ExportButtons name="metrics.list" input={{ params: { id }, query }} file={`metrics-${id}`} />}
      >
        <Table
          label={text.byDay}
          columns={columns}
          list={list}
          idOf={({ period, key }) => `${period} ${key}`}
          empty={<Empty title={text.emptyPeriod} />}
        />
      </Section>
    </>
  )
}
