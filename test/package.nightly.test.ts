/** Checks the published package: the build runs without its sources, and its entries match package.json. */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { EXAMPLES, environmentOf, read } from './deployment.fixture.ts'
import { freePort } from './support/free-port.ts'

const ROOT = join(import.meta.dirname, '..')
const PACKAGE = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const node = (...args: string[]) => execFileSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' })

const satellites = readdirSync(join(ROOT, 'src/satellites'))

/** `npm i tenantry --omit=dev`, as docs/decisions/dependencies.md explains it. */
const MAX_INSTALLED_BYTES = 29_500_000

/** Condition under which only the project's own programs read the sources. */
const OWN_CONDITION = /tenantry-source/

describe('the published package', () => {
  beforeAll(() => node('build.ts'), 120_000)

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

  test(`the package with its dependencies has at most ${MAX_INSTALLED_BYTES / 1e6} MB of content`, () => {
    const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
    const installed = Object.keys(packages).filter((path) => {
      const { dev, devOptional, peer } = packages[path]
      return path !== '' && !(dev || devOptional || peer)
    })
    const patterns = installed.map((path) => `${path}/**/*`)
    const files = globSync(patterns, { cwd: ROOT, withFileTypes: true }).filter((entry) => entry.isFile())
    const paths = new Set(files.map(({ parentPath, name }) => join(parentPath, name)))
    const dependencies = [...paths].reduce((bytes, path) => bytes + statSync(path).size, 0)
    const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT })
    const [{ unpackedSize }] = Object.values<any>(JSON.parse(packed.toString())) as [{ unpackedSize: number }]
    expect(dependencies).toBeGreaterThan(unpackedSize) // the dependencies are installed
    expect(dependencies + unpackedSize).toBeLessThanOrEqual(MAX_INSTALLED_BYTES)
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
