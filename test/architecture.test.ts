/**
 * Checks the direction of imports by one table, and limits of files and folders. A part may import only the parts in
 * its row.
 */
import { globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { tierOf } from './setup/tiers.ts'

const ROOT = join(import.meta.dirname, '..')
const SOURCE = join(ROOT, 'src')
const MAX_LINES = 300
const MAX_FILES = 20

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  kernel: [],
  console: [],
  screens: ['console'],
  tenants: ['kernel'],
  'tenancy/satellite.ts': ['kernel', 'tenants'],
  'tenancy/version.ts': [],
  satellites: ['kernel', 'tenants', 'tenancy/satellite.ts'],
  drivers: ['kernel', 'tenants'],
  tenancy: ['kernel', 'tenants', 'tenancy/satellite.ts', 'tenancy/version.ts', 'drivers'],
  http: ['kernel', 'tenants', 'tenancy/satellite.ts', 'tenancy', 'tenancy/version.ts'],
  'index.ts': ['kernel', 'tenants', 'tenancy/satellite.ts', 'drivers', 'tenancy', 'http', 'service'],
  testing: ['kernel', 'tenants', 'tenancy/satellite.ts', 'drivers', 'tenancy', 'http', 'service'],
  service: [
    'kernel',
    'tenants',
    'tenancy/satellite.ts',
    'satellites',
    'drivers',
    'tenancy',
    'http',
    'tenancy/version.ts',
  ],
  cli: ['kernel', 'tenants', 'tenancy/satellite.ts', 'tenancy', 'http', 'service', 'tenancy/version.ts'],
}

/** Packages with access to external systems are imported in one place; all other code uses our port. */
const ONLY_IN: Readonly<Record<string, RegExp>> = {
  pg: /^(kernel\/database\/.*|tenants\/(isolation\/(driver|placement)|handles\/(handle|pg-.*))|drivers\/isolation\/.*|service\/embedded-postgres)\.ts$/,
  'pg-copy-streams': /^drivers\/isolation\/.*\.ts$/,
  'node:sqlite': /^(drivers\/isolation\/sqlite\/.*|service\/data-directory)\.ts$/,
  '@aws-sdk/client-s3': /^drivers\/archives\/s3(-upload|-versions)?\.ts$/,
  'pg-boss': /^drivers\/jobs\/pg-boss\.ts$/,
  ioredis: /^drivers\/store\/redis-(connection|subscriber)\.ts$/,
  stripe: /^satellites\/billing\/stripe\/.*\.ts$/,
  undici: /^kernel\/egress\/.*\.ts$/,
  'openid-client': /^satellites\/sso\/.*\.ts$/,
  'ipaddr.js': /^kernel\/egress\/addresses\.ts$/,
  standardwebhooks: /\.test\.ts$/,
  express: /^http\/hosts\/express\.ts$/,
  fastify: /^http\/hosts\/fastify\.ts$/,
  koa: /^http\/hosts\/koa\.ts$/,
  '@nestjs/common': /^http\/hosts\/nestjs\.ts$/,
  '@nestjs/core': /^http\/hosts\/nestjs\.ts$/,
  hono: /^http\/.*\.ts$/,
  '@hono/node-server': /^http\/hosts\/.*\.ts$/,
  'zod-openapi': /^http\/openapi\.ts$/,
  pino: /^kernel\/base\/logger\.ts$/,
  '@bomb.sh/tab': /^cli\/completion\/completion\.ts$/,
  commander: /^cli\/.*\.ts$/,
  '@clack/prompts': /^cli\/.*\.ts$/,
  picocolors: /^cli\/.*\.ts$/,
  react: /^console\/|\/console\//,
  'react-dom': /^console\/start\//,
  '@base-ui/react': /^console\/components\//,
  '@tanstack/react-query': /^console\/(data|components)\//,
  '@tanstack/react-router': /^console\/routing\//,
  uplot: /^console\/components\/chart\//,
  vite: /^http\/console\/build\.ts$/,
  vitest: /^testing\/.*\.ts$/,
}

