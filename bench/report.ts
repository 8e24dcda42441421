/** Prints results: a line each on the terminal, two tables in docs/benchmarks.md. */
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem, type } from 'node:os'
import { join } from 'node:path'
import type { Comparison, Report, Result } from './measure.ts'

const FILE = join(import.meta.dirname, '../docs/benchmarks.md')
const START = '<!-- figures -->'
const END = '<!-- /figures -->'

export const printed = (result: Result): string =>
  isComparison(result)
    ? `${verdict(result)} ${result.name}: ${figure(result.ratio)} of ${result.against}${result.goal === undefined ? '' : ` (goal ${figure(result.goal)})`}; ` +
      `${figure(result.ours)} against ${figure(result.reference)} ${result.unit}`
    : `    ${result.name}: ${result.value}${result.goal ? ` (${result.goal})` : ''}`

/** Keeps the rows of earlier runs that were not measured in this one. */
export function write(results: readonly Result[]): void {
  const text = readFileSync(FILE, 'utf8')
  const [before, after] = [text.slice(0, text.indexOf(START)), text.slice(text.indexOf(END) + END.length)]
  const measured = new Set(results.map(({ name }) => name))
  const [kept = [], keptReports = []] = tables(text).map((rows) =>
    rows.filter((row) => !measured.has(row.split(' | ')[0]?.slice(2) ?? '')),
  )
  const comparisons = results.filter(isComparison)
  const reports = results.filter((result): result is Report => !isComparison(result))
  const lines = [
    START,
    '',
    `Machine: ${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()}, Node ${process.versions.node}, PostgreSQL 18 with fsync. Medians of five alternating runs.`,
    '',
    '| work | measured against | ratio | goal | ours | reference | |',
    '|---|---|---|---|---|---|---|',
    ...kept,
    ...comparisons.map(
      (one) =>
        `| ${one.name} | ${one.against} | **${figure(one.ratio)}** | ${one.goal === undefined ? '' : figure(one.goal)} | ${figure(one.ours)} | ${figure(one.reference)} | ${one.unit} |`,
    ),
    '',
    '| reported | figure | goal |',
    '|---|---|---|',
    ...keptReports,
    ...reports.map(({ name, value, goal = '' }) => `| ${name} | ${value} | ${goal} |`),
    '',
    END,
  ]
  writeFileSync(FILE, before + lines.join('\n') + after)
}

/** Rows of each table. */
const tables = (text: string): string[][] =>
  text
    .slice(text.indexOf(START), text.indexOf(END))
    .split(/^\|[-|]+\|$/m)
    .slice(1)
    .map((part) => part.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| reported |')))

const isComparison = (result: Result): result is Comparison => 'ratio' in result

const verdict = ({ ratio, goal }: Comparison): string => (goal === undefined ? '    ' : ratio >= goal ? ' ok ' : 'MISS')

const figure = (value: number): string =>
  value >= 100 ? String(Math.round(value)) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
