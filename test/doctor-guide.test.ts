/** Checks that docs/doctor.md has exactly the findings of the source. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const SOURCES = /(^|\/)(doctor|doctor\/[a-z-]+|[a-z-]*diagnos[ei]s)\.ts$/

/** Literal codes of findings; one expression may contain two. */
function codesIn(text: string): string[] {
  const values = [...text.matchAll(/\bcode:([^\n]*(?:\n\s+[?:][^\n]*)*)/g)].map(([, value = '']) => value)
  return values.flatMap((value) => [...value.matchAll(/'([a-zA-Z]+\.[a-z-]+)'/g)].map(([, code = '']) => code))
}

test('docs/doctor.md has a row for every finding', () => {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    SOURCES.test(file),
  )
  const texts = files.map((file) => readFileSync(join(ROOT, 'src', file), 'utf8'))
  const codes = new Set(texts.flatMap(codesIn))
  expect(texts.filter((text) => /(^|[{,])\s*code: *`/m.test(text))).toEqual([]) // codesIn finds literals only
  const guide = readFileSync(join(ROOT, 'docs/doctor.md'), 'utf8')
  const first = guide.split('\n').flatMap((line) => /^\| (`[a-zA-Z]+\.[^|]+) \|/.exec(line)?.[1] ?? [])
  const written = first.flatMap((cell) => [...cell.matchAll(/`([a-zA-Z]+\.[a-z-]+)`/g)].map(([, code = '']) => code))
  expect(codes.size).toBeGreaterThan(50)
  expect(written.toSorted()).toEqual([...codes].toSorted())
})
