/** Steps of a chart and their texts: hours in the time zone of the browser, days in UTC. */

export type Step = 'hour' | 'day'

const HOUR_MS = 3_600_000
const STEP_MS = { hour: HOUR_MS, day: 24 * HOUR_MS } as const
/** Distances of marks, in hours. Marks are at multiples of them. */
const HOURS = [1, 2, 3, 4, 6, 12, 24]

const hour = new Intl.DateTimeFormat('en', { hour: 'numeric' })
const exactHour = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short' })
const dayOfHour = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })
const day = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })
const exactDay = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' })

/** End of the step that starts at a time. */
export const endOf = (start: string, step: Step): string => new Date(Date.parse(start) + STEP_MS[step]).toISOString()

export const stepText = (start: string, step: Step): string =>
  (step === 'hour' ? exactHour : exactDay).format(new Date(start))

export function markText(start: string, step: Step): string {
  const date = new Date(start)
  if (step === 'day') return day.format(date)
  return date.getHours() === 0 ? dayOfHour.format(date) : hour.format(date)
}

/** Positions of the marks, so that at most `max` of them have space. */
export function marksOf(starts: readonly string[], step: Step, max: number): number[] {
  const least = starts.length / Math.max(max, 1)
  const positions = starts.map((_, index) => index)
  if (step === 'day') {
    const every = Math.max(Math.ceil(least), 1)
    return positions.filter((index) => (starts.length - 1 - index) % every === 0)
  }
  const every = HOURS.find((hours) => hours >= least) ?? 24
  return positions.filter((index) => new Date(starts[index] ?? 0).getHours() % every === 0)
}
