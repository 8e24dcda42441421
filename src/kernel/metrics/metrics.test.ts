import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Counter, Histogram, type Labels, Metrics, type Sample, type Series } from './metrics.ts'

const series = (samples: Iterable<Sample>, more: Partial<Series> = {}): Series => ({
  name: 'tenantry_things',
  help: 'Things',
  type: 'gauge',
  collect: () => samples,
  ...more,
})

const exposed = (...all: Series[]) => {
  const metrics = new Metrics()
  metrics.register(...all)
  return metrics.expose()
}

interface Parsed {
  readonly help: string
  readonly type: string
  readonly samples: { name: string; labels: Labels; value: number }[]
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const LABEL = String.raw`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"`
const HELP_LINE = new RegExp(String.raw`^# HELP (${NAME}) ((?:[^\\\n]|\\[\\n])*)$`)
const TYPE_LINE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`)
const SAMPLE_LINE = new RegExp(
  String.raw`^(${NAME})(?:\{(${LABEL}(?:,${LABEL})*)\})? (NaN|[+-]Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$`,
)

const unescaped = (text: string) => text.replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped))
const numberOf = (text: string) => Number(text.replace('Inf', 'Infinity'))

/** The text format 0.0.4 as its grammar has it, and stricter: no line that the format would let a reader skip. */
function parse(text: string): Map<string, Parsed> {
  expect(text.endsWith('\n')).toBe(true)
  const all = new Map<string, Parsed>()
  let name = ''
  for (const line of text.slice(0, -1).split('\n')) {
    const [, helpName = '', help = ''] = HELP_LINE.exec(line) ?? []
    const [, typeName, type = ''] = TYPE_LINE.exec(line) ?? []
    const [, sampleName, labelText = ''] = SAMPLE_LINE.exec(line) ?? []
    if (helpName) {
      expect(all.has(helpName), `${helpName} has one HELP`).toBe(false)
      name = helpName
      all.set(name, { help: unescaped(help), type: '', samples: [] })
    } else if (typeName) {
      const parsed = all.get(name)
      expect(parsed).toMatchObject({ type: '', samples: [] })
      expect(typeName).toBe(name)
      all.set(name, { help: parsed?.help ?? '', type, samples: [] })
    } else {
      expect(sampleName, `a sample: ${line}`).toBeDefined()
      expect([name, `${name}_bucket`, `${name}_sum`, `${name}_count`]).toContain(sampleName)
      const pairs = [...labelText.matchAll(new RegExp(LABEL, 'g'))].map(([, key, value = '']) => [
        key,
        unescaped(value),
      ])
      expect(new Set(pairs.map(([key]) => key)).size, 'no label twice').toBe(pairs.length)
      const value = numberOf(line.slice(line.lastIndexOf(' ') + 1))
      all.get(name)?.samples.push({ name: sampleName ?? '', labels: Object.fromEntries(pairs), value })
    }
  }
  return all
}

describe('the exposed text', () => {
  test('has HELP, TYPE and all samples of a series together', async () => {
    const counter = new Counter()
    counter.add({ queue: 'webhooks' }, 2)
    expect(
      await exposed(
        series([{ value: 3 }, { labels: { tenant: 'acme', plan: 'pro' }, value: 0.5 }]),
        series(counter.samples(), { name: 'tenantry_jobs_total', help: 'Jobs', type: 'counter' }),
      ),
    ).toBe(
      [
        '# HELP tenantry_things Things',
        '# TYPE tenantry_things gauge',
        'tenantry_things 3',
        'tenantry_things{tenant="acme",plan="pro"} 0.5',
        '# HELP tenantry_jobs_total Jobs',
        '# TYPE tenantry_jobs_total counter',
        'tenantry_jobs_total{queue="webhooks"} 2',
        '',
      ].join('\n'),
    )
  })

  test('omits the samples of a failed series only', async () => {
    const failing = function* (): Iterable<Sample> {
      yield { value: 1 }
      throw new Error('unavailable')
    }
    const labels = { n: 5 } as unknown as Labels
    expect(
      await exposed(
        series(failing(), { name: 'one' }),
        series([{ value: 1, labels }], { name: 'two' }),
        series([{ value: 3 }], { name: 'three' }),
      ),
    ).toBe(
      ['one', 'two', 'three'].flatMap((name) => [`# HELP ${name} Things`, `# TYPE ${name} gauge`]).join('\n') +
        '\nthree 3\n',
    )
  })

  test('encodes any help, label value and number without loss', async () => {
    const text = fc.string({ unit: fc.oneof(fc.constantFrom('"', '\\', '\n', 'n', ',', '}', '#', ' '), fc.string()) })
    await fc.assert(
      fc.asyncProperty(text, text, fc.double(), async (help, label, value) => {
        const parsed = parse(await exposed(series([{ labels: { label }, value }], { help })))
        expect(parsed.get('tenantry_things')).toEqual({
          help,
          type: 'gauge',
          samples: [{ name: 'tenantry_things', labels: { label }, value: Object.is(value, -0) ? 0 : value }],
        })
      }),
    )
  })

  test('has the order of registration, regardless of the time to collect', async () => {
    const slow = Promise.withResolvers<Sample[]>()
    const text = exposed(
      series([], { name: 'first', collect: () => slow.promise }),
      series([{ value: 1 }], { name: 'second' }),
    )
    slow.resolve([{ value: 2 }])
    expect([...parse(await text).keys()]).toEqual(['first', 'second'])
  })

  test('has HELP and TYPE of a series without samples', async () => {
    expect(parse(await exposed(series([]))).get('tenantry_things')).toMatchObject({ type: 'gauge', samples: [] })
  })
})

