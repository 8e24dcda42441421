/** Outcomes of the deliveries of 24 hours as bars, for a card. */
import { formatNumber } from '../../../../console/components/base/text.ts'
import { exactTime } from '../../../../console/components/base/time.tsx'
import { useOperation } from '../../../../console/data/queries.ts'
import { OUTCOMES, sumOf } from './outcomes.ts'
import { text } from './text.ts'

const HEIGHT = 64
const PITCH = 10
const GAP = 2
/** A step with a delivery has a visible bar. */
const LEAST = 2

export function Bars({ tenantId }: { tenantId: string }) {
  const { data } = useOperation('webhooks.stats', { query: { tenantId, step: 'hour' } })
  if (!data) return null
  const steps = data.data
  const [delivered = 0, failed = 0, waiting = 0] = OUTCOMES.map((outcome) => sumOf(steps, outcome))
  const highest = Math.max(1, ...steps.map((one) => one.delivered + one.failed + one.waiting))
  return (
    <figure className="outcomes">
      <figcaption>
        <span className="outcomes-title">
          {text.last24}
          {data.isEstimated && ` · ${text.estimated}`}
        </span>
        <ul className="legend">
          {OUTCOMES.map((outcome) => (
            <li key={outcome} data-outcome={outcome}>
              {text.outcomes[outcome]} <strong>{formatNumber(sumOf(steps, outcome))}</strong>
            </li>
          ))}
        </ul>
      </figcaption>
      <svg
        className="bars"
        viewBox={`0 0 ${steps.length * PITCH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${text.stats}: ${text.summary(delivered, failed, waiting)}`}
      >
        {steps.map((one, index) => {
          let top = HEIGHT
          return (
            <g key={one.at}>
              <title>{`${exactTime(one.at)}: ${text.summary(one.delivered, one.failed, one.waiting)}`}</title>
              <rect className="bar-space" x={index * PITCH} y={0} width={PITCH} height={HEIGHT} />
              {OUTCOMES.map((outcome) => {
                const height = one[outcome] === 0 ? 0 : Math.max(LEAST, (one[outcome] / highest) * (HEIGHT - 6))
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
    </figure>
  )
}
