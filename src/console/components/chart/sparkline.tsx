/** A small line without axes. Screen readers skip it, so a text next to it has the numbers. */

const WIDTH = 100
const HEIGHT = 24
/** Half of the line, which would be cut off at the edge. */
const EDGE = 1

/** @example <Sparkline values={[0, 4, 2]} /> */
export function Sparkline({ values }: { readonly values: readonly number[] }) {
  const max = Math.max(...values, 1)
  const distance = WIDTH / Math.max(values.length - 1, 1)
  const points = values.map((value, index) => {
    const y = HEIGHT - EDGE - (value / max) * (HEIGHT - 2 * EDGE)
    return `${(index * distance).toFixed(1)},${y.toFixed(1)}`
  })
  if (points.length < 2) return null
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      <path d={`M${points.join('L')}`} />
    </svg>
  )
}
