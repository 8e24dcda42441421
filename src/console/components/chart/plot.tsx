/**
 * The drawn part of a chart. It is loaded with the first chart, because it contains uPlot.
 *
 * A slider for keys and screen readers: arrows read the values of a step, `Shift` and arrows select steps until `Shift` is released,
 * `Esc` cancels.
 */
import './language.ts'
import { type KeyboardEvent, useEffect, useRef, useSyncExternalStore } from 'react'
import uPlot from 'uplot'
import { type Drawing, dataOf, HEIGHT, optionsOf } from './plot-options.ts'

export interface PlotProps extends Drawing {
  readonly label: string
  /** Id of the summary. */
  readonly describedBy: string
  /** The step that is read. */
  readonly cursor: number | undefined
  /** Time and values of the step that is read. */
  readonly valueText: string
  readonly onCursor: (index: number | undefined) => void
  readonly onSelect: ((first: number, last: number) => void) | undefined
}

const MEDIA = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => matchMedia(query))

/** Changes with the theme, and with the direction of the page. */
const look = (): string => {
  const { dataset, dir } = document.documentElement
  return [...MEDIA.map(({ matches }) => matches), dataset.theme, dir].join()
}

function subscribeToLook(listener: () => void): () => void {
  const observer = new MutationObserver(listener)
  observer.observe(document.documentElement, { attributeFilter: ['data-theme', 'dir'] })
  for (const one of MEDIA) one.addEventListener('change', listener)
  return () => {
    observer.disconnect()
    for (const one of MEDIA) one.removeEventListener('change', listener)
  }
}

const NO_SELECTION = { left: 0, top: 0, width: 0, height: 0 }

export default function Plot(props: PlotProps) {
  const { label, describedBy, starts, step, series, cursor, valueText } = props
  const host = useRef<HTMLDivElement>(null)
  const probe = useRef<HTMLElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(props)
  latest.current = props
  /** The step at which a selection by keys has begun. */
  const anchor = useRef<number>(undefined)
  const present = useSyncExternalStore(subscribeToLook, look)
  const names = series.map(({ label, color }) => `${label} ${color}`).join()
  const isSelectable = props.onSelect !== undefined
  const data = JSON.stringify(dataOf(props))

  // biome-ignore lint/correctness/useExhaustiveDependencies: a plot is drawn again if its form or its look changes
  useEffect(() => {
    const { current: place } = host
    if (!place) return
    const { direction, fontFamily } = getComputedStyle(place)
    const made = new uPlot(
      optionsOf(latest.current, {
        width: place.clientWidth,
        isRightToLeft: direction === 'rtl',
        font: fontFamily,
        colorOf: (name) => colorOf(probe.current, name),
        onCursor: (index) => latest.current.onCursor(index),
        onSelect: isSelectable ? (first, last) => latest.current.onSelect?.(first, last) : undefined,
      }),
      dataOf(latest.current),
      place,
    )
    plot.current = made
    const observer = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT }))
    observer.observe(place)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [present, names, step, starts[0], starts.length, isSelectable])

  // biome-ignore lint/correctness/useExhaustiveDependencies: equal values need no new drawing
  useEffect(() => {
    plot.current?.setData(dataOf(latest.current))
  }, [data])

  const endSelection = () => {
    anchor.current = undefined
    plot.current?.setSelect(NO_SELECTION, false)
  }

  const moveTo = (index: number, isSelecting: boolean) => {
    const { current: drawn } = plot
    if (!drawn) return
    const target = Math.min(Math.max(index, 0), starts.length - 1)
    const height = drawn.over.clientHeight
    drawn.setCursor({ left: drawn.valToPos(target, 'x'), top: height / 2 })
    if (!isSelecting) return endSelection()
    anchor.current ??= cursor ?? target
    const ends = [Math.min(anchor.current, target) - 0.5, Math.max(anchor.current, target) + 0.5]
    const [from = 0, to = 0] = ends.map((value) => drawn.valToPos(value, 'x')).toSorted((a, b) => a - b)
    drawn.setSelect({ left: from, top: 0, width: to - from, height }, false)
  }

  const onKeyDown = (event: KeyboardEvent) => {
    const last = starts.length - 1
    const forward = host.current && getComputedStyle(host.current).direction === 'rtl' ? 'ArrowLeft' : 'ArrowRight'
    if (event.key === 'Escape' && anchor.current !== undefined) endSelection()
    else if (event.key === 'Home' || event.key === 'End')
      moveTo(event.key === 'Home' ? 0 : last, event.shiftKey && isSelectable)
    else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
      const index = cursor === undefined ? last : cursor + (event.key === forward ? 1 : -1)
      moveTo(index, event.shiftKey && isSelectable)
    } else return
    event.preventDefault()
    event.stopPropagation()
  }

  const onKeyUp = ({ key }: KeyboardEvent) => {
    const { current: begun } = anchor
    if (key !== 'Shift' || begun === undefined || cursor === undefined) return
    endSelection()
    props.onSelect?.(Math.min(begun, cursor), Math.max(begun, cursor))
  }

  const onBlur = () => {
    endSelection()
    plot.current?.setCursor({ left: -10, top: -10 })
  }

  return (
    <div
      className="plot"
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-describedby={describedBy}
      aria-valuemin={0}
      aria-valuemax={starts.length - 1}
      aria-valuenow={cursor ?? starts.length - 1}
      aria-valuetext={valueText}
      onKeyDown={onKeyDown}
      onKeyUp={onKeyUp}
      onBlur={onBlur}
    >
      <i ref={probe} className="chart-color" hidden />
      <div ref={host} />
    </div>
  )
}

/** The present value of a token: a canvas knows no variables. */
function colorOf(probe: HTMLElement | null, name: string): string {
  if (!probe) return 'currentColor'
  probe.dataset.color = name
  return getComputedStyle(probe).color
}
