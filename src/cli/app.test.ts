/** Tests commands on the definition of a host: `--app`. */
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { appPath } from '../service/app-file.ts'
import { unreachableUrl } from '../testing/base/database.ts'
import { TEST_APP_KEY } from '../testing/base/tenancy.ts'
import { takeApp } from './app-option.ts'
import { inProcess } from './in-process.fixture.ts'
import { useInstallation } from './program-database.fixture.ts'

const APP = fileURLToPath(new URL('../../examples/own-satellite/tenancy.ts', import.meta.url))
const PACKAGE = JSON.stringify(pathToFileURL(join(import.meta.dirname, '../index.ts')).href)

const host = useInstallation('file')

describe('--app', () => {
  test('runs commands of a satellite of the host, with its drivers and migrations', async () => {
    // The driver of the definition serves one tenancy of a process at a time.
    const run = (...argv: string[]) => inProcess(host.env).start(argv, { isAlone: true, stdin: '' }).ended
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
    const { DATABASE_URL: _, ...rest } = host.env
    const data = join(host.directory, 'of-no-service')
    const { ended } = inProcess({ ...rest, TENANTRY_DATA_DIR: data }).start(['tenant:list', '--app', APP])
    expect(await ended).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('database.url or DATABASE_URL: required'),
    })
    expect(existsSync(data)).toBe(false)
  })

  test('a command in the environment of a host needs no admin token, ignores PORT, and writes no token', async () => {
    const { TENANTRY_ADMIN_TOKEN: _, ...rest } = host.env
    const data = join(host.directory, 'unused')
    const variables = {
      ...rest,
      NODE_ENV: 'production',
      PORT: '\\\\.\\pipe\\app',
      LOG_LEVEL: 'verbose',
      TENANTRY_DATA_DIR: data,
    }
    const run = (env: Record<string, string>, ...argv: string[]) =>
      inProcess(env).start(argv, { isAlone: true, stdin: '' }).ended
    const app = await host.fileWith('host.json', { isolation: ['schema-pg'], satellites: {} })
    expect(await run(variables, 'tenant:list', '--app', app)).toMatchObject({ code: 0 })
    expect(await run({ ...variables, NODE_ENV: '' }, 'tenant:list', '--app', app)).toMatchObject({ code: 0 })
    expect(existsSync(data)).toBe(false)
    const { code, stderr } = await run(variables, 'serve', '--app', app)
    expect(code).toBe(2)
    for (const name of ['PORT', 'LOG_LEVEL', 'TENANTRY_ADMIN_TOKEN']) expect(stderr).toContain(name)
  })

  test('help and completion list commands of the host without a connection', async () => {
    const offline = inProcess({ ...host.env, DATABASE_URL: unreachableUrl(host.database.url), TENANTRY_APP: APP })
    const help = await offline.run('help')
    expect(help).toMatchObject({ code: 0, stderr: '' })
    expect(help.stdout).toMatch(/^Announcements:\n {2}announcements:publish /m)
    const one = await offline.run('--app', APP, 'help', 'announcements:publish')
    expect(one).toMatchObject({ code: 0, stdout: expect.stringContaining('--title <text>') })
    expect((await offline.run('complete', '--', 'announcements:')).stdout).toMatch(/^announcements:publish\t/m)
    const words = ['complete', '--', '--app', APP, 'announcements:publish', '--ti']
    expect((await inProcess({ ...host.env }).run(...words)).stdout).toMatch(/^--title\t/m)
  })

  test('a running tenancy as the default export is an error, and is stopped', async () => {
    const path = await host.fileWith(
      'running.ts',
      `import { createTenancy } from ${PACKAGE}
export default createTenancy({
  database: { url: ${JSON.stringify(host.database.url)} }, appKey: '${TEST_APP_KEY}', isolation: ['schema-pg'],
})`,
    )
    const ended = await inProcess(host.env).run('--app', path, 'tenant:list')
    expect(ended).toMatchObject({ code: 2, stdout: '' })
    expect(ended.stderr).toContain(`${path}: exports a running tenancy. Export the definition.`)
  })

  test('reports a file without a default export, a missing file, and two files', async () => {
    const path = await host.fileWith('empty.ts', 'export const nothing = 1')
    const without = await inProcess(host.env).run('tenant:list', '--app', path)
    expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining(`${path}: has no default export.`) })
    const missing = await inProcess(host.env).run('tenant:list', '--app', join(host.directory, 'absent.ts'))
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('absent.ts: file not found') })
    const two = await inProcess(host.env).run('--app', path, 'tenant:list', '--config', APP)
    expect(two).toMatchObject({ code: 2, stderr: expect.stringContaining('Give --app or --config once.') })
    const differing = { ...host.env, TENANTRY_APP: APP, TENANTRY_CONFIG: path }
    expect((await inProcess(differing).run('tenant:list')).stderr).toContain(
      'TENANTRY_APP and TENANTRY_CONFIG name different files: remove one of them',
    )
  })

  test('reads a file that was compiled to CommonJS', async () => {
    const values = "{ isolation: ['schema-pg'], wrongKey: 1 }"
    const path = await host.fileWith('compiled.cjs', `exports.__esModule = true; exports.default = ${values}`)
    const ended = await inProcess(host.env).run('--app', path, 'tenant:list')
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('Unrecognized key: "wrongKey"') })
  })

  test('help without a readable file lists the other commands, and an unknown command reports the file', async () => {
    const path = await host.fileWith('broken.ts', `throw new Error('no such variable')`)
    const help = await inProcess(host.env).run('help', '--app', path)
    expect(help).toMatchObject({ code: 0, stderr: expect.stringContaining(`${path}: no such variable`) })
    expect(help.stdout).toContain('tenant:create')
    const unknown = await inProcess(host.env).run('announcements:publish', 'acme', '--app', path)
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('no such variable') })
    expect(await inProcess(host.env).run('tenant:list', '--help', '--app', path)).toMatchObject({ code: 0, stderr: '' })
  })
})

