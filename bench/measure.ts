/**
 * Measures two sides in one run: alternating, five times each, with the ratio of the medians. The ratio is the result,
 * because absolute values depend on the machine.
 */

export interface Comparison {
  readonly name: string
  /** Name of the reference. */
  readonly against: string
  readonly unit: string
  readonly ours: number
  readonly reference: number
  /** ours / reference, or reference / ours if less is better: a value above 1 is better than the reference. */
  readonly ratio: number
  /** Absent for information only. */
  readonly goal?: number
}

export interface Report {
  readonly name: string
  readonly value: string
  /** Whether the promised value was reached; absent without a promise. */
  readonly goal?: string
}

export type Result = Comparison | Report

export interface Case {
  readonly name: string
  readonly run: (bench: Bench) => Promise<readonly Result[]>
}

/** Input of every case. */
export interface Bench {
  /** URL of a PostgreSQL server that was started for this run. */
  readonly postgresUrl: string
  /** Whether to run shorter, to check that the case works. */
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

/** Medians of alternating sides. */
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
    // The order alternates, so that a warm cache helps all sides.
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

/** Duration of `work` in ms. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await work()
  return performance.now() - started
}

/** Calls of `work` that end per second, with `inFlight` concurrent calls. */
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