/**
 * Imports that only `*.slow.test.ts` and `*.nightly.test.ts` may use: support that starts processes, browsers, proxies
 * or servers, and real waits. Fast tests share the run's PostgreSQL and Redis, receive HTTP in their own process, move
 * a fake clock, and poll with `eventually`. `setup/fast-tier.ts` rejects processes and threads of the code under test.
 */
const NOT_IN_FAST_TESTS: readonly RegExp[] = [
  /^node:(child_process|cluster|worker_threads)$/,
  /^node:timers(\/promises)?$/,
  /^(playwright-core|@sparticuz\/chromium|s3rver)$/,
  /^test\/support\/(browser|child|fault-proxy|proxy|redis-server|redis-cluster|valkey-wasm)\.ts$/,
  /^src\/kernel\/egress\/proxies\.fixture\.ts$/,
  /^src\/service\/(embedded-postgres|data-directory)\.ts$/,
]
/** `eventually` polls. */
const MAY_WAIT = ['src/testing/base/tenancy.ts']

const SCREENS = /^(tenants|satellites\/[^/]+)\/console\//
/** Written by `npm run generate`. */
const GENERATED = ['console/api/operations.ts']

interface Import {
  readonly from: string
  /** Path within src, or name of a package. */
  readonly to: string
  readonly isPackage: boolean
  readonly isTypeOnly: boolean
}

const files = sourcesIn(SOURCE)
const supportFiles = sourcesIn(join(ROOT, 'test', 'support'))

const imports = files.flatMap((file) => importsOf(file, SOURCE))
const ours = imports.filter(({ isPackage }) => !isPackage)

