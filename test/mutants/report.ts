/** Writes the list of mutants between two marks of a document. */
import { readFileSync, writeFileSync } from 'node:fs'
import { DRIVERS, driversOf, type Mutant } from './mutant.ts'
import type { Outcome } from './proof.ts'

const BEGIN = '<!-- mutants: written by npm run test:mutants -- --write -->'
const END = '<!-- end of mutants -->'

export function writeList(file: string, mutants: readonly Mutant[], outcomes: readonly Outcome[]): void {
  const page = readFileSync(file, 'utf8')
  const [before, after] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (before < 0 || after < before) throw new Error(`${file} lacks the marks around the list of mutants`)
  const list = `${BEGIN}\n\n${scores(mutants, outcomes)}\n\n${table(mutants, outcomes)}\n\n`
  writeFileSync(file, page.slice(0, before) + list + page.slice(after))
}

function scores(mutants: readonly Mutant[], outcomes: readonly Outcome[]): string {
  const rows = DRIVERS.map((driver) => {
    const all = mutants.filter((mutant) => driversOf(mutant).includes(driver))
    const killed = all.filter((mutant) => {
      const own = outcomes.filter(
        (one) => one.mutant === mutant && (one.kind === undefined || one.kind.startsWith(driver)),
      )
      return own.length > 0 && own.every(({ verdict }) => verdict === 'killed')
    })
    return `| ${driver} | ${all.length} | ${killed.length} |`
  })
  return ['| driver | mutants | killed |', '| --- | --- | --- |', ...rows].join('\n')
}

function table(mutants: readonly Mutant[], outcomes: readonly Outcome[]): string {
  const rows = mutants.map((mutant) => {
    const own = outcomes.filter((one) => one.mutant === mutant)
    const verdicts = [...new Set(own.map(({ verdict, by }) => (verdict === 'killed' ? by : `**${verdict}**`)))]
    return `| ${cell(mutant.name)} | ${cell(mutant.story)} | ${cell(verdicts[0] ?? 'not run')} |`
  })
  return ['| mutant | what it would do | noticed by |', '| --- | --- | --- |', ...rows].join('\n')
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
