/** Compares the figures of "Capacity" in docs/deployment.md with docs/benchmarks.md and docs/operating.md. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** Cores of the machine of the benchmarks. */
const CORES = 2
/** A stated figure is rounded down from the measured one, at most by this share. */
const ROUNDED_BY = 0.4

const guide = (name: string) => readFileSync(join(import.meta.dirname, '../docs', name), 'utf8')
const numberOf = (text = '') => Number(text.replaceAll(',', ''))
const benchmarks = guide('benchmarks.md')

/** The first figure of Tenantry for a benchmark, with its unit. */
function measured(work: string): { figure: number; unit: string } {
  const line = benchmarks.split('\n').find((one) => one.startsWith(`| ${work} |`))
  const [, , , , , ours, , unit = ''] = line?.split('|').map((cell) => cell.trim()) ?? []
  return { figure: Number(ours), unit }
}

const section = guide('deployment.md').split('## Capacity')[1]?.split('\n## ')[0] ?? ''
const rows = [...section.matchAll(/^\| [^|]+ \| ([^|]+) \| ([\d,]+) ([^|]+) \|$/gm)]

test('the machine of the benchmarks has the cores and the memory that the section states', () => {
  expect(benchmarks).toMatch(new RegExp(`^Machine: ${CORES} × .*, 24 GiB, .* with fsync\\.`, 'm'))
  expect(section).toContain(`a machine with ${CORES} cores and 24 GiB`)
})

test('each figure for one core is rounded down from its benchmark', () => {
  expect(rows.length).toBeGreaterThan(10)
  for (const [, work = '', stated, unit] of rows) {
    const { figure, unit: measuredUnit } = measured(work)
    expect(unit, work).toBe(measuredUnit)
    expect(numberOf(stated), work).toBeLessThanOrEqual(figure / CORES)
    expect(numberOf(stated), work).toBeGreaterThanOrEqual((figure / CORES) * (1 - ROUNDED_BY))
  }
})

test('the connections of four processes are the sum of those in docs/operating.md', () => {
  const table = guide('operating.md').split('Database connections of each process:')[1]?.split('\n## ')[0] ?? ''
  const [backoffice = '', tenants = ''] = table.split('\n').filter((line) => /\d/.test(line))
  const sum = (text: string) => [...text.matchAll(/\d+/g)].reduce((total, [digits]) => total + Number(digits), 0)
  const CONNECTIONS_MAX = 10
  expect(section).toContain(`up to ${sum(backoffice)} connections`)
  expect(section).toContain(`one server: ${4 * (sum(backoffice) + sum(tenants) + CONNECTIONS_MAX)}.`)
})
