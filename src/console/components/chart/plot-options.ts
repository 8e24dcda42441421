/** Options of uPlot: bars for one series, lines for several, marks at full steps. Positions on the x axis are numbers of steps. */
import uPlot from 'uplot'
import type { ChartColor, ChartSeries } from './series.ts'
import { stylesOf } from './series.ts'
import { marksOf, markText, type Step } from './steps.ts'

export const HEIGHT = 180
const MARK_WIDTH = 64
const MARK_HEIGHT = 28
const CHARACTER_WIDTH = 6.8
const AXIS_GAP = 8
const FONT_SIZE = 12
const BAR_SHARE = 0.72
const MAX_BAR = 64
/** A shorter drag is a click. */
const MIN_DRAG = 6

const powersOf = (base: number, factors: readonly number[], count: number): number[] =>
  Array.from({ length: count }, (_, power) => factors.map((factor) => factor * base ** power)).flat()
const BYTES = powersOf(2, [1], 60)
const INTEGERS = powersOf(10, [1, 2, 5], 16)

export interface Drawing {
  readonly starts: readonly string[]
  readonly step: Step
  readonly series: readonly ChartSeries[]
  readonly formatMark: (value: number) => string
  /** Whether marks are at powers of two, for bytes. */
  readonly isBinary: boolean
}

interface Surroundings {
  readonly width: number
  readonly isRightToLeft: boolean
  readonly font: string
  readonly colorOf: (name: ChartColor | 'mark' | 'line') => string
  /** @param index undefined: the pointer has left */
  readonly onCursor: (index: number | undefined) => void
  /** Undefined: no selection. */
  readonly onSelect: ((first: number, last: number) => void) | undefined
}

/** A bar of 0 is not drawn. A small one is, because bars have an outline. */
export function dataOf({ starts, series }: Drawing): uPlot.AlignedData {
  const isBars = series.length === 1
  return [
    starts.map((_, index) => index),
    ...series.map(({ values }) => values.map((value) => (isBars && value === 0 ? null : value))),
  ]
}

export function optionsOf(drawing: Drawing, surroundings: Surroundings): uPlot.Options {
  const { starts, step, series, formatMark, isBinary } = drawing
  const { width, isRightToLeft, font, colorOf, onCursor, onSelect } = surroundings
  const isWhole = series.every(({ values }) => values.every((value) => value === null || Number.isInteger(value)))
  const axis = { font: `${FONT_SIZE}px ${font}`, stroke: colorOf('mark'), ticks: { show: false } }
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    scales: {
      x: { time: false, range: [-0.5, starts.length - 0.5], dir: isRightToLeft ? -1 : 1 },
      y: { range: (_, __, max) => [0, max > 0 ? (uPlot.rangeNum(0, max, 0.1, true)[1] ?? max) : 1] },
    },
    axes: [
      {
        ...axis,
        size: FONT_SIZE + 2 * AXIS_GAP,
        gap: AXIS_GAP,
        splits: (plot) => marksOf(starts, step, (plot.bbox.width / devicePixelRatio || width) / MARK_WIDTH),
        values: (_, marks) => marks.map((mark) => markText(starts[mark] ?? '', step)),
        grid: { show: false },
        border: { show: true, stroke: colorOf('line'), width: 1 },
      },
      {
        ...axis,
        side: isRightToLeft ? 1 : 3,
        space: MARK_HEIGHT,
        gap: AXIS_GAP,
        size: (_, marks) => Math.max(0, ...(marks ?? []).map(({ length }) => length)) * CHARACTER_WIDTH + 2 * AXIS_GAP,
        ...(isBinary || isWhole ? { incrs: isBinary ? BYTES : INTEGERS } : {}),
        values: (_, marks) => marks.map(formatMark),
        grid: { stroke: colorOf('line'), width: 1 },
      },
    ],
    series: [{}, ...lines(series, colorOf)],
    cursor: {
      y: false,
      points: { show: series.length > 1 },
      bind: { dblclick: () => null },
      drag: { x: onSelect !== undefined, y: false, setScale: false, dist: MIN_DRAG },
    },
    hooks: {
      setCursor: [({ cursor }) => onCursor(cursor.idx ?? undefined)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          const ends = [plot.posToIdx(left), plot.posToIdx(left + width)]
          if (width > 0) onSelect?.(Math.min(...ends), Math.max(...ends))
        },
      ],
    },
  }
}

function lines(series: readonly ChartSeries[], colorOf: Surroundings['colorOf']): uPlot.Series[] {
  const bars = series.length === 1 ? uPlot.paths.bars?.({ size: [BAR_SHARE, MAX_BAR] }) : undefined
  return stylesOf(series).map(({ color, dash }) => {
    const stroke = colorOf(color)
    if (bars) return { stroke, fill: stroke, width: 1, paths: bars, points: { show: false } }
    return {
      stroke,
      width: 1.75,
      dash: [...dash],
      // A value between two steps without one has no line.
      points: {
        show: true,
        size: 5,
        fill: stroke,
        filter: ({ data }, index) => isolated(data[index] ?? []),
      },
    }
  })
}

const isolated = (values: ArrayLike<number | null | undefined>): number[] =>
  Array.from(values).flatMap((value, index) =>
    value != null && values[index - 1] == null && values[index + 1] == null ? [index] : [],
  )
