/** Values by hour or day, with a caption, a summary for screen readers, and the values as a table. */
import { lazy, memo, type ReactNode, Suspense, useId, useState } from 'react'
import { load } from '../../data/load.ts'
import { text } from '../base/text.ts'
import { SimpleTable } from '../lists/simple-table.tsx'
import { type ChartSeries, stylesOf } from './series.ts'
import { endOf, type Step, stepText } from './steps.ts'

const Plot = lazy(() => load(() => import('./plot.tsx')))

const SWATCH = 20

export interface ChartProps {
  readonly caption: string
  /** A sentence for screen readers. */
  readonly summary: string
  /** A number before the caption, such as the sum. */
  readonly lead?: ReactNode
  /** Starts of the steps, the oldest first, without gaps. */
  readonly starts: readonly string[]
  /** Length of a step. Days are days in UTC. */
  readonly step: Step
  /** At most six: bars of one series, lines of several. */
  readonly series: readonly ChartSeries[]
  readonly format: (value: number) => string
  /** Marks of the scale. Default: `format`. */
  readonly formatMark?: (value: number) => string
  /** Marks at powers of two, for bytes. */
  readonly isBinary?: boolean
  /**
   * Called after a drag, after `Shift` and arrow keys, and by a row of the table, with the start of the first step and the end of the last
   * one: usually `useSetSearch()`.
   */
  readonly onSelect?: (period: { readonly from: string; readonly to: string }) => void
}

/**
 * @example
 *   <Chart caption="Orders by day (UTC)" summary="40 orders in 14 days." starts={days} step="day" format={formatNumber}
 *     series={[{ label: 'Orders', values }]} onSelect={useSetSearch()} />
 */
export function Chart(props: ChartProps) {
  const {
    caption,
    summary,
    lead,
    starts,
    step,
    series,
    format,
    formatMark = format,
    isBinary = false,
    onSelect,
  } = props
  const [cursor, setCursor] = useState<number>()
  const id = useId()
  const start = cursor === undefined ? undefined : starts[cursor]
  const textAt = (values: ChartSeries['values']) => valueText(values[cursor ?? -1], format)
  const styles = stylesOf(series)
  const title = start === undefined ? caption : stepText(start, step)
  const select = onSelect && ((first: number, last: number) => onSelect(periodOf(starts, step, first, last)))
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title">
          {lead}
          <span className="faint">{title}</span>
        </span>
        <ul className="chart-legend">
          {series.map(({ label, values, total }, index) => (
            <li key={label}>
              <svg
                className="chart-color"
                data-color={styles[index]?.color}
                width={SWATCH}
                height="8"
                aria-hidden="true"
                focusable="false"
              >
                <line x1="0" x2={SWATCH} y1="4" y2="4" strokeDasharray={styles[index]?.dash.join(' ')} />
              </svg>
              {label} <strong>{start === undefined ? total : textAt(values)}</strong>
            </li>
          ))}
        </ul>
      </figcaption>
      <p className="hidden" id={id}>
        {summary} {onSelect ? text.chartSelection : text.chartKeys}
      </p>
      <div className="plot-area">
        <Suspense>
          <Plot
            label={caption}
            describedBy={id}
            starts={starts}
            step={step}
            series={series}
            formatMark={formatMark}
            isBinary={isBinary}
            cursor={start === undefined ? undefined : cursor}
            valueText={[title, ...(start ? series.map(({ label, values }) => `${label} ${textAt(values)}`) : [])].join(
              ', ',
            )}
            onCursor={setCursor}
            onSelect={select}
          />
        </Suspense>
      </div>
      <Values caption={caption} starts={starts} step={step} series={series} format={format} onSelect={onSelect} />
    </figure>
  )
}

const valueText = (value: number | null | undefined, format: ChartProps['format']): string =>
  value === null || value === undefined ? '–' : format(value)

const periodOf = (starts: readonly string[], step: Step, first: number, last: number) => {
  const from = starts[first] ?? ''
  return { from, to: endOf(starts[last] ?? from, step) }
}

type ValuesProps = Pick<ChartProps, 'caption' | 'starts' | 'step' | 'series' | 'format'> & {
  readonly onSelect: ChartProps['onSelect'] | undefined
}

/** The values as a table, the newest step first. */
const Values = memo(({ caption, starts, step, series, format, onSelect }: ValuesProps) => {
  const rows = starts.map((start, index) => ({
    key: start,
    cells: [
      onSelect ? (
        <button
          key={start}
          type="button"
          className="text-button"
          onClick={() => onSelect(periodOf(starts, step, index, index))}
        >
          {stepText(start, step)}
        </button>
      ) : (
        stepText(start, step)
      ),
      ...series.map(({ values }) => valueText(values[index], format)),
    ],
  }))
  return (
    <details className="chart-values">
      <summary>{text.asTable}</summary>
      <SimpleTable
        label={caption}
        columns={[step === 'day' ? text.day : text.hour, ...series.map(({ label }) => label)]}
        rows={rows.toReversed()}
      />
    </details>
  )
})