test('help and completion with a value that is no satellite list the other satellites, and help reports it', async () => {
  const text = `export default { isolation: ['schema-pg'], satellites: [undefined, { name: 'parcels', summary: '', service: () => ({}),
    commands: [{ name: 'parcels:send', summary: 'Send', run: async () => undefined }] }] }`
  const path = await host.fileWith('undefined.ts', text)
  const help = await inProcess(host.env).run('help', '--app', path)
  expect(help).toMatchObject({ code: 0, stderr: expect.stringContaining(`${path}: satellites.0: must be a satellite`) })
  expect(help.stdout).toContain('parcels:send')
  const completed = await inProcess(host.env).run('complete', '--', '--app', path, 'parcels:')
  expect(completed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^parcels:send\t/m) })
  const command = await inProcess(host.env).run('parcels:send', '--app', path)
  expect(command).toMatchObject({ code: 2, stderr: expect.stringContaining('satellites.0: must be a satellite') })
})

describe('appPath', () => {
  test('prefers the option, then the variables, then the nearest package.json, then tenantry.config', async () => {
    const inner = join(host.directory, 'host', 'src', 'jobs')
    await mkdir(inner, { recursive: true })
    await writeFile(join(inner, 'tenantry.config.json'), '{}')
    expect(appPath(inner, undefined, {})).toBe(join(inner, 'tenantry.config.json'))
    const manifest = join(host.directory, 'host', 'package.json')
    await writeFile(manifest, JSON.stringify({ tenantry: { app: './src/tenancy.ts' } }))
    expect(appPath(inner, undefined, {})).toBe(join(host.directory, 'host', 'src', 'tenancy.ts'))
    expect(appPath(inner, undefined, { TENANTRY_CONFIG: 'b.ts' })).toBe(join(inner, 'b.ts'))
    expect(appPath(inner, undefined, { TENANTRY_APP: 'a.ts', TENANTRY_CONFIG: 'b.ts' })).toBe(join(inner, 'a.ts'))
    expect(appPath(inner, 'c.ts', { TENANTRY_APP: 'a.ts' })).toBe(join(inner, 'c.ts'))
    await writeFile(join(host.directory, 'host', 'src', 'package.json'), '{}')
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
