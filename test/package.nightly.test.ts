/** Checks the published package: the build runs without its sources, and its entries match package.json. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseEnv } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { parseSync } from 'rolldown/utils'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { EXAMPLES, environmentOf, read } from './deployment.fixture.ts'
import { freePort } from './support/free-port.ts'

const ROOT = join(import.meta.dirname, '..')
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const node = (...args: string[]) => execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' })

const satellites = readdirSync(join(ROOT, 'src/satellites'))

/** Limits of `npm i tenantry --omit=dev`, as docs/decisions/dependencies.md explains it. Files and folders take whole blocks. */
const MAX_PACKAGES = 31
const MAX_BYTES_ON_DISK = 29_500_000
const BLOCK = 4_096

interface PackedFile {
  readonly path: string
  readonly size: number
}

/** The test kit runs in the host's Vitest. */
const OF_TESTS = /^dist\/testing\/.*: vitest$/

/** Condition under which only the project's own programs read the sources. */
const OWN_CONDITION = /tenantry-source/

describe('the published package', () => {
  beforeAll(() => node('build.ts'), 600_000)

  test('the package passes publint', async () => {
    const { messages } = await publint({ pkgDir: ROOT, strict: true })
    const texts = messages.map((message) => formatMessage(message, PACKAGE) ?? message.code)
    expect(texts.filter((text) => !OWN_CONDITION.test(text))).toEqual([])
  })

  test('the program of the package runs', () => {
    expect(node('dist/cli/main.js', '--version').trim()).toBe(PACKAGE.version)
  })

  test('an import and the help load no experimental module and print no warning', () => {
    const report =
      "process.on('exit', () => console.log(process.moduleLoadList.filter((name) => /sqlite/i.test(name)).join()))"
    for (const entry of ['tenantry', 'tenantry/testing', 'tenantry/node']) {
      expect(node('--input-type=module', '-e', `${report}; await import('${entry}')`).trim()).toBe('')
    }
    const help = node('--import', `data:text/javascript,${encodeURIComponent(report)}`, 'dist/cli/main.js', '--help')
    expect(help).toContain('Usage: tenantry')
    expect(help).not.toContain('NativeModule sqlite')
  })

  test('the package has no source maps, which would need the sources', () => {
    expect(globSync('dist/**/*.map', { cwd: ROOT })).toEqual([])
    expect(readFileSync(join(ROOT, 'dist/index.js'), 'utf8')).not.toContain('sourceMappingURL')
  })

  test(`an installation has at most ${MAX_PACKAGES} packages, with ${MAX_BYTES_ON_DISK / 1e6} MB on disk`, () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const installed = Object.keys(packages).filter((path) => {
      const { dev, devOptional, peer } = packages[path]
      return path !== '' && !(dev || devOptional || peer)
    })
    const patterns = installed.flatMap((path) => [path, `${path}/**/*`])
    const dependencies = new Map<string, number>()
    for (const path of globSync(patterns, { cwd: ROOT })) {
      const entry = statSync(join(ROOT, path))
      dependencies.set(path, entry.isDirectory() ? 0 : entry.size)
    }
    expect(installed.filter((path) => !dependencies.has(path))).toEqual([])
    const files = packedFiles()
    const folders = new Set(files.map(({ path }) => dirname(path)))
    const sizes = [...dependencies.values(), ...files.map(({ size }) => size), ...[...folders].map(() => 0)]
    const bytes = sizes.reduce((sum, size) => sum + Math.max(1, Math.ceil(size / BLOCK)) * BLOCK, 0)
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES_ON_DISK)
    expect(installed.length + 1).toBeLessThanOrEqual(MAX_PACKAGES)
  })

  test('the package has the guides that its README links', () => {
    const links = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/\]\((docs\/[\w/-]+(?:\.md)?)\)/g)]
    const packed = packedFiles().map(({ path }) => path)
    expect(links.length).toBeGreaterThan(30)
    const isPacked = (link: string) => packed.some((path) => path === link || path.startsWith(`${link}/`))
    expect(links.flatMap(([, link = '']) => (isPacked(link) ? [] : [link]))).toEqual([])
  })

  test('each bundled library has its licence and its version in dist/vendor', () => {
    const vendor = join(ROOT, 'dist/vendor')
    const code = globSync('**/*.js', { cwd: vendor }).map((file) => readFileSync(join(vendor, file), 'utf8'))
    const names = code.flatMap((text) =>
      [...text.matchAll(/^\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)/gm)].map(([, name]) => name),
    )
    const licenses = readFileSync(join(vendor, 'LICENSES.txt'), 'utf8')
    const { components } = JSON.parse(readFileSync(join(vendor, 'sbom.cdx.json'), 'utf8'))
    const listed = new Set(components.map(({ name }: { name: string }) => name))
    expect(names.length).toBeGreaterThan(50)
    expect(names.filter((name) => !listed.has(name))).toEqual([])
    for (const { name, version } of components) {
      const folder = join(ROOT, 'node_modules', name)
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      const [license = ''] = readdirSync(folder).filter((file) => /^licen[cs]e/i.test(file))
      expect(version, name).toBe(manifest.version)
      expect(licenses, name).toContain(`${name} ${version} (${manifest.license})`)
      expect(licenses, name).toContain(readFileSync(join(folder, license), 'utf8').trim())
    }
  })

  test('modules and declarations import only dependencies, peers and modules of Node.js', () => {
    const { dependencies, peerDependencies } = PACKAGE
    const known = new Set([PACKAGE.name, ...Object.keys({ ...dependencies, ...peerDependencies })])
    const isKnown = (name: string) => isBuiltin(name) || known.has(name) || known.has(`@types/${name}`)
    const files = globSync(['dist/**/*.js', 'dist/**/*.d.ts'], { cwd: ROOT, exclude: ['dist/console/**'] })
    const unknown = files.flatMap((file) => {
      const packages = specifiersOf(file).filter((specifier) => !specifier.startsWith('.'))
      const names = packages.map((specifier) => /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier)
      return names.filter((name) => !isKnown(name)).map((name) => `${file}: ${name}`)
    })
    expect(files.length).toBeGreaterThan(1_000)
    expect(unknown.filter((one) => !OF_TESTS.test(one))).toEqual([])
  })

  test('the package has the built console, and neither its sources nor the bundler', () => {
    const index = JSON.parse(readFileSync(join(ROOT, 'dist/console/index.json'), 'utf8'))
    for (const file of [index.main, ...Object.values<string>(index.modules), ...Object.values<string>(index.imports)]) {
      expect(existsSync(join(ROOT, 'dist/console', `${file}.br`)), file).toBe(true)
    }
    expect(globSync('dist/**/*.tsx', { cwd: ROOT })).toEqual([])
    expect(globSync('dist/http/console/build.*', { cwd: ROOT })).toEqual([])
    const libraries = [
      'vite',
      'react',
      'react-dom',
      '@base-ui/react',
      '@tanstack/react-query',
      '@tanstack/react-router',
    ]
    expect(libraries.filter((name) => name in PACKAGE.dependencies)).toEqual([])
  })

  test.each([
    ['a command', '--version', true],
    ['a service', 'serve', false],
  ])('%s (%s) uses the compile cache of Node: %s', (_, argument, isUsed) => {
    const directory = mkdtempSync(join(tmpdir(), 'tenantry-package-'))
    try {
      const env = { TMPDIR: directory, TENANTRY_DATA_DIR: directory, PORT: 'invalid' } // a service ends with this port
      spawnSync(process.execPath, ['dist/cli/main.js', argument], { cwd: ROOT, env })
      expect(existsSync(join(directory, 'node-compile-cache'))).toBe(isUsed)
    } finally {
      rmSync(directory, { recursive: true })
    }
  })

  test.each([
    ['tenantry', 'createTenancy'],
    ['tenantry', 'defineTenancy'],
    ['tenantry/satellites', 'builtInSatellites'],
    ...satellites.map((folder) => [`tenantry/satellites/${folder}`, 'default']),
    ['tenantry/express', 'expressHandler'],
    ['tenantry/fastify', 'fastifyHandler'],
    ['tenantry/hono', 'honoHandler'],
    ['tenantry/koa', 'koaHandler'],
    ['tenantry/nestjs', 'TenantryModule'],
    ['tenantry/node', 'nodeHandler'],
    ['tenantry/testing', 'testTenancy'],
    ['tenantry/web', 'guardFetch'],
    ['tenantry/webhooks', 'verifyWebhook'],
  ])('%s exports %s', (entry, name) => {
    expect(node('--input-type=module', '-e', `console.log(typeof (await import('${entry}')).${name})`).trim()).toBe(
      'function',
    )
  })

  test('an import of tenantry/console in Node fails with the reason', () => {
    const program = "import { Table } from 'tenantry/console'; console.log(Table)"
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: ROOT,
      encoding: 'utf8',
    })
    expect(status).toBe(1)
    expect(stderr).toContain('"tenantry/console" exists only in the page of the console.')
  })

  test.each(['systemd unit', 'container of the Kustomize base'] as const)(
    'the command of the %s serves',
    async (kind) => {
      const directory = await mkdtemp(join(tmpdir(), 'tenantry-deployment-'))
      const database = await createTestDatabase(inject('postgresUrl'))
      const { command, environment, config } = await (kind === 'systemd unit' ? unit() : container())
      const [program = '', ...args] = command
      expect(program).toMatch(/^(\/usr\/bin\/)?node$/)
      await mkdir(join(directory, 'node_modules'))
      await symlink(ROOT, join(directory, 'node_modules/tenantry'))
      const port = await freePort()
      const child = spawn(process.execPath, args, {
        cwd: directory,
        env: {
          ...environment,
          DATABASE_URL: database.url,
          TENANTRY_APP_KEY: TEST_APP_KEY,
          TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
          TENANTRY_CONFIG: config,
          TENANTRY_DATA_DIR: join(directory, 'data'),
          PORT: String(port),
        },
        stdio: 'ignore',
      })
      const ended = once(child, 'exit')
      try {
        const status = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).status
        await eventually(async () => expect(await status('/readyz')).toBe(200), 60_000)
        expect(await status('/admin/multitenancy/tenants')).toBe(401)
        child.kill('SIGTERM')
        expect(await ended).toEqual([0, null])
      } finally {
        child.kill('SIGKILL')
        await ended
        await database.drop()
        await rm(directory, { recursive: true })
      }
    },
  )
})

