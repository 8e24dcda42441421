/** Outcomes of deliveries by time, as bars and as a table. */

import type { Result } from '../../../console/api/contract.ts'
import { formatNumber } from '../../../console/components/base/text.ts'
import { ExactTime, exactTime } from '../../../console/components/base/time.tsx'
import { Skeleton } from '../../../console/components/lists/table.tsx'
import { useOperation } from '../../../console/data/queries.ts'
import { text } from './text.ts'

type Step = Result<'webhooks.stats'>['data'][number]

const HOUR_MS = 3_600_000
const HOURS_MAX_MS = 4 * 24 * HOUR_MS
const HEIGHT = 64
const PITCH = 10
const GAP = 2
const OUTCOMES = ['waiting', 'failed', 'delivered'] as const

interface BarsProps {
  readonly tenantId?: string | undefined
  readonly webhookId?: string | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
  /** The address of the deliveries of a step. */
  readonly hrefOf?: (window: { from: string; to: string }) => string
  /** Without caption and table: on a card. */
  readonly isCompact?: boolean
}

/** @example <Bars tenantId={id} /> */
export function Bars({ hrefOf, isCompact = false, ...query }: BarsProps) {
  const { from, to } = query
  const lengthMs = from ? Date.parse(to ?? new Date().toISOString()) - Date.parse(from) : 24 * HOUR_MS
  const step = lengthMs > HOURS_MAX_MS ? 'day' : 'hour'
  const { data } = useOperation('webhooks.stats', { query: { ...definedOf(query), step } })
  if (!data) return isCompact ? null : <Skeleton rows={2} />
  const steps = data.data
  const sum = (outcome: (typeof OUTCOMES)[number]) => steps.reduce((total, one) => total + one[outcome], 0)
  const summary = text.summary(sum('delivered'), sum('failed'), sum('waiting'))
  const slowest = Math.max(...steps.map(({ p95Ms }) => p95Ms ?? -1))
  return (
    <figure className="outcomes">
      <figcaption>
        <span className="outcomes-title">
          {from ? text.period(exactTime(from), to ? exactTime(to) : text.now) : text.last24}
          {data.isEstimated && ` · ${text.estimated}`}
        </span>
        <ul className="legend">
          {(['delivered', 'failed', 'waiting'] as const).map((outcome) => (
            <li key={outcome} data-outcome={outcome}>
              {text.outcomes[outcome]} <strong>{formatNumber(sum(outcome))}</strong>
            </li>
          ))}
          {!isCompact && slowest >= 0 && (
            <li>
              {text.p95} <strong>{text.ms(slowest)}</strong>
            </li>
          )}
        </ul>
      </figcaption>
      <Chart steps={steps} label={`${text.stats}: ${summary}`} to={to} />
      {!isCompact && <AsTable steps={steps} step={step} hrefOf={hrefOf} />}
    </figure>
  )
}

function Chart({ steps, label, to }: { steps: readonly Step[]; label: string; to: string | undefined }) {
  const highest = Math.max(1, ...steps.map(({ delivered, failed, waiting }) => delivered + failed + waiting))
  const width = steps.length * PITCH
  return (
    <>
      <svg className="bars" viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {steps.map((one, index) => {
          let top = HEIGHT
          return (
            <g key={one.at}>
              <title>{`${exactTime(one.at)}: ${text.summary(one.delivered, one.failed, one.waiting)}`}</title>
              <rect className="bar-space" x={index * PITCH} y={0} width={PITCH} height={HEIGHT} />
              {OUTCOMES.toReversed().map((outcome) => {
                const height = one[outcome] === 0 ? 0 : Math.max(2, (one[outcome] / highest) * (HEIGHT - 6))
                top -= height
                return (
                  <rect
                    key={outcome}
                    data-outcome={outcome}
                    x={index * PITCH + GAP / 2}
                    y={top}
                    width={PITCH - GAP}
                    height={height}
                  />
                )
              })}
            </g>
          )
        })}
      </svg>
      <p className="axis faint">
        <span>{steps[0] && exactTime(steps[0].at)}</span>
        <span>{to ? exactTime(to) : text.now}</span>
      </p>
    </>
  )
}

interface AsTableProps {
  readonly steps: readonly Step[]
  readonly step: 'hour' | 'day'
  readonly hrefOf: BarsProps['hrefOf']
}

function AsTable({ steps, step, hrefOf }: AsTableProps) {
  const used = steps.filter(({ delivered, failed, waiting }) => delivered + failed + waiting > 0)
  const endOf = (at: string) => new Date(Date.parse(at) + (step === 'day' ? 24 : 1) * HOUR_MS).toISOString()
  if (used.length === 0) return null
  return (
    <details>
      <summary>{text.asTable}</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <section className="scroll" tabIndex={0} aria-label={text.asTable}>
        <table className="simple">
          <thead>
            <tr>
              <th scope="col">{text.start}</th>
              <th scope="col">{text.outcomes.delivered}</th>
              <th scope="col">{text.outcomes.failed}</th>
              <th scope="col">{text.outcomes.waiting}</th>
              <th scope="col">{text.p50}</th>
              <th scope="col">{text.p95}</th>
            </tr>
          </thead>
          <tbody>
            {used.map(({ at, delivered, failed, waiting, p50Ms, p95Ms }) => (
              <tr key={at}>
                <th scope="row">
                  {hrefOf ? (
                    <a href={hrefOf({ from: at, to: endOf(at) })} title={text.showStep}>
                      <ExactTime at={at} />
                    </a>
                  ) : (
                    <ExactTime at={at} />
                  )}
                </th>
                <td>{formatNumber(delivered)}</td>
                <td>{formatNumber(failed)}</td>
                <td>{formatNumber(waiting)}</td>
                <td>{text.ms(p50Ms)}</td>
                <td>{text.ms(p95Ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </details>
  )
}

const definedOf = <Query extends object>(query: Query): Query =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Query
