/**
 * How fast long work goes lately, and how long the rest will take at that pace. Nothing is promised before two looks at it
 * have seen it go on: no pace is better than a wrong one.
 */
import { duration, number } from './format.ts'

export interface PaceSample {
  readonly atMs: number
  /** Whatever the work is counted in, that is done by then. */
  readonly finished: number
}

export interface Pace {
  /** Null while it cannot be told. */
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

/** @param left what is not finished; absent where nobody knows */
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

/** To follow how far the work is: `, 40 a second, about 2 min left`; nothing where nothing is known. */
export function paceText({ perSecond, remainingSeconds }: Pace, amount: (perSecond: number) => string = many): string {
  const pace = perSecond === null ? '' : `, ${amount(perSecond)} a second`
  const left = remainingSeconds === null || remainingSeconds === 0 ? '' : `, about ${duration(remainingSeconds)} left`
  return pace + left
}

const many = (value: number): string => (value < 10 ? value.toFixed(1) : number(value))
