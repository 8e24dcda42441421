/** Charts of deliveries by time of their dispatch: outcomes, and response times of receivers. */
import type { Result } from '../../../../console/api/contract.ts'
import { ProblemView } from '../../../../console/components/base/problem.tsx'
import { formatNumber } from '../../../../console/components/base/text.ts'
import { exactTime } from '../../../../console/components/base/time.tsx'
import { Chart, type ChartProps } from '../../../../console/components/chart/chart.tsx'
import { Skeleton } from '../../../../console/components/lists/table.tsx'
import { useOperation } from '../../../../console/data/queries.ts'
import { OUTCOMES, sumOf } from './outcomes.ts'
import { duration, text } from './text.ts'

type Step = Result<'webhooks.stats'>['data'][number]

const HOUR_MS = 3_600_000
const HOURS_MAX_MS = 4 * 24 * HOUR_MS
const COLORS = { delivered: 'good', failed: 'bad', waiting: 'neutral' } as const

type OnSelect = NonNullable<ChartProps['onSelect']>

interface StatisticsProps {
  readonly tenantId?: string | undefined
  readonly webhookId?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
  /** Of steps that are selected. */
  readonly onSelect?: OnSelect
}

/** @example <Statistics webhookId={webhookId} from={from} to={to} onSelect={useSetSearch()} /> */
export function Statistics({ onSelect, ...query }: StatisticsProps) {
  const { from, to } = query
  const lengthMs = from ? Date.parse(to ?? new Date().toISOString()) - Date.parse(from) : 24 * HOUR_MS
  const step = lengthMs > HOURS_MAX_MS ? 'day' : 'hour'
  const { data, error, refetch } = useOperation('webhooks.stats', { query: { ...definedOf(query), step } })
  if (error && !data) return <ProblemView error={error} onRetry={refetch} />
  if (!data) return <Skeleton rows={4} />
  const steps = data.data
  const shared = { starts: steps.map(({ at }) => at), step: data.step, ...(onSelect ? { onSelect } : {}) }
  const start = from ?? (to && steps[0]?.at)
  const caption = start ? text.deliveriesOf(exactTime(start), to ? exactTime(to) : text.now) : text.deliveriesOfDay
  const sums = OUTCOMES.map((outcome) => sumOf(steps, outcome))
  const [delivered = 0, failed = 0, waiting = 0] = sums
  return (
    <div className="charts">
      <Chart
        {...shared}
        caption={data.isEstimated ? `${caption} · ${text.estimated}` : caption}
        summary={`${text.stats}: ${text.summary(delivered, failed, waiting)}.`}
        series={OUTCOMES.map((outcome, index) => ({
          label: text.outcomes[outcome],
          values: steps.map((one) => one[outcome]),
          color: COLORS[outcome],
          total: formatNumber(sums[index] ?? 0),
        }))}
        format={formatNumber}
      />
      <ResponseTimes {...shared} steps={steps} />
    </div>
  )
}

interface ResponseTimesProps {
  readonly starts: readonly string[]
  readonly step: 'hour' | 'day'
  readonly onSelect?: OnSelect
  readonly steps: readonly Step[]
}

function ResponseTimes({ steps, ...shared }: ResponseTimesProps) {
  const slowest = Math.max(...steps.map(({ p95Ms }) => p95Ms ?? -1))
  if (slowest < 0) return null
  return (
    <Chart
      {...shared}
      caption={text.responseTimes}
      summary={text.responseTimesSummary(slowest)}
      series={[
        { label: text.p50, values: steps.map(({ p50Ms }) => p50Ms) },
        { label: text.p95, values: steps.map(({ p95Ms }) => p95Ms), total: text.atMost(slowest) },
      ]}
      format={duration}
    />
  )
}

const definedOf = <Query extends object>(query: Query): Query =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Query
