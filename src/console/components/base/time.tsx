/** A time: relative, with the exact time as its tooltip. */
import { useSyncExternalStore } from 'react'

const TICK_MS = 15_000
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'narrow' })
const exact = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'medium' })
const UNITS: readonly [Intl.RelativeTimeFormatUnit, seconds: number][] = [
  ['year', 31_557_600],
  ['month', 2_629_800],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
]

/** The present time, in steps, so that all times on a page change together. */
const tick = () => Math.floor(Date.now() / TICK_MS) * TICK_MS
const subscribe = (listener: () => void) => {
  const timer = setInterval(listener, TICK_MS)
  return () => clearInterval(timer)
}

export function relativeTime(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1_000
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size)
  return unit ? relative.format(Math.trunc(seconds / unit[1]), unit[0]) : relative.format(0, 'second')
}

export const exactTime = (at: string): string => exact.format(new Date(at))

export function Time({ at }: { at: string | null | undefined }) {
  const now = useSyncExternalStore(subscribe, tick)
  if (!at) return <span className="faint">–</span>
  return (
    <time dateTime={at} title={`${exactTime(at)} (${at})`}>
      {relativeTime(at, Math.max(now, Date.now()))}
    </time>
  )
}

const ISO_TIME = /(\d{4}-\d{2}-\d{2}T[\d:.]+Z)/

/** A text of the service, with its times as the console shows them. */
export const WithTimes = ({ children }: { children: string }) =>
  children.split(ISO_TIME).map((part) => (ISO_TIME.test(part) ? <ExactTime key={part} at={part} /> : part))

export const ExactTime = ({ at }: { at: string | null | undefined }) =>
  at ? (
    <time dateTime={at} title={at}>
      {exactTime(at)}
    </time>
  ) : (
    <span className="faint">–</span>
  )
