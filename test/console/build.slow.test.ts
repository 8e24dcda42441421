/** The published build of the console: sizes within the budgets, React once, no code of the server. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Index } from '../../src/http/console/sources.ts'

const PROGRAM = join(import.meta.dirname, '../../src/http/console/build.ts')
const BUILD_LIMIT_MS = 240_000
const KB = 1_000

const folder = mkdtempSync(join(tmpdir(), 'tenantry-console-'))
let index: Index
let files: string[]

beforeAll(() => {
  execFileSync(process.execPath, ['--conditions=tenantry-source', PROGRAM, join(folder, 'built'), '--replace'])
  index = JSON.parse(readFileSync(join(folder, 'built/index.json'), 'utf8'))
  files = readdirSync(join(folder, 'built')).flatMap((file) => /^(.*\.(?:js|css))\.br$/.exec(file)?.[1] ?? [])
}, BUILD_LIMIT_MS)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const contentOf = (file: string): Buffer => brotliDecompressSync(readFileSync(join(folder, 'built', `${file}.br`)))
const textOf = (file: string): string => contentOf(file).toString()
/** With gzip, for clients without Brotli. */
const sizeOf = (file: string): number => gzipSync(contentOf(file), { level: 9 }).length

/** A file with everything that it imports. */
function withImports(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found
  found.add(file)
  for (const [, name = ''] of textOf(file).matchAll(/(?:from|import)\s*["`']\.\/([\w.-]+\.js)["`']/g))
    withImports(name, found)
  return found
}

const sum = (names: Iterable<string>): number => [...names].reduce((size, name) => size + sizeOf(name), 0)

describe('the budgets', () => {
  test('150 kB of scripts before the first screen', () => {
    const list = files.find((file) => file.startsWith('list-') && textOf(file).includes('tenants.list')) ?? ''
    const tenants = index.modules['tenants/console/index.tsx'] ?? ''
    const first = [index.early, index.main, tenants, list].flatMap((file) => [...withImports(file)])
    expect(sum(new Set(first))).toBeLessThan(150 * KB)
  })

  test('10 kB of scripts for a screen or card of a module, without the chunks that others share', () => {
    const views = Object.values(index.modules).flatMap((module) =>
      [...textOf(module).matchAll(/import\(["'`]\.\/([\w.-]+\.js)/g)].map(([, name = '']) => name),
    )
    expect(views.length).toBeGreaterThan(20)
    expect(views.filter((file) => sizeOf(file) >= 10 * KB)).toEqual([])
  })

  test('400 kB in all, 10 kB of styles', () => {
    expect(sum(files.filter((file) => file.endsWith('.js')))).toBeLessThan(400 * KB)
    expect(sum(index.styles)).toBeLessThan(10 * KB)
  })
})

test('uPlot is in one file, which no other file imports before a chart is shown', () => {
  const scripts = files.filter((file) => file.endsWith('.js'))
  const withPlot = scripts.filter((file) => textOf(file).includes('u-cursor-pt'))
  expect(withPlot).toEqual([expect.stringMatching(/^plot-/)])
  expect(scripts.filter((file) => !withPlot.includes(file) && withImports(file).has(withPlot[0] ?? ''))).toEqual([])
})

test('React is in one file, and no code of the server in any', () => {
  const scripts = files.filter((file) => file.endsWith('.js'))
  expect(scripts.filter((file) => textOf(file).includes('react.transitional.element'))).not.toEqual([])
  const withInternals = scripts.filter((file) => textOf(file).includes('react.memo_cache_sentinel'))
  expect(new Set(withInternals).size).toBeLessThanOrEqual(2) // react, and react-dom, which compares its symbols
  expect(scripts.filter((file) => /["'`](node:[a-z]|pg["'`]|kysely|hono|zod)/.test(textOf(file)))).toEqual([])
})

test('the page of the import map finds every name that a module of a host may import', () => {
  expect(Object.keys(index.imports)).toEqual(['react', 'react/jsx-runtime', 'tenantry/console'])
  for (const file of Object.values(index.imports)) expect(textOf(file)).toContain('export')
})

test(
  'a second process that builds the same folder keeps the files of the first',
  () => {
    const target = join(folder, 'cached')
    const build = () => execFileSync(process.execPath, ['--conditions=tenantry-source', PROGRAM, target])
    const read = () => statSync(join(target, 'index.json')).ino
    build()
    const first = read()
    build()
    expect(read()).toBe(first)
    expect(readdirSync(folder).filter((name) => name.startsWith('cached'))).toEqual(['cached'])
  },
  BUILD_LIMIT_MS,
)
