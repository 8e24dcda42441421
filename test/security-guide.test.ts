/** docs/security.md tells what becomes of each way out of a scope as the tests of the drivers prove it. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { WAYS } from '../src/drivers/isolation/proof/ways.fixture.ts'

test('the guide has these ways, and what becomes of each', () => {
  const guide = readFileSync(new URL('../docs/security.md', import.meta.url), 'utf8')
  const rows = guide.split('\n').map((line) => line.split('|').map((cell) => cell.trim()))
  for (const { name, verdicts } of WAYS) {
    const [, , ...cells] = rows.find(([, first]) => first === name) ?? []
    expect([name, ...cells.slice(0, 3).map((cell) => cell.split(/[:(,;]/)[0]?.trim())]).toEqual([name, ...verdicts])
  }
})
