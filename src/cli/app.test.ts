/** Tests commands on the definition of a host: `--app`. */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { appPath } from '../service/app-file.ts'
import { createTestDatabase, type TestDatabase, unreachableUrl } from '../testing/base/database.ts'
import { dropWithRoles } from '../testing/base/roles.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { takeApp } from './app-option.ts'
import { inProcess } from './in-process.fixture.ts'

const APP = fileURLToPath(new URL('../../examples/own-satellite/tenancy.ts', import.meta.url))
const PACKAGE = JSON.stringify(pathToFileURL(join(import.meta.dirname, '../index.ts')).href)

let directory: string
let database: TestDatabase
let env: Record<string, string>
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-app-'))
  database = await createTestDatabase(inject('postgresUrl'))
  env = {
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
  }
})
afterAll(async () => {
  await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

const fileWith = async (name: string, text: string): Promise<string> => {
  const path = join(directory, name)
  await writeFile(path, text)
  return path
}

describe('--app', () => {
  test('runs commands of a satellite of the host, with its drivers and migrations', async () => {
    // The driver of the definition serves one tenancy of a process at a time.
    const run = (...argv: string[]) => inProcess(env).start(argv, { isAlone: true, stdin: '' }).ended
    expect(await run('--app', APP, 'tenant:create', 'Acme', '--id', 'acme')).toMatchObject({ code: 0 })
    const text = ['--title', 'Hello', '--body', 'World']
    const published = await run('--app', APP, 'announcements:publish', 'acme', ...text, '--json')
    expect(published).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(published.stdout)).toMatchObject({ tenantId: 'acme', title: 'Hello' })
    const rows = await run(
      'tenant:exec',
      'acme',
      '--sql',
      'select count(*)::int as notes from notes',
      '--json',
      `--config=${APP}`,
    )
    expect(JSON.parse(rows.stdout)).toEqual([{ notes: 0 }])
    const disabled = await run('tenant:flags:list', 'acme', '--app', APP)
    expect(disabled.stderr).toContain('Satellite "featureFlags" is disabled.')
  })

  test('a command without the database of the program exits with 2 and creates none', async () => {
    const { DATABASE_URL: _, ...rest } = env
    const data = join(directory, 'of-no-service')
    const { ended } = inProcess({ ...rest, TENANTRY_DATA_DIR: data }).start(['tenant:list', '--app', APP])
    expect(await ended).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('database.url or DATABASE_URL: required'),
    })
    expect(existsSync(data)).toBe(false)
  })

  test('a command in the environment of a host needs no admin token, ignores PORT, and writes no token', async () => {
    const { TENANTRY_ADMIN_TOKEN: _, ...rest } = env
    const data = join(directory, 'unused')
    const host = {
      ...rest,
      NODE_ENV: 'production',
      PORT: '\\\\.\\pipe\\app',
      LOG_LEVEL: 'verbose',
      TENANTRY_DATA_DIR: data,
    }
    const run = (variables: Record<string, string>, ...argv: string[]) =>
      inProcess(variables).start(argv, { isAlone: true, stdin: '' }).ended
    const app = await fileWith('host.json', JSON.stringify({ isolation: ['schema-pg'], satellites: {} }))
    expect(await run(host, 'tenant:list', '--app', app)).toMatchObject({ code: 0 })
    expect(await run({ ...host, NODE_ENV: '' }, 'tenant:list', '--app', app)).toMatchObject({ code: 0 })
    expect(existsSync(data)).toBe(false)
    const { code, stderr } = await run(host, 'serve', '--app', app)
    expect(code).toBe(2)
    for (const name of ['PORT', 'LOG_LEVEL', 'TENANTRY_ADMIN_TOKEN']) expect(stderr).toContain(name)
  })

  test('help and completion list commands of the host without a connection', async () => {
    const offline = inProcess({ ...env, DATABASE_URL: unreachableUrl(database.url), TENANTRY_APP: APP })
    const help = await offline.run('help')
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toMatch(/^Announcements:\n {2}announcements:publish /m)
    const one = await offline.run('--app', APP, 'help', 'announcements:publish')
    expect(one).toMatchObject({ code: 0, stdout: expect.stringContaining('--title <text>') })
    expect((await offline.run('complete', '--', 'announcements:')).stdout).toMatch(/^announcements:publish\t/m)
    const words = ['complete', '--', '--app', APP, 'announcements:publish', '--ti']
    expect((await inProcess({ ...env }).run(...words)).stdout).toMatch(/^--title\t/m)
  })

  test('a running tenancy as the default export is an error, and is stopped', async () => {
    const path = await fileWith(
      'running.ts',
      `import { createTenancy } from ${PACKAGE}
export default createTenancy({
  database: { url: ${JSON.stringify(database.url)} }, appKey: '${TEST_APP_KEY}', isolation: ['schema-pg'],
})`,
    )
    const ended = await inProcess(env).run('--app', path, 'tenant:list')
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain(`${path}: exports a running tenancy. Export the definition.`)
  })

  test('reports a file without a default export, a missing file, and two files', async () => {
    const path = await fileWith('empty.ts', 'export const nothing = 1')
    const without = await inProcess(env).run('tenant:list', '--app', path)
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining(`${path}: has no default export.`) })
    const missing = await inProcess(env).run('tenant:list', '--app', join(directory, 'absent.ts'))
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('absent.ts: file not found') })
    const two = await inProcess(env).run('--app', path, 'tenant:list', '--config', APP)
    expect(two).toMatchObject({ code: 2, stderr: expect.stringContaining('Give --app or --config once.') })
    const differing = { ...env, TENANTRY_APP: APP, TENANTRY_CONFIG: path }
    expect((await inProcess(differing).run('tenant:list')).stderr).toContain(
      'TENANTRY_APP and TENANTRY_CONFIG name different files: remove one of them',
    )
  })

  test('help without a readable file lists the other commands, and an unknown command reports the file', async () => {
    const path = await fileWith('broken.ts', `throw new Error('no such variable')`)
    const help = await inProcess(env).run('help', '--app', path)
    expect(help).toMatchObject({ code: 0, stderr: expect.stringContaining(`${path}: no such variable`) })
    expect(help.stdout).toContain('tenant:create')
    const unknown = await inProcess(env).run('announcements:publish', 'acme', '--app', path)
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('no such variable') })
    expect(await inProcess(env).run('tenant:list', '--help', '--app', path)).toMatchObject({ code: 0, stderr: '' })
  })
})

