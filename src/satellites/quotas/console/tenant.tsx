/** Quotas of a tenant: use against limit, and the limits of all plans. */
import { useMemo } from 'react'
import { menuEntriesOf } from '../../../console/components/actions.tsx'
import { Empty, Section } from '../../../console/components/base/page.tsx'
import { formatNumber } from '../../../console/components/base/text.ts'
import { type Column, Table } from '../../../console/components/lists/table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { useParams } from '../../../console/routing/router.tsx'
import { QuotaBar } from './bar.tsx'
import type { Forecast } from './forecast.ts'
import { useForecasts } from './forecasts.ts'
import { type Quota, quotasOf } from './quota.ts'
import { text } from './text.ts'

const columnsWith = (forecastOf: (quota: Quota) => Forecast | undefined): readonly Column<Quota>[] => [
  { key: 'quota', title: text.columns.quota, width: '30%', cell: ({ quota }) => <code>{quota}</code> },
  {
    key: 'use',
    title: text.columns.use,
    width: '50%',
    cell: (quota) => <QuotaBar {...quota} forecast={forecastOf(quota)} />,
  },
  {
    key: 'left',
    title: text.columns.left,
    align: 'end',
    cell: ({ usage, limit }) =>
      limit === undefined ? <span className="faint">–</span> : formatNumber(Math.max(limit - usage, 0)),
  },
]

export default function QuotasOfTenant() {
  const { id = '' } = useParams()
  const { data, error, refetch, isPlaceholderData } = useOperation('quotas.get', { params: { id } })
  const forecastOf = useForecasts(id, data)
  const columns = useMemo(() => columnsWith(forecastOf), [forecastOf])
  const list = {
    rows: data && quotasOf(id, data),
    error,
    isStale: isPlaceholderData,
    isLoadingMore: false,
    loadMore: undefined,
    loadEarlier: undefined,
    retry: () => void refetch(),
  }
  return (
    <>
      {data && <p className="lead-line">{text.planOf(data.plan)}</p>}
      <Table
        label={text.quotas}
        kind="quota"
        columns={columns}
        list={list}
        idOf={({ quota }) => quota}
        menuOf={(quota) => menuEntriesOf('quota', quota)}
        empty={<Empty title={text.empty}>{text.emptyText}</Empty>}
      />
      {data && <Plans present={data.plan} />}
    </>
  )
}

function Plans({ present }: { present: string }) {
  const { data } = useOperation('plans.list', {})
  const plans = Object.entries(data?.definitions ?? {})
  const names = [...new Set(plans.flatMap(([, { limits }]) => Object.keys(limits)))].toSorted()
  if (names.length === 0) return null
  return (
    <Section title={text.plans}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <section className="wide" tabIndex={0} aria-label={text.plans}>
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{text.columns.quota}</th>
              {plans.map(([plan]) => (
                <th key={plan} scope="col" data-align="end" data-present={plan === present || undefined}>
                  {plan}
                  {plan === present && <span className="hidden"> ({text.presentPlan})</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <tr key={name}>
                <th scope="row">
                  <code>{name}</code>
                </th>
                {plans.map(([plan, { limits }]) => (
                  <td key={plan} data-align="end" data-present={plan === present || undefined}>
                    {limits[name] === undefined ? text.unlimited : formatNumber(limits[name])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Section>
  )
}
