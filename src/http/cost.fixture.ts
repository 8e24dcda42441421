/** Bodies that are expensive to parse, and the processor time that work costs: unlike a duration, it does not grow on a busy machine. */
import { expect } from 'vitest'

const MEBIBYTE = 1024 * 1024
/** Odd, for a median. */
const RUNS = 5
/** Multiple of the reference. */
const LIMIT = 2

/** Repeats the unit up to `bytes`, separated by commas. */
function filled(unit: (index: number) => string, [open, close]: readonly [string, string], bytes: number): string {
  const units: string[] = []
  for (let [index, left] = [0, bytes - 2]; ; index++) {
    const next = unit(index)
    left -= next.length + 1
    if (left < 0) return open + units.join(',') + close
    units.push(next)
  }
}
const object = (unit: (index: number) => string, bytes = MEBIBYTE) => filled(unit, ['{', '}'], bytes)
const array = (unit: (index: number) => string) => filled(unit, ['[', ']'], MEBIBYTE)
const string = (unit: string) => `"${unit.repeat(Math.floor((MEBIBYTE - 2) / unit.length))}"`
const shortKey = (index: number) => `"${index.toString(36)}":0`

/** The 20 most expensive bodies of 1 MiB, by name. */
export const EXPENSIVE_BODIES: Readonly<Record<string, string>> = {
  'short keys': object(shortKey),
  'keys that are numbers': object((index) => `"${index * 4096}":0`),
  'keys with escapes': object((index) => `"\\u00${(index % 64) + 32}${index}":0`),
  'the same key': object(() => '"a":0'),
  'keys of a sign-in': object((index) => (index === 0 ? '"token":"x"' : shortKey(index))),
  'objects with a member': array(() => '{"a":0}'),
  'empty objects': array(() => '{}'),
  'empty arrays': array(() => '[]'),
  'short numbers': array(() => '0'),
  'numbers with exponents': array(() => '1e5'),
  'long numbers': array(() => '1234567890.123456'),
  'escaped characters': array(() => '"\\u0041"'),
  'broken escapes': array(() => '"\\u00"'),
  'empty strings': array(() => '""'),
  'one escaped string': string('\\u0041'),
  'one string of backslashes': string('\\\\'),
  'one number': '1'.repeat(MEBIBYTE),
  'open brackets': '['.repeat(MEBIBYTE),
  quotes: '"'.repeat(MEBIBYTE),
  spaces: ' '.repeat(MEBIBYTE),
}

/** The processor time of this thread for `work`, in microseconds: the event loop is blocked for no longer. */
async function costOf(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage()
  await work()
  const { user, system } = process.threadCpuUsage(before)
  return user + system
}

/** What the platform itself needs for the most expensive body. */
const costOfReference = () => costOf(() => JSON.parse(EXPENSIVE_BODIES['short keys'] ?? ''))
const median = (costs: readonly number[]): number => costs.toSorted((a, b) => a - b)[costs.length >> 1] ?? Number.NaN
let reference: number | undefined

/**
 * Fails if `work` costs more than twice the reference. A run within the limit passes. Otherwise the medians decide, of runs of `work`
 * and of the reference in turn: the speed and the load of the machine are the same for both.
 */
export async function expectCheap(name: string, work: () => unknown): Promise<void> {
  reference ??= median(await repeated(costOfReference))
  if ((await costOf(work)) < LIMIT * reference) return
  const pairs = await repeated(async () => ({ cost: await costOf(work), reference: await costOfReference() }))
  const cost = median(pairs.map((pair) => pair.cost))
  expect(cost, `${name}: µs ${JSON.stringify(pairs)}`).toBeLessThan(LIMIT * median(pairs.map((pair) => pair.reference)))
}

async function repeated<T>(measure: () => Promise<T>): Promise<T[]> {
  const measured: T[] = []
  while (measured.length < RUNS) measured.push(await measure())
  return measured
}
