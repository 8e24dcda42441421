/** Use against the limit, with marks at 80 % and 100 %, and the forecast. */
import type { Forecast } from './forecast.ts'
import { type Quota, shareOf, toneOf } from './quota.ts'
import { text } from './text.ts'

const WIDTH = 120
/** Place of 100 %; use above the limit goes on to the end. */
const LIMIT_AT = 100
const WARNING_AT = 80

interface QuotaBarProps extends Pick<Quota, 'quota' | 'usage' | 'limit'> {
  readonly forecast?: Forecast | undefined
}

export function QuotaBar({ quota, usage, limit, forecast }: QuotaBarProps) {
  const share = shareOf({ usage, limit })
  if (share === undefined || limit === undefined) {
    return (
      <div className="quota-use">
        <div className="quota-facts">
          <strong>{text.used(usage, undefined)}</strong>
          <span className="faint">{text.unlimited}</span>
        </div>
      </div>
    )
  }
  return (
    <div className="quota-use">
      <div className="quota-facts">
        <strong>{text.used(usage, limit)}</strong>
        <span>{text.percent(share)}</span>
      </div>
      <svg
        className="quota-bar"
        data-tone={toneOf(share)}
        viewBox={`0 0 ${WIDTH} 14`}
        preserveAspectRatio="none"
        role="img"
        aria-label={text.barOf(quota, usage, limit)}
      >
        <rect className="quota-space" x={0} y={4} width={LIMIT_AT} height={6} />
        <rect className="quota-used" x={0} y={4} width={Math.min(share * LIMIT_AT, WIDTH)} height={6} />
        <line className="quota-warning-mark" x1={WARNING_AT} x2={WARNING_AT} y1={1} y2={13} />
        <line x1={LIMIT_AT} x2={LIMIT_AT} y1={0} y2={14} />
      </svg>
      {forecast && <p className="quota-forecast">{text.forecast(quota, forecast)}</p>}
    </div>
  )
}