describe('architecture', () => {
  test('every part is in the import table', () => {
    expect([...new Set(files.map(partOf))].filter((part) => !(part in MAY_IMPORT))).toEqual([])
  })

  test('imports follow the import table', () => {
    const wrong = ours.filter(
      ({ from, to }) => partOf(from) !== partOf(to) && !MAY_IMPORT[partOf(from)]?.includes(partOf(to)),
    )
    expect(wrong.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test('a satellite imports only the events of another satellite', () => {
    const satellite = (file: string) => /^satellites\/([^/]+)\//.exec(file)?.[1]
    const wrong = imports
      .filter(({ from, to }) => satellite(from) && satellite(to) && satellite(from) !== satellite(to))
      .filter(({ to }) => !to.endsWith('/events.ts'))
    expect(wrong.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test('console modules import no other module, and only the page loads them', () => {
    const folder = (file: string) => /^(tenants|satellites\/[^/]+)\/console\//.exec(file)?.[0]
    const wrong = ours.filter(({ from, to }) => folder(to) && folder(from) !== folder(to))
    expect(wrong.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test('only service/satellites.ts imports satellites by name', () => {
    const knowing = imports.filter(({ from, to }) => to.startsWith('satellites/') && !from.startsWith('satellites/'))
    expect([...new Set(knowing.map(({ from }) => from))].filter((file) => file !== 'service/satellites.ts')).toEqual([])
  })

  test('imports between files have no cycle, type imports included', () => {
    expect(cycles(ours)).toEqual([])
  })

  test('imports between folders have no cycle', () => {
    const between = ours.map(({ from, to }) => ({ from: dirname(from), to: dirname(to) }))
    expect(cycles(between.filter(({ from, to }) => from !== to))).toEqual([])
  })

  test(`no folder has more than ${MAX_FILES} files without tests`, () => {
    const folders = Map.groupBy([...files, ...supportFiles.map((file) => `test/support/${file}`)], dirname)
    expect([...folders].filter(([, own]) => own.length > MAX_FILES).map(([folder]) => folder)).toEqual([])
  })

  test('packages with access to external systems are imported in one place', () => {
    const wrong = imports.filter(({ from, to, isPackage }) => isPackage && ONLY_IN[to] && !ONLY_IN[to].test(from))
    expect(wrong.map(({ from, to }) => `${from} -> ${to}`)).toEqual([])
  })

  test(`no file has more than ${MAX_LINES} lines`, () => {
    const long = files.filter(
      (file) =>
        !GENERATED.includes(file) && readFileSync(join(SOURCE, file), 'utf8').split('\n').length - 1 > MAX_LINES,
    )
    expect(long).toEqual([])
  })

  test('the satellite settings has at most 500 lines with code', () => {
    const own = files.filter((file) => dirname(file) === 'satellites/settings')
    const lines = own.flatMap((file) => readFileSync(join(SOURCE, file), 'utf8').split('\n'))
    expect(lines.filter((line) => !/^\s*($|\/\/|\/?\*)/.test(line)).length).toBeLessThanOrEqual(500)
  })
})

describe('fast test tier', () => {
  const tests = [...globSync('{src,test}/**/*.test.ts', { cwd: ROOT, exclude: ['**/node_modules'] })].filter(
    (file) => tierOf(file) === 'fast',
  )

  test.each(tests)('%s starts no process, browser, proxy or database server, and has no real wait', (file) => {
    expect(costsOf(file)).toEqual([])
  })
})

/** Forbidden imports and waits of a test, each with the path of imports through its fixtures. */
function costsOf(test: string): string[] {
  const found: string[] = []
  const seen = new Set<string>()
  const visit = (file: string, path: readonly string[]) => {
    if (seen.has(file)) return
    seen.add(file)
    const way = [...path, file]
    const text = readFileSync(join(ROOT, file), 'utf8')
    if (/\bsetTimeout\(|\bAtomics\.wait/.test(text) && !MAY_WAIT.includes(file))
      found.push([...way, 'a wait'].join(' -> '))
    for (const { to, isTypeOnly } of importsOf(file, ROOT)) {
      if (isTypeOnly) continue
      if (NOT_IN_FAST_TESTS.some((pattern) => pattern.test(to)) && !MAY_WAIT.includes(file))
        found.push([...way, to].join(' -> '))
      else if (isTestSupport(to)) visit(to, way)
    }
  }
  visit(test, [])
  return found
}

const isTestSupport = (file: string): boolean => /^(test|src\/testing)\/.*\.ts$|\.fixture\.ts$/.test(file)

/** `screens` are the console modules of tenants and satellites. */
const partOf = (file: string): string => {
  if (SCREENS.test(file)) return 'screens'
  return file in MAY_IMPORT ? file : (file.split('/')[0] ?? file)
}

/** Without tests and fixtures. */
function sourcesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => /\.tsx?$/.test(file) && !/\.(test|fixture)\.ts$/.test(file))
}

/** @param root folder to which the paths of `file` and of its imports are relative. */
function importsOf(file: string, root: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8')
  const statements = text.matchAll(
    /^(?:import|export)\s[^'"]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gm,
  )
  return [...statements].map(([statement, from, bare, dynamic]) => {
    const target = from ?? bare ?? dynamic ?? ''
    const isPackage = !target.startsWith('.')
    const to = isPackage ? packageName(target) : relative(root, join(root, dirname(file), target)).replaceAll('\\', '/')
    return { from: file, to, isPackage, isTypeOnly: isTypeOnly(statement) }
  })
}

/** Whether the statement is `import type …` or imports only types. */
function isTypeOnly(statement: string): boolean {
  if (/^(import|export)\s+type\s/.test(statement)) return true
  const names = /\{([^}]*)\}/.exec(statement)?.[1]
  return names?.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type ')) ?? false
}

function packageName(target: string): string {
  const parts = target.split('/')
  return target.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] ?? target)
}

/** Returns each cycle once, as a path from one of its members back to itself. */
function cycles(edges: readonly Pick<Import, 'from' | 'to'>[]): string[] {
  const next = Map.groupBy(edges, ({ from }) => from)
  const done = new Set<string>()
  const found: string[] = []
  const visit = (one: string, path: readonly string[]) => {
    if (path.includes(one)) found.push([...path.slice(path.indexOf(one)), one].join(' -> '))
    if (path.includes(one) || done.has(one)) return
    for (const to of new Set(next.get(one)?.map((edge) => edge.to))) visit(to, [...path, one])
    done.add(one)
  }
  for (const one of next.keys()) visit(one, [])
  return found
}
