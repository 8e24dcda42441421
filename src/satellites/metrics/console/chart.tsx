/** Bars by day, with a caption, a summary for screen readers, and the values as a table. */
import type { Result } from '../../../console/api/contract.ts'
import { text } from './text.ts'

type Sums = Result<'metrics.sums'>

const DAY_MS = 86_400_000
const HEIGHT = 100
const BAR = 0.72
/** A day with a count has a visible bar. */
const LEAST = 1.5

/** Each day of the period, the oldest first. */
function daysOf({ from, to, data }: Sums): { readonly period: string; readonly value: number }[] {
  const values = new Map(data.map(({ period, value }) => [period, value]))
  const count = Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1
  return Array.from({ length: Math.max(count, 0) }, (_, index) => {
    const period = new Date(Date.parse(from) + index * DAY_MS).toISOString().slice(0, 10)
    return { period, value: values.get(period) ?? 0 }
  })
}

export function DayBars({ sums }: { sums: Sums }) {
  const { key, total, from, to } = sums
  const days = daysOf(sums)
  const max = Math.max(...days.map(({ value }) => value), 1)
  const greatest = total > 0 ? days.find(({ value }) => value === max) : undefined
  return (
    <figure className="chart">
      <figcaption>
        <strong>{text.total(key, total)}</strong>
        <span className="faint">{text.caption(key)}</span>
      </figcaption>
      <div className="chart-area">
        <svg
          viewBox={`0 0 ${days.length} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={text.summary(key, total, days.length, greatest)}
        >
          {days.map(({ period, value }, index) => {
            const height = value > 0 ? Math.max((value / max) * HEIGHT, LEAST) : 0
            return (
              <g key={period}>
                <title>{text.bar(key, period, value)}</title>
                <rect className="day-space" x={index} y={0} width={1} height={HEIGHT} />
                <rect className="day" x={index + (1 - BAR) / 2} y={HEIGHT - height} width={BAR} height={height} />
              </g>
            )
          })}
        </svg>
        <div className="chart-scale" aria-hidden="true">
          <span>{text.scale(key, max)}</span>
          <span>0</span>
        </div>
        <div className="chart-days" aria-hidden="true">
          <span>{text.shortDay(from)}</span>
          <span>{text.shortDay(to)}</span>
        </div>
      </div>
      <details>
        <summary>{text.asTable}</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
        <section className="scroll" tabIndex={0} aria-label={text.caption(key)}>
          <table className="simple">
            <thead>
              <tr>
                <th scope="col">{text.columns.day}</th>
                <th scope="col" data-align="end">
                  {text.columns.value}
                </th>
              </tr>
            </thead>
            <tbody>
              {days.toReversed().map(({ period, value }) => (
                <tr key={period}>
                  <th scope="row">{text.day(period)}</th>
                  <td data-align="end">{text.value(key, value)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  )
}
