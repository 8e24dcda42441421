/** Checks that docs/reference/errors.md has exactly the codes that the source declares, with their statuses. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type ErrorType, NotFound, TenancyError } from '../src/kernel/base/errors.ts'

const ROOT = join(import.meta.dirname, '..')
const SOURCE = join(ROOT, 'src')

interface Declared {
  readonly code: string
  readonly status: number
}

/** @param file path within src */
const declaredIn = (file: string): Declared[] =>
  [...readFileSync(join(SOURCE, file), 'utf8').matchAll(/\bdefineError\(\s*'(\w+)',\s*(\d+)/g)].map(
    ([, code = '', status]) => ({ code, status: Number(status) }),
  )

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(file),
)
const declared = files.flatMap(declaredIn)

// Codes of services have a status; codes of commands only have none.
const page = readFileSync(join(ROOT, 'docs/reference/errors.md'), 'utf8')
const listed = [...page.matchAll(/^\| `(\w+)` \| (?:(\d{3}) \| )?/gm)].map(([, code = '', status]) => ({
  code,
  status: status === undefined ? undefined : Number(status),
}))

test('every declaration of an error has the form that this test parses', () => {
  const calls = files.flatMap((file) => readFileSync(join(SOURCE, file), 'utf8').match(/= defineError\(/g) ?? [])
  expect(declared.length).toBe(calls.length)
  expect(declared.length).toBeGreaterThan(30)
})

test('an error code has the same status in every declaration', () => {
  for (const { code, status } of declared)
    expect(declared.filter((one) => one.code === code && one.status !== status)).toEqual([])
})

test('every declared error code is in the reference, with its status', () => {
  const missing = declared.filter(
    ({ code, status }) => !listed.some((row) => row.code === code && (row.status ?? status) === status),
  )
  expect(missing).toEqual([])
})

test('every error code of the reference is declared, and has one row', () => {
  const codes = listed.map(({ code }) => code)
  expect(codes.filter((code) => !declared.some((one) => one.code === code))).toEqual([])
  expect(codes.filter((code, index) => codes.indexOf(code) !== index)).toEqual([])
})

describe('instanceof', async () => {
  const entries = ['index.ts', ...readdirSync(join(SOURCE, 'satellites')).map((name) => `satellites/${name}/index.ts`)]
  const modules: object[] = await Promise.all(entries.map((entry) => import(join(SOURCE, entry))))
  const exported = modules
    .flatMap((module) => Object.entries(module))
    .filter((entry): entry is [string, ErrorType] => typeof entry[1] === 'function' && 'matches' in entry[1])

  test('instanceof is tested with the errors of the package and of its satellites', () => {
    const names = exported.map(([name]) => name)
    expect(names).toEqual(expect.arrayContaining(['DependencyUnavailableException', 'QuotaExceededException']))
  })

  test.each(exported)('%s recognises its errors', (_, type) => {
    const error: unknown = type('A detail.')
    expect(error instanceof type).toBe(true)
    expect(error instanceof TenancyError).toBe(true)
    expect(error instanceof NotFound).toBe(type.code === NotFound.code)
    for (const other of [new Error('A detail.'), { ...type }, type.code, null, undefined]) {
      expect(other instanceof type).toBe(false)
    }
  })
})
