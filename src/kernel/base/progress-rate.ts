/** Estimates the recent rate of long work and its remaining time. There is no estimate before two measurements have seen progress. */
import { duration, number } from './format.ts'

export interface PaceSample {
  readonly atMs: number
  /** The finished amount, in any unit. */
  readonly finished: number
}

export interface Pace {
  /** Null while it is unknown. */
  readonly perSecond: number | null
  readonly remainingSeconds: number | null
}

const WINDOW_MS = 30_000
/** Looks that are closer than that are one. */
const STEP_MS = 250

/** Samples that still say something about the pace; the newest is last. */
export function recentOf(samples: readonly PaceSample[]): PaceSample[] {
  const now = samples.at(-1)?.atMs ?? 0
  return samples.filter(({ atMs }) => now - atMs <= WINDOW_MS)
}

/** @param left the unfinished amount; absent if it is unknown */
export function paceOf(samples: readonly PaceSample[], left: number | undefined): Pace {
  const recent = recentOf(samples)
  const [first, last] = [recent[0], recent.at(-1)]
  const elapsedSeconds = first && last ? (last.atMs - first.atMs) / 1_000 : 0
  const gained = first && last ? last.finished - first.finished : 0
  const perSecond = elapsedSeconds > 0 && gained > 0 ? gained / elapsedSeconds : null
  if (left === undefined) return { perSecond, remainingSeconds: null }
  return { perSecond, remainingSeconds: left <= 0 ? 0 : perSecond === null ? null : left / perSecond }
}

/** Keeps the samples of one piece of work, and answers its pace at each look. */
export function meter(nowMs: () => number = () => performance.now()): (finished: number, total?: number) => Pace {
  let samples: PaceSample[] = []
  return (finished, total) => {
    const now = { atMs: nowMs(), finished }
    const pace = paceOf([...samples, now], total === undefined ? undefined : total - finished)
    const last = samples.at(-1)
    if (!last || now.atMs - last.atMs >= STEP_MS) samples = recentOf([...samples, now])
    return pace
  }
}

/** Text for a progress message: `, 40 a second, about 2 min left`; empty without a known pace. */
export function paceText({ perSecond, remainingSeconds }: Pace, amount: (perSecond: number) => string = many): string {
  const pace = perSecond === null ? '' : `, ${amount(perSecond)} a second`
  const left = remainingSeconds === null || remainingSeconds === 0 ? '' : `, about ${duration(remainingSeconds)} left`
  return pace + left
}

const many = (value: number): string => (value < 10 ? value.toFixed(1) : number(value))
