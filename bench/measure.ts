/**
 * Two sides of one comparison, measured in one run: alternating, five times each, their medians as a ratio. Machines are
 * noisy; the ratio is the figure, what is absolute is only reported.
 */

export interface Comparison {
  readonly name: string
  /** What the other side is. */
  readonly against: string
  readonly unit: string
  readonly ours: number
  readonly reference: number
  /** ours / reference, or reference / ours where less is better: above 1 is better than the reference. */
  readonly ratio: number
  /** Absent: reported for information. */
  readonly goal?: number
}

export interface Report {
  readonly name: string
  readonly value: string
  /** Whether it is what it should be, where something was promised. */
  readonly goal?: string
}

export type Result = Comparison | Report

export interface Case {
  readonly name: string
  readonly run: (bench: Bench) => Promise<readonly Result[]>
}

/** What every case is given. */
export interface Bench {
  /** URL of a PostgreSQL server that is there for this run. */
  readonly postgresUrl: string
  /** A smaller, quicker run, to see that everything works. */
  readonly quick: boolean
  say(text: string): void
}

export const RUNS = 5

export function compare(
  runs: number,
  ours: () => Promise<number>,
  reference: () => Promise<number>,
): Promise<{ ours: number; reference: number }> {
  return alternate(runs, { reference, ours })
}

/** Medians of several sides that take turns. */
export async function alternate<Side extends string>(
  runs: number,
  sides: Readonly<Record<Side, () => Promise<number>>>,
): Promise<Record<Side, number>> {
  const contenders = Object.entries(sides).map(([side, measure]) => ({
    side,
    measure: measure as () => Promise<number>,
    measured: [] as number[],
  }))
  for (let run = 0; run < runs; run++) {
    // Who goes first changes, so that a warm cache helps all of them.
    for (const { measure, measured } of run % 2 === 0 ? contenders : contenders.toReversed())
      measured.push(await measure())
  }
  return Object.fromEntries(contenders.map(({ side, measured }) => [side, median(measured)])) as Record<Side, number>
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** Milliseconds that `work` took. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}

/** Of so many calls of `work` in flight at a time, how many end in a second. */
export async function perSecond(inFlight: number, ms: number, work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  let done = 0
  const worker = async () => {
    while (performance.now() - started < ms) {
      await work()
      done++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  return (done / (performance.now() - started)) * 1_000
}
