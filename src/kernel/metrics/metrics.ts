/**
 * Exposes metrics in the text format 0.0.4 of Prometheus: docs/decisions/process-metrics-without-prom-client.md.
 * A scrape prints existing counts only: gauges that need a query are refreshed in the background (base/cached-query.ts).
 */

export type Labels = Readonly<Record<string, string>>

export interface Sample {
  readonly labels?: Labels
  readonly value: number
  /** `_bucket`, `_sum` or `_count` of a histogram. */
  readonly suffix?: string
}

/** One series as a satellite or driver declares it. */
export interface Series {
  readonly name: string
  readonly help: string
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly collect: () => Iterable<Sample> | Promise<Iterable<Sample>>
  /** Age of cached samples. */
  readonly ageSeconds?: () => number | undefined
  /** Ends background work of the series, when the tenancy stops. */
  readonly stop?: () => void
}

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export class Metrics {
  readonly #series = new Map<string, Series>()

  register(...series: readonly Series[]): void {
    for (const one of series) {
      if (this.#series.has(one.name)) throw new Error(`the series ${one.name} is registered twice`)
      this.#series.set(one.name, one)
    }
  }

  get names(): string[] {
    return [...this.#series.keys()]
  }

  /** Series of the ages of cached samples. */
  ages(): Series {
    return {
      name: 'multitenancy_cached_counts_age_seconds',
      help: 'Age of the cached samples of a series; it grows while the query of the series fails',
      type: 'gauge',
      collect: () =>
        [...this.#series.values()].flatMap(({ name, ageSeconds }) => {
          const value = ageSeconds?.()
          return value === undefined ? [] : [{ labels: { series: name }, value }]
        }),
    }
  }

  stop(): void {
    for (const { stop } of this.#series.values()) stop?.()
  }

  async expose(): Promise<string> {
    const texts = await Promise.all([...this.#series.values()].map(printed))
    return `${texts.join('\n')}\n`
  }
}

/** A series whose `collect` fails has no samples; the others are printed. */
async function printed(series: Series): Promise<string> {
  try {
    return print(series, await series.collect())
  } catch {
    return print(series, [])
  }
}

/** A counter per set of labels; it only increases. */
export class Counter {
  readonly #values = new Map<string, { labels: Labels; value: number }>()

  add(labels: Labels, amount = 1): void {
    const key = JSON.stringify(Object.entries(labels).sort())
    const kept = this.#values.get(key)
    if (kept) kept.value += amount
    else this.#values.set(key, { labels, value: amount })
  }

  samples(): Iterable<Sample> {
    return this.#values.values()
  }
}

interface Distribution {
  readonly labels: Labels
  readonly counts: number[]
  sum: number
  count: number
}

/** A histogram per set of labels, in seconds. The label sets must be few: they live as long as the process. */
export class Histogram {
  readonly #bounds: readonly number[]
  readonly #values = new Map<string, Distribution>()

  constructor(bounds: readonly number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]) {
    this.#bounds = bounds
  }

  /** `key` identifies the label set; `labels` is called only for a new key. */
  observe(key: string, labels: () => Labels, value: number): void {
    const distribution = this.#values.get(key) ?? this.begin(key, labels())
    const index = this.#bounds.findIndex((bound) => value <= bound)
    if (index >= 0) distribution.counts[index] = (distribution.counts[index] ?? 0) + 1
    distribution.sum += value
    distribution.count += 1
  }

  /** Adds an empty label set, so that it is exposed before its first value. */
  begin(key: string, labels: Labels): Distribution {
    const distribution = { labels, counts: new Array(this.#bounds.length).fill(0), sum: 0, count: 0 }
    this.#values.set(key, distribution)
    return distribution
  }

  *samples(): Iterable<Sample> {
    for (const { labels, counts, sum, count } of this.#values.values()) {
      let below = 0
      for (const [index, bound] of this.#bounds.entries()) {
        below += counts[index] ?? 0
        yield { suffix: '_bucket', labels: { ...labels, le: String(bound) }, value: below }
      }
      yield { suffix: '_bucket', labels: { ...labels, le: '+Inf' }, value: count }
      yield { suffix: '_sum', labels, value: sum }
      yield { suffix: '_count', labels, value: count }
    }
  }
}

function print({ name, help, type }: Series, samples: Iterable<Sample>): string {
  const lines = [`# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`, `# TYPE ${name} ${type}`]
  for (const { labels = {}, value, suffix = '' } of samples)
    lines.push(`${name}${suffix}${printLabels(labels)} ${printNumber(value)}`)
  return lines.join('\n')
}

function printLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([key, value]) => `${key}="${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`,
  )
  return pairs.length > 0 ? `{${pairs.join(',')}}` : ''
}

function printNumber(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
