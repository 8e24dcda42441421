/** Parses the text exposition by its grammar, and checks that alert rules and dashboard use only exposed metrics. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openApi } from './contract/api.ts'

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"'
const NUMBER = '(?:[+-]?(?:\\d+(?:\\.\\d+)?(?:e[+-]?\\d+)?)|[+-]Inf|NaN)'
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)?\\})? (${NUMBER})$`)
const HELP = new RegExp(`^# HELP (${NAME}) ((?:[^\\\\\\n]|\\\\[\\\\n])+)$`)
const TYPE = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`)
const SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
}

interface Family {
  readonly type: string
  readonly samples: { name: string; labels: string; value: number }[]
}

/** Throws at the first line that violates the format. */
function read(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line has no line end')
  const families = new Map<string, Family>()
  let helped: string | undefined
  let current: [string, Family] | undefined
  for (const line of text.slice(0, -1).split('\n')) {
    const help = HELP.exec(line)
    const type = TYPE.exec(line)
    const sample = SAMPLE.exec(line)
    if (help?.[1]) {
      if (families.has(help[1])) throw new Error(`${help[1]} is described twice`)
      helped = help[1]
    } else if (type?.[1] && type[2]) {
      if (type[1] !== helped) throw new Error(`the TYPE of ${type[1]} does not follow its HELP`)
      current = [type[1], { type: type[2], samples: [] }]
      families.set(...current)
    } else if (sample?.[1] && current) {
      const [name, family] = current
      if (!SUFFIXES[family.type]?.some((suffix) => `${name}${suffix}` === sample[1])) {
        throw new Error(`${sample[1]} is among the samples of ${name}`)
      }
      const labels = sample[2] ?? ''
      if (family.samples.some((one) => one.name === sample[1] && one.labels === labels)) {
        throw new Error(`${line} is repeated`)
      }
      family.samples.push({ name: sample[1], labels, value: Number(sample[3]?.replace('Inf', 'Infinity')) })
    } else throw new Error(`the line violates the format: ${line}`)
  }
  return families
}

let api: Awaited<ReturnType<typeof openApi>>
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'))
  await api.call('GET', '/tenants')
})
afterAll(() => api.end())
const scrape = async () => (await api.http.fetch(new Request('http://localhost/metrics'))).text()

test('every line of the exposition has the text format, and histograms add up', async () => {
  const families = read(await scrape())
  expect(families.size).toBeGreaterThan(20)
  for (const [name, { type, samples }] of families) {
    if (type === 'counter') for (const { value } of samples) expect(value, name).toBeGreaterThanOrEqual(0)
    if (type !== 'histogram') continue
    const bare = (labels: string) => labels.replace(/,?le="[^"]*"/, '')
    for (const { labels, value } of samples.filter((one) => one.name === `${name}_count`)) {
      const buckets = samples.filter((one) => one.name === `${name}_bucket` && bare(one.labels) === labels)
      const counts = buckets.map((one) => one.value)
      expect(counts, name).toEqual(counts.toSorted((a, b) => a - b))
      expect(buckets.at(-1)).toMatchObject({ labels: expect.stringContaining('le="+Inf"'), value })
    }
  }
})

test('the parser of this test rejects invalid text', async () => {
  const good = '# HELP a_total A\n# TYPE a_total counter\na_total 1\n'
  expect([...read(good).keys()]).toEqual(['a_total'])
  for (const bad of [
    good.slice(0, -1),
    `${good}${good}`,
    good.replace('# HELP a_total A\n', ''),
    good.replace('a_total 1', 'b_total 1'),
    good.replace('a_total 1', 'a_total{x="1"y="2"} 1'),
    good.replace('a_total 1', 'a_total{x="\\t"} 1'),
    good.replace('a_total 1', 'a_total one'),
    `${good}a_total 2\n`,
  ]) {
    expect(() => read(bad), bad).toThrow()
  }
})

test('alert rules and dashboard use only exposed metrics', async () => {
  const families = read(await scrape())
  const texts = await Promise.all(
    ['docs/prometheus/alerts.yml', 'docs/prometheus/dashboard.json'].map((file) => readFile(file, 'utf8')),
  )
  const asked = new Set(texts.join('\n').match(/\b(?:multitenancy|process|nodejs)_[a-z0-9_]+/g))
  expect(asked.size).toBeGreaterThan(10)
  for (const name of asked) expect([...families.keys()], name).toContain(name.replace(/_(?:bucket|sum|count)$/, ''))
})

test('every alert has a severity, and a runbook in the guide of alerts', async () => {
  const [rules = '', guide = ''] = await Promise.all(
    ['docs/prometheus/alerts.yml', 'docs/alerts.md'].map((file) => readFile(file, 'utf8')),
  )
  const alerts = [...rules.matchAll(/- alert: (\w+)\n([\s\S]*?)(?=\n {6}- |\n {2}- |$)/g)]
  expect(alerts.length).toBeGreaterThan(30)
  for (const [, name = '', rule] of alerts) {
    expect(rule, name).toMatch(/severity: (critical|warning|info) /)
    expect(rule, name).toContain(`runbook_url: docs/alerts.md#${name.toLowerCase()}`)
  }
  const names = alerts.map(([, name]) => name)
  expect([...guide.matchAll(/^### (\w+)$/gm)].map(([, name]) => name)).toEqual(names)
})