test('register rejects a name that is registered', () => {
  const metrics = new Metrics()
  metrics.register(series([]))
  expect(metrics.names).toEqual(['tenantry_things'])
  expect(() => metrics.register(series([]))).toThrow('tenantry_things is registered twice')
})

test('a counter has one value per set of labels, in any order of labels', () => {
  const counter = new Counter()
  counter.add({ tenant: 'acme', event: 'created' })
  counter.add({ tenant: 'globex', event: 'created' })
  counter.add({ event: 'created', tenant: 'acme' }, 4)
  expect([...counter.samples()]).toEqual([
    { labels: { tenant: 'acme', event: 'created' }, value: 5 },
    { labels: { tenant: 'globex', event: 'created' }, value: 1 },
  ])
})

describe('a histogram', () => {
  const bounds = [0.1, 1, 10]
  const parsed = async (histogram: Histogram) =>
    parse(await exposed(series(histogram.samples(), { name: 'seconds', type: 'histogram' }))).get('seconds')?.samples ??
    []

  test('has cumulative buckets with inclusive bounds, then +Inf, sum and count', async () => {
    const histogram = new Histogram(bounds)
    for (const value of [0.05, 0.1, 0.5, 1, 11]) histogram.observe('GET', () => ({ method: 'GET' }), value)
    expect(await parsed(histogram)).toEqual([
      { name: 'seconds_bucket', labels: { method: 'GET', le: '0.1' }, value: 2 },
      { name: 'seconds_bucket', labels: { method: 'GET', le: '1' }, value: 4 },
      { name: 'seconds_bucket', labels: { method: 'GET', le: '10' }, value: 4 },
      { name: 'seconds_bucket', labels: { method: 'GET', le: '+Inf' }, value: 5 },
      { name: 'seconds_sum', labels: { method: 'GET' }, value: 12.65 },
      { name: 'seconds_count', labels: { method: 'GET' }, value: 5 },
    ])
  })

  test('has the counts and the sum of its observations', async () => {
    const observed = fc.array(fc.double({ min: 0, max: 20, noNaN: true }), { minLength: 1 })
    await fc.assert(
      fc.asyncProperty(observed, async (values) => {
        const histogram = new Histogram(bounds)
        for (const value of values) histogram.observe('', () => ({}), value)
        const samples = await parsed(histogram)
        for (const { name, labels, value } of samples) {
          if (name !== 'seconds_bucket') continue
          expect(value).toBe(values.filter((observation) => observation <= numberOf(labels.le ?? '')).length)
        }
        expect(samples.at(-1)).toEqual({ name: 'seconds_count', labels: {}, value: values.length })
        expect(samples.at(-2)?.value).toBeCloseTo(values.reduce((sum, value) => sum + value, 0))
      }),
    )
  })

  test('calls `labels` once for each key', () => {
    const histogram = new Histogram()
    let asked = 0
    for (const key of ['a', 'b', 'a', 'b', 'a']) {
      histogram.observe(
        key,
        () => {
          asked += 1
          return { key }
        },
        1,
      )
    }
    expect(asked).toBe(2)
  })
})