test('help and completion with a value that is no satellite list the other satellites, and help reports it', async () => {
  const text = `export default { isolation: ['schema-pg'], satellites: [undefined, { name: 'parcels', summary: '', service: () => ({}),
    commands: [{ name: 'parcels:send', summary: 'Send', run: async () => undefined }] }] }`
  const path = await fileWith('undefined.ts', text)
  const help = await inProcess(env).run('help', '--app', path)
  expect(help).toMatchObject({ code: 0, stderr: expect.stringContaining(`${path}: satellites.0: must be a satellite`) })
  expect(help.stdout).toContain('parcels:send')
  const completed = await inProcess(env).run('complete', '--', '--app', path, 'parcels:')
  expect(completed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^parcels:send\t/m) })
  const command = await inProcess(env).run('parcels:send', '--app', path)
  expect(command).toMatchObject({ code: 2, stderr: expect.stringContaining('satellites.0: must be a satellite') })
})

describe('appPath', () => {
  test('prefers the option, then the variables, then the nearest package.json, then tenantry.config', async () => {
    const inner = join(directory, 'host', 'src', 'jobs')
    await mkdir(inner, { recursive: true })
    await writeFile(join(inner, 'tenantry.config.json'), '{}')
    expect(appPath(inner, undefined, {})).toBe(join(inner, 'tenantry.config.json'))
    const manifest = join(directory, 'host', 'package.json')
    await writeFile(manifest, JSON.stringify({ tenantry: { app: './src/tenancy.ts' } }))
    expect(appPath(inner, undefined, {})).toBe(join(directory, 'host', 'src', 'tenancy.ts'))
    expect(appPath(inner, undefined, { TENANTRY_CONFIG: 'b.ts' })).toBe(join(inner, 'b.ts'))
    expect(appPath(inner, undefined, { TENANTRY_APP: 'a.ts', TENANTRY_CONFIG: 'b.ts' })).toBe(join(inner, 'a.ts'))
    expect(appPath(inner, 'c.ts', { TENANTRY_APP: 'a.ts' })).toBe(join(inner, 'c.ts'))
    await writeFile(join(directory, 'host', 'src', 'package.json'), '{}')
    expect(appPath(inner, undefined, {})).toBe(join(inner, 'tenantry.config.json'))
  })
})

describe('takeApp', () => {
  test.each([
    [['--app', 'a.ts', 'tenant:list'], ['tenant:list'], ['a.ts']],
    [['tenant:list', '--config=a.ts', '--app', 'a.ts'], ['tenant:list'], ['a.ts']],
    [['tenant:list', '--app', 'a.ts', '--config', 'b.ts'], ['tenant:list'], ['a.ts', 'b.ts']],
    [['tenant:list', '--app'], ['tenant:list', '--app'], []],
    [['x', '--', '--app', 'a.ts'], ['x', '--', '--app', 'a.ts'], []],
  ])('divides %j', (given, argv, apps) => {
    expect(takeApp(given)).toEqual({ argv, apps })
  })
})
