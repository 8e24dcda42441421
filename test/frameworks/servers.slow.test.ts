/** The table of behaviours on servers that are programs of their own: Bun, Deno, and Next.js as it is built for production. */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, inject, test, vi } from 'vitest'
import { installed, TEST_APP_KEY, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { freePort } from '../support/free-port.ts'
import { CONFIG } from './application.ts'
import { behaviours } from './behaviours.ts'
import { type ServerProgram, startServer } from './server-program.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 600_000 })

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../..')
const SERVERS = join(import.meta.dirname, 'servers')
const bin = (name: string) => join(SERVERS, 'node_modules/.bin', name)

let world: TestTenancy<typeof CONFIG.satellites>
let count = 0

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), CONFIG)
  for (const id of ['acme', 'asleep']) await installed(world.tenancy, { id, name: id })
  await world.tenancy.tenants.suspend('asleep')
})
afterAll(() => world.end())

const env = () => ({
  DATABASE_URL: world.url,
  TENANTRY_APP_KEY: TEST_APP_KEY,
  LOG_LEVEL: 'silent',
  NEXT_TELEMETRY_DISABLED: '1',
})

const directories: string[] = []
afterAll(() => Promise.all(directories.map((path) => rm(path, { recursive: true, force: true }))))

/** Builds the application as JavaScript, with the package as it is published, in a folder of its own. */
async function startNext(): Promise<ServerProgram> {
  await run(process.execPath, ['build.ts'], { cwd: ROOT })
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-next-'))
  directories.push(directory)
  await cp(join(SERVERS, 'next'), directory, { recursive: true })
  for (const name of ['application', 'fetch-application']) {
    const source = stripTypeScriptTypes(await readFile(join(import.meta.dirname, `${name}.ts`), 'utf8'))
    await writeFile(join(directory, `${name}.js`), source.replaceAll(/'(\.\/[\w-]+)\.ts'/g, `'$1.js'`))
  }
  const packages = join(directory, 'node_modules')
  await mkdir(join(packages, 'tenantry'), { recursive: true })
  await cp(join(ROOT, 'dist'), join(packages, 'tenantry/dist'), { recursive: true })
  await cp(join(ROOT, 'package.json'), join(packages, 'tenantry/package.json'))
  for (const from of [join(SERVERS, 'node_modules'), join(ROOT, 'node_modules')]) {
    for (const name of await readdir(from)) {
      await symlink(join(from, name), join(packages, name)).catch(() => undefined) // in both folders
    }
  }
  await run(process.execPath, [bin('next'), 'build'], { cwd: directory, env: { ...process.env, ...env() } })
  const port = String(await freePort())
  const origin = `http://127.0.0.1:${port}`
  const start = [process.execPath, bin('next'), 'start', '--hostname', '127.0.0.1', '--port', port]
  return startServer(start, { cwd: directory, env: env(), ready: /Ready in/, origin })
}

const program = join(import.meta.dirname, 'program.ts')
const started = (...command: [string, ...string[]]) =>
  startServer([...command, '--conditions=tenantry-source', program], { cwd: ROOT, env: env(), ready: /serving (\S+)/ })

describe.each<[string, () => Promise<ServerProgram>]>([
  ['Bun', () => started(bin('bun'))],
  ['Deno', () => started(bin('deno'), 'run', '--allow-all')],
  ['Next.js', startNext],
])('%s', (_, start) => {
  let server: ServerProgram
  beforeAll(async () => {
    server = await start()
  })
  afterAll(() => server?.stop())

  test.each(behaviours)('%s', async (_name, behaviour) => {
    const { id } = await installed(world.tenancy, { id: `t-${++count}`, name: 'Tenant' })
    await behaviour({ origin: server.origin, tenancy: world.tenancy, tenantId: id })
  })
})
