/** Series of a chart: values by step, distinguished by colour and dash. */

export const COLORS = ['accent', 'warning', 'good', 'bad', 'neutral', 'text'] as const
export type ChartColor = (typeof COLORS)[number]

/** Lengths of lines and gaps in px, by the position of the series. */
const DASHES: readonly (readonly number[])[] = [[], [7, 3], [2, 3], [8, 3, 2, 3], [4, 4], [1, 5]]
const MAX_SERIES = DASHES.length

export interface ChartSeries {
  readonly label: string
  /** A value for each step. Null: the step has no value. */
  readonly values: readonly (number | null)[]
  /** Default: by position. */
  readonly color?: ChartColor
  /** Value of all steps in the legend, such as their sum. */
  readonly total?: string
}

export interface Style {
  readonly color: ChartColor
  readonly dash: readonly number[]
}

export function stylesOf(series: readonly ChartSeries[]): Style[] {
  if (series.length > MAX_SERIES) throw new Error(`a chart has at most ${MAX_SERIES} series`)
  return series.map(({ color }, index) => ({
    color: color ?? COLORS[index] ?? 'text',
    dash: DASHES[index] ?? [],
  }))
}
