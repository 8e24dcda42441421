/** Compiles the type tests (test/types) against the packed package, as an application does that has installed it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const LIMIT_MS = 600_000
const MAX_INSTANTIATIONS = 200_000

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'tenantry-types-'))
  const packages = join(directory, 'node_modules')
  mkdirSync(join(packages, 'tenantry'), { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    symlinkSync(join(ROOT, 'node_modules', name), join(packages, name))
  }
  execFileSync(process.execPath, ['build.ts'], { cwd: ROOT })
  execFileSync('npm', ['pack', '--ignore-scripts', '--pack-destination', directory], { cwd: ROOT, stdio: 'pipe' })
  const [archive = ''] = globSync('*.tgz', { cwd: directory })
  execFileSync('tar', ['xzf', archive, '-C', join(packages, 'tenantry'), '--strip-components=1'], { cwd: directory })
  cpSync(join(ROOT, 'test/types'), directory, { recursive: true })
  cpSync(join(ROOT, 'test/console/types/module.tsx'), join(directory, 'module.tsx'))
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
}, LIMIT_MS)
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Lines of the compiler's output. */
function compiled(files: readonly string[], compilerOptions: object, ...options: string[]): string[] {
  const own = { customConditions: [], typeRoots: ['./node_modules/@types'], ...compilerOptions }
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions: own, files, include: [], exclude: [] }
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify(config))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', '.', '--pretty', 'false', ...options], {
    cwd: directory,
    encoding: 'utf8',
  })
  return stdout.split('\n')
}

test(
  'the type tests compile against the packed package, and its declarations have no error',
  () => {
    const files = globSync('*.ts', { cwd: directory })
    expect(files).toContain('hosts.ts')
    const lines = compiled(files, { skipLibCheck: false })
    const ofOthers = /^\S*node_modules\/(?!tenantry\/)/ // other packages have errors of their own
    expect(lines.filter((line) => line.includes('error TS') && !ofOthers.test(line))).toEqual([])
  },
  LIMIT_MS,
)

test.each([
  ['direct use and guarded requests', ['direct.ts', 'hosts.ts']],
  ['a server of Fastify, whose own types need more than half', ['fastify.ts']],
])(
  `a program with a definition and %s takes less than ${MAX_INSTANTIATIONS} instantiations of types`,
  (_, files) => {
    const lines = compiled(files, { skipLibCheck: true }, '--singleThreaded', '--extendedDiagnostics')
    const [, count] = /^Instantiations:\s+(\d+)$/m.exec(lines.join('\n')) ?? []
    expect(Number(count)).toBeGreaterThan(10_000) // it has compiled
    expect(Number(count)).toBeLessThan(MAX_INSTANTIATIONS)
    expect(lines.filter((line) => line.includes('error TS'))).toEqual([])
  },
  LIMIT_MS,
)

test(
  'a console module of a host compiles against the packed package with the types of React only',
  () => {
    const browser = { lib: ['es2024', 'dom', 'dom.iterable'], jsx: 'react-jsx', types: [], skipLibCheck: false }
    const lines = compiled(['module.tsx'], browser, '--listFiles')
    expect(lines.filter((line) => line.includes('error TS'))).toEqual([])
    const packages = lines.flatMap(
      (line) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules)/.exec(line)?.[1] ?? [],
    )
    const ours = new Set(packages.filter((name) => !name.startsWith('@typescript')))
    expect([...ours].toSorted()).toEqual(['@types/react', 'csstype', 'tenantry'])
  },
  LIMIT_MS,
)
