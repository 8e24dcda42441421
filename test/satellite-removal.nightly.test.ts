/**
 * Removes satellites from a copy of the project by deleting their folders and their lines in service/satellites.ts: first one half of them,
 * then the other, because no satellite imports another one (architecture.test.ts). The copy must generate, compile, pass its tests, build its
 * console without a trace of the satellites, and have every other operation. Examples that use them are left out.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { generated } from '../generate.ts'
import { catalogueOf } from '../src/service/catalogue.ts'
import { satellites } from '../src/service/satellites.ts'

const ROOT = join(import.meta.dirname, '..')
const LIST = 'src/service/satellites.ts'
const folders = readdirSync(join(ROOT, 'src/satellites'))
const HALVES = [folders.filter((_, index) => index % 2 === 0), folders.filter((_, index) => index % 2 === 1)]
/**
 * Tests that read or run the whole project, and the contract of each remaining satellite. Other tests depend on no
 * other satellite, which the compiler checks.
 */
const TESTS = [
  ...['test/architecture.test.ts', 'test/generated.test.ts', 'src/tenants/tenant/lifecycle.test.ts'],
  ...['test/contract/', '/coverage.test.ts'],
]
const SOURCES = ['--conditions=tenantry-source']
const run = promisify(execFile)

let copy: string
let files: readonly string[]
/** Files of the copy that differ from the project. */
let changed: readonly string[] = []
beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'tenantry-apart-'))
  const { stdout } = await run('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: ROOT })
  files = stdout.split('\0').filter((file) => file !== '' && existsSync(join(ROOT, file)))
  await restore(files)
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
})
afterEach(async () => {
  await restore(changed)
  await rm(join(copy, 'built'), { recursive: true, force: true }) // a build keeps the files of the former one
})
afterAll(() => rm(copy, { recursive: true, force: true }))

test.each(HALVES.map((half) => [half.join(', '), half] as const))(
  'the project without %s generates, compiles, passes its tests and has the other operations',
  async (_, half) => {
    const programs = await programsWith(half)
    const isIn = (file: string) => half.some((folder) => file.startsWith(`src/satellites/${folder}/`))
    const removed = files.filter((file) => isIn(file) || (programs.has(file) && file.endsWith('.test.ts')))
    changed = [...removed, LIST, ...generated().keys()]
    for (const file of removed) await rm(join(copy, file))
    for (const folder of half) {
      await edit(LIST, (text) => text.replace(new RegExp(`^.*satellites/${folder}/index\\.ts.*\n`, 'm'), ''))
    }

    await inCopy('generate', process.execPath, ['generate.ts'])
    const { exclude } = JSON.parse(await readFile(join(ROOT, 'tsconfig.json'), 'utf8'))
    const configuration = { extends: './tsconfig.json', exclude: [...exclude, ...programs] }
    await writeFile(join(copy, 'tsconfig.apart.json'), JSON.stringify(configuration))
    await inCopy('compile', join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.apart.json'])
    const vitest = join(ROOT, 'node_modules/.bin/vitest')
    await inCopy('test', vitest, ['run', ...TESTS, '--no-isolate', '--maxWorkers', '2'])
    await inCopy('compile the console', join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'src/console'])
    await inCopy('build the console', process.execPath, [...SOURCES, 'src/http/console/build.ts', 'built'])
    expect(await tracesOf(half)).toEqual([])
    await inCopy('start', process.execPath, [...SOURCES, 'src/cli/main.ts', '--help'])

    const gone = half.map(nameOf)
    const left = satellites.filter(({ name }) => !gone.includes(name))
    expect(left).toHaveLength(folders.length - half.length)
    expect(await operationsOf(copy)).toEqual(
      catalogueOf(left)
        .operations.map(({ name }) => name)
        .sort(),
    )
  },
  480_000,
)

/** Operations of the satellites that the built console of the copy names. */
async function tracesOf(half: readonly string[]): Promise<string[]> {
  const built = join(copy, 'built')
  const scripts = readdirSync(built).filter((file) => file.endsWith('.js'))
  const text = (await Promise.all(scripts.map((file) => readFile(join(built, file), 'utf8')))).join('\n')
  const gone = half.map(nameOf)
  const operations = satellites.filter(({ name }) => gone.includes(name)).flatMap(({ operations = [] }) => operations)
  return operations.map(({ name }) => name).filter((name) => new RegExp(`["'\`]${name}["'\`]`).test(text))
}

async function restore(some: readonly string[]): Promise<void> {
  for (const file of some) await cp(join(ROOT, file), join(copy, file))
}

/** Runs a program in the copy; a failure shows its output. */
async function inCopy(what: string, program: string, args: readonly string[]): Promise<void> {
  const env = { ...process.env, TENANTRY_TEST_POSTGRES_URL: inject('postgresUrl') }
  await run(program, args, { cwd: copy, env }).catch(({ stdout, stderr }) =>
    expect.fail(`failed to ${what}:\n${stdout}${stderr}`),
  )
}

async function edit(file: string, change: (text: string) => string): Promise<void> {
  const text = await readFile(join(copy, file), 'utf8')
  expect(change(text)).not.toBe(text)
  await writeFile(join(copy, file), change(text))
}

/** Programs that import one of the satellites, directly or through other programs. */
async function programsWith(half: readonly string[]): Promise<Set<string>> {
  const outside = files.filter((file) => /^(test|examples|bench)\/.*\.ts$/.test(file))
  const imports = new Map(await Promise.all(outside.map(async (file) => [file, await importsOf(file)] as const)))
  const found = new Set<string>()
  const isGone = (name: string) =>
    found.has(name) ||
    half.some((folder) => name.includes(`satellites/${folder}/`) || name.endsWith(`satellites/${folder}`))
  for (let before = -1; before < found.size; ) {
    before = found.size
    for (const [file, names] of imports) if (names.some(isGone)) found.add(file)
  }
  return found
}

/** Imports of a file, as paths from the root of the project: relative ones, and those of the package's exports. */
async function importsOf(file: string): Promise<string[]> {
  const text = await readFile(join(copy, file), 'utf8')
  const exported: Record<string, Record<string, string>> = JSON.parse(
    await readFile(join(copy, 'package.json'), 'utf8'),
  ).exports
  return [...text.matchAll(/(?:from|import\() ?'([^']+)'/g)].map(([, name = '']) => {
    if (name.startsWith('.')) return join(dirname(file), name)
    return exported[name.replace(/^tenantry\//, './')]?.['tenantry-source']?.replace(/^\.\//, '') ?? name
  })
}

async function operationsOf(project: string): Promise<string[]> {
  const { paths } = JSON.parse(await readFile(join(project, 'openapi.json'), 'utf8'))
  return Object.values<any>(paths)
    .flatMap((methods) => Object.values<any>(methods).map(({ operationId }) => operationId))
    .sort()
}

/** Converts `audit-logs` to `auditLogs`. */
const nameOf = (folder: string): string => folder.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
