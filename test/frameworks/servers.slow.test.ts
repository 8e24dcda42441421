/** The table of behaviours on servers that are separate programs: Bun, Deno, and applications of frameworks built for production. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { once as runOnce } from '../../src/kernel/base/once.ts'
import { installed, TEST_APP_KEY, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { send } from '../http/served.ts'
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

/** Arguments of Node. The server listens on `HOST` and `PORT`. */
interface BuiltServer {
  readonly build: readonly string[]
  readonly start: readonly string[]
  readonly ready: RegExp
}

const packed = runOnce(() => run(process.execPath, ['build.ts'], { cwd: ROOT }))

/** Builds the application as JavaScript, with the package as it is published, in a folder of its own. */
async function startBuilt(folder: string, { build, start, ready }: BuiltServer): Promise<ServerProgram> {
  await packed()
  const directory = await mkdtemp(join(tmpdir(), `tenantry-${folder}-`))
  directories.push(directory)
  await cp(join(SERVERS, folder), directory, { recursive: true })
  await cp(join(SERVERS, 'tenancy.js'), join(directory, 'tenancy.js'))
  for (const name of ['application', 'fetch-application']) {
    const source = stripTypeScriptTypes(await readFile(join(import.meta.dirname, `${name}.ts`), 'utf8'))
    await writeFile(join(directory, `${name}.js`), source.replaceAll(/'(\.\/[\w-]+)\.ts'/g, `'$1.js'`))
  }
  const packages = join(directory, 'node_modules')
  await mkdir(join(packages, 'tenantry'), { recursive: true })
  await cp(join(ROOT, 'dist'), join(packages, 'tenantry/dist'), { recursive: true })
  await cp(join(ROOT, 'package.json'), join(packages, 'tenantry/package.json'))
  await symlink(join(ROOT, 'node_modules'), join(packages, 'tenantry/node_modules'))
  for (const name of await readdir(join(SERVERS, 'node_modules'))) {
    await symlink(join(SERVERS, 'node_modules', name), join(packages, name))
  }
  const port = String(await freePort())
  const settings = { ...env(), NODE_ENV: 'production', HOST: '127.0.0.1', PORT: port }
  await run(process.execPath, build, { cwd: directory, env: { ...process.env, ...settings } })
  const origin = `http://127.0.0.1:${port}`
  return startServer([process.execPath, ...start], { cwd: directory, env: settings, ready, origin })
}

const program = join(import.meta.dirname, 'program.ts')
const started = (...command: [string, ...string[]]) =>
  startServer([...command, '--conditions=tenantry-source', program], { cwd: ROOT, env: env(), ready: /serving (\S+)/ })

const servers: Readonly<Record<string, () => Promise<ServerProgram>>> = {
  Bun: () => started(bin('bun')),
  Deno: () => started(bin('deno'), 'run', '--allow-all'),
  'Next.js'() {
    const start = [bin('next'), 'start', '--hostname', '127.0.0.1']
    return startBuilt('next', { build: [bin('next'), 'build'], start, ready: /Ready in/ })
  },
  SvelteKit: () => startBuilt('sveltekit', { build: [bin('vite'), 'build'], start: ['build'], ready: /Listening on/ }),
  'React Router': () =>
    startBuilt('react-router', { build: [bin('react-router'), 'build'], start: ['server.js'], ready: /listening/ }),
}

const SOCKETS = ['Bun', 'Deno']
const PAGES = ['SvelteKit', 'React Router']

describe.each(Object.entries(servers))('%s', (name, start) => {
  let server: ServerProgram
  beforeAll(async () => {
    server = await start()
  })
  afterAll(() => server?.stop())

  test.each(behaviours)('%s', async (_name, behaviour) => {
    const { id } = await installed(world.tenancy, { id: `t-${++count}`, name: 'Tenant' })
    await behaviour({ origin: server.origin, tenancy: world.tenancy, tenantId: id })
  })

  if (SOCKETS.includes(name)) {
    test('a WebSocket has the tenant of its upgrade', async () => {
      const { id } = await installed(world.tenancy, { id: `t-${++count}`, name: 'Tenant' })
      const socketOf = (member: string) => {
        const headers = { 'x-tenant-id': id, 'x-member-of': member }
        return new WebSocket(`${server.origin.replace('http', 'ws')}/socket`, { headers })
      }
      const socket = socketOf(id)
      await once(socket, 'open')
      socket.send('hello')
      expect(await once(socket, 'message')).toMatchObject([{ data: `${id} hello` }])
      socket.close()
      await once(socketOf('acme'), 'error')
    })
  }

  if (PAGES.includes(name)) {
    test('a page is rendered as the tenant of its request', async () => {
      const { id } = await installed(world.tenancy, { id: `t-${++count}`, name: 'Tenant' })
      const page = (member: string) =>
        send(server.origin, 'GET /page', { headers: { 'x-tenant-id': id, 'x-member-of': member } })
      expect(await page(id)).toMatchObject({
        status: 200,
        body: expect.stringContaining(`tenant ${id} in the context of ${id}`),
      })
      expect(await page('acme')).toMatchObject({ status: 403, json: { code: 'E_TENANT_ACCESS_DENIED' } })
    })
  }
})
