/** Checks that docs/security.md lists each tested bypass attempt with its result. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { WAYS } from '../src/drivers/isolation/proof/ways.fixture.ts'

test('docs/security.md lists every tested bypass attempt and its result', () => {
  const guide = readFileSync(new URL('../docs/security.md', import.meta.url), 'utf8')
  const rows = guide.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  for (const { name, verdicts } of WAYS) {
    const [, , ...cells] = rows.find(([, first]) => first === name) ?? []
    expect([name, ...cells.slice(0, 3).map((cell) => cell.split(/[:(,;]/)[0]?.trim())]).toEqual([name, ...verdicts])
  }
})