function packedFiles(): PackedFile[] {
  const listed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT })
  const [{ files }] = Object.values<any>(JSON.parse(listed.toString())) as [{ files: PackedFile[] }]
  return files
}

function specifiersOf(file: string): string[] {
  const code = readFileSync(join(ROOT, file), 'utf8')
  const { staticImports, staticExports, dynamicImports } = parseSync(file, code).module
  const exported = staticExports.flatMap(({ entries }) => entries.map(({ moduleRequest }) => moduleRequest))
  const requests = [...staticImports.map(({ moduleRequest }) => moduleRequest), ...exported]
  const called = dynamicImports.map(({ moduleRequest: { start, end } }) => code.slice(start, end))
  const others = [...code.matchAll(file.endsWith('.d.ts') ? /import\("([^"]+)"\)/g : /__require\("([^"]+)"\)/g)]
  const literals = called.flatMap((text) => /^['"](.*)['"]$/.exec(text)?.[1] ?? [])
  return [...requests.flatMap((request) => request?.value ?? []), ...literals, ...others.map(([, name = '']) => name)]
}

interface Command {
  readonly command: readonly string[]
  readonly environment: NodeJS.Dict<string>
  readonly config: string
}

async function unit(): Promise<Command> {
  const [, line = ''] = /^ExecStart=(.*)$/m.exec(await read('tenantry@.service')) ?? []
  return {
    command: line.split(' '),
    environment: await environmentOf('api-1'),
    config: join(EXAMPLES, 'tenantry.config.json'),
  }
}

/** The base sets no command, so the container runs that of the image. */
async function container(): Promise<Command> {
  const [image, deployment] = await Promise.all([read('Dockerfile'), read('kubernetes/api.yaml')])
  expect(deployment).not.toMatch(/^\s+(command|args): (?!\[sleep)/m)
  const listOf = (name: string) => JSON.parse(new RegExp(`^${name} (\\[.*\\])$`, 'm').exec(image)?.[1] ?? '[]')
  const [, ofImage = ''] = /^ENV (.*)$/m.exec(image) ?? []
  const ofContainer = [...deployment.matchAll(/- \{ name: (\w+), value: (\S+) \}/g)].map(
    ([, name, value]) => `${name}=${value}`,
  )
  return {
    command: [...listOf('ENTRYPOINT'), ...listOf('CMD')],
    environment: parseEnv([...ofImage.split(' '), ...ofContainer].join('\n')),
    config: join(EXAMPLES, 'kubernetes/tenantry.config.json'),
  }
}
