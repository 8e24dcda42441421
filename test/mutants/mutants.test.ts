/** Checks that the mutants apply; `npm run test:mutants` runs them. */
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { MUTANTS } from './all.ts'
import { DRIVERS, driversOf, isSql, type SourceMutant } from './mutant.ts'

const SOURCE = resolve(import.meta.dirname, '../../src')

test('each mutant has a unique name, and replaces a text that occurs exactly once', () => {
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
  const sources = MUTANTS.filter((mutant): mutant is SourceMutant => !isSql(mutant))
  const found = sources.map(({ name, file, replace }) => ({
    name,
    times: readFileSync(resolve(SOURCE, file), 'utf8').split(replace).length - 1,
  }))
  expect(found.filter(({ times }) => times !== 1)).toEqual([])
})

test('the test files that mutants name exist', () => {
  const files = MUTANTS.flatMap((mutant) => (isSql(mutant) ? [] : (mutant.tests ?? [])))
  expect(files.length).toBeGreaterThan(0)
  expect(files.filter((file) => !existsSync(resolve(SOURCE, '..', file)))).toEqual([])
})

test.each(DRIVERS)('%s has at least 25 mutants', (driver) => {
  expect(MUTANTS.filter((mutant) => driversOf(mutant).includes(driver)).length).toBeGreaterThanOrEqual(25)
})
