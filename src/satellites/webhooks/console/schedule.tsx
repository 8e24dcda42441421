/** Planned and actual times of the attempts of a delivery, on a logarithmic scale. */
import { exactTime } from '../../../console/components/base/time.tsx'
import type { Attempt, DeliveryDetail } from './api.ts'
import { text } from './text.ts'

/** Share of the width at the start, for the names of the rows, and at the end, in percent. */
const START = 17
const END = 5
const PLANNED_Y = 34
const ACTUAL_Y = 66
const RADIUS = 5

export interface PlannedAttempt {
  readonly number: number
  /** Undefined: an attempt before the last replay. */
  readonly plannedAt: string | undefined
  /** Undefined: the attempt has not started. */
  readonly made: Attempt | undefined
}

/** Attempts that were made or are planned, in their order. */
export function plannedAttempts({
  attempts,
  schedule,
}: Pick<DeliveryDetail, 'attempts' | 'schedule'>): PlannedAttempt[] {
  const numbers = [...new Set([...attempts, ...schedule].map(({ number }) => number))].toSorted((a, b) => a - b)
  return numbers.map((number) => ({
    number,
    plannedAt: schedule.find((one) => one.number === number)?.at,
    made: attempts.find((one) => one.number === number),
  }))
}

/** Position in percent of a time after the start. The first ten seconds are as long as the step to the first minute. */
function positionOf(ms: number, longestMs: number): number {
  const share = Math.log1p(Math.max(0, ms) / 1_000) / Math.log1p(Math.max(longestMs, 1) / 1_000)
  return START + Math.min(1, share) * (100 - START - END)
}

export const isSuccess = ({ status, error }: Attempt): boolean =>
  error === null && status !== null && status >= 200 && status < 300

export const offsetMs = (startedAt: string, plannedAt: string): number => Date.parse(startedAt) - Date.parse(plannedAt)

export function Schedule({ attempts }: { attempts: readonly PlannedAttempt[] }) {
  const shown = attempts.flatMap(({ number, plannedAt, made }) => (plannedAt ? [{ number, plannedAt, made }] : []))
  const [first] = shown
  if (!first) return null
  const times = shown.flatMap(({ plannedAt, made }) => [plannedAt, ...(made ? [made.startedAt] : [])]).map(Date.parse)
  const startMs = Math.min(...times)
  const longestMs = Math.max(...times) - startMs
  const x = (at: string) => `${positionOf(Date.parse(at) - startMs, longestMs)}%`
  return (
    <svg className="schedule" width="100%" height="92" role="img" aria-label={summaryOf(shown)}>
      <text x="0" y={PLANNED_Y + 4}>
        {text.planned}
      </text>
      <text x="0" y={ACTUAL_Y + 4}>
        {text.actual}
      </text>
      <line x1={`${START}%`} x2="100%" y1={PLANNED_Y} y2={PLANNED_Y} className="schedule-line" />
      <line x1={`${START}%`} x2="100%" y1={ACTUAL_Y} y2={ACTUAL_Y} className="schedule-line" />
      {shown.map(({ number, plannedAt, made }) => (
        <g key={number}>
          <title>{`${text.attemptOf(number)}: ${exactTime(plannedAt)}`}</title>
          {made && (
            <line x1={x(plannedAt)} x2={x(made.startedAt)} y1={PLANNED_Y} y2={ACTUAL_Y} className="schedule-link" />
          )}
          <circle cx={x(plannedAt)} cy={PLANNED_Y} r={RADIUS} className="schedule-planned" />
          <text x={x(plannedAt)} y={PLANNED_Y - 14} textAnchor="middle">
            {text.since(Date.parse(plannedAt) - startMs)}
          </text>
          {made && (
            <circle
              cx={x(made.startedAt)}
              cy={ACTUAL_Y}
              r={RADIUS}
              data-outcome={isSuccess(made) ? 'delivered' : 'failed'}
            />
          )}
          {made && (
            <text x={x(made.startedAt)} y={ACTUAL_Y + 21} textAnchor="middle">
              {made.status ?? text.noResponse}
            </text>
          )}
        </g>
      ))}
    </svg>
  )
}

const summaryOf = (shown: readonly { number: number; plannedAt: string; made: Attempt | undefined }[]): string =>
  shown
    .map(({ number, plannedAt, made }) => {
      const actual = made ? `, ${text.late(offsetMs(made.startedAt, plannedAt))}` : ''
      return `${text.attemptOf(number)}: ${text.planned.toLowerCase()} ${exactTime(plannedAt)}${actual}`
    })
    .join('. ')
