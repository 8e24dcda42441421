/** The ready-made service without settings: the real program in an empty directory, its files, its output, its PostgreSQL. */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, realpath, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Child, type Program, programWith } from '../cli/program.fixture.ts'
import { VERSION } from '../tenancy/version.ts'
import { eventually } from '../testing/base/tenancy.ts'
import { isPostmasterOf, readPidFile, stopPostmaster } from './postmaster.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 })

const PREFIX = '/admin/multitenancy'

let parent: string
let data: string
let tenantry: Program

beforeAll(async () => {
  parent = await realpath(await mkdtemp(join(tmpdir(), 'tenantry-service-')))
  data = join(parent, '.tenantry')
  tenantry = programWith({ PORT: '0', LOG_LEVEL: 'warn' })
})

afterAll(async () => {
  await tenantry?.killAll()
  const left = postmaster()
  if (left) await stopPostmaster(join(data, 'postgres'), left, () => undefined)
  await rm(parent, { recursive: true, force: true, maxRetries: 10 })
})

interface Served {
  readonly child: Child
  readonly url: string
  readonly token: string
  readonly block: string
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>
}

/** Starts it in its working directory, as a user would. */
const start = (argv: string[], env: NodeJS.ProcessEnv = {}): Child =>
  tenantry.start(argv, { cwd: parent, env, stdin: '' })

const run = (...argv: string[]) => start(argv).ended

async function serve(): Promise<Served> {
  const child = start(['serve'])
  const [block] = await child.says(/Tenantry[\s\S]*Stop with Ctrl-C\./)
  const [, url = ''] = block.match(/Admin API +(http:\/\/[^/]+)/) ?? []
  const [, token = ''] = block.match(/Admin token (\S+)/) ?? []
  const call: Served['call'] = (method, path, body, headers = { 'x-admin-token': token }) =>
    fetch(`${url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: body === undefined ? null : JSON.stringify(body),
    })
  return { child, url, token, block, call }
}

/** The pid of the PostgreSQL that runs in the data directory. */
function postmaster(): number | undefined {
  const pid = readPidFile(join(data, 'postgres'))?.pid
  return pid !== undefined && isPostmasterOf(join(data, 'postgres'), pid) ? pid : undefined
}

describe('an installation from its first start', { shuffle: false }, () => {
  let first: Served

  test('the first start creates everything and prints the addresses', async () => {
    first = await serve()
    const { url, token, block } = first
    const known = block
      .replaceAll(url, '<url>')
      .replaceAll(token, '<token>')
      .replace(/code=\S+/, 'code=<code>')
      .replace(VERSION, '<version>')
    expect(known).toMatchInlineSnapshot(`
      "Tenantry <version> is ready

        Console     <url>/admin/multitenancy/console#code=<code>   (signs you in once, within 10 minutes)
        Admin API   <url>/admin/multitenancy
        Probes      <url>/readyz
        Metrics     <url>/metrics
        Admin token <token>   (kept in .tenantry/admin-token)
        Data        .tenantry (embedded PostgreSQL)

      Try: curl -H "x-admin-token: <token>" <url>/admin/multitenancy/tenants
      Stop with Ctrl-C."
    `)
    expect(token).toBe((await readFile(join(data, 'admin-token'), 'utf8')).trim())
    for (const name of ['admin-token', 'app-key', 'postgres-password', 'running.json']) {
      expect(`${name} ${((await stat(join(data, name))).mode & 0o777).toString(8)}`).toBe(`${name} 600`)
    }
    expect(postmaster()).toBeTypeOf('number')
  })

  test('the service is ready, and the token opens the API', async () => {
    const ready = await first.call('GET', '/readyz', undefined, {})
    expect(ready.status).toBe(200)
    expect(await ready.json()).toMatchObject({ status: 'ok', checks: { backoffice: {}, store: {} } })
    expect((await first.call('GET', `${PREFIX}/tenants`, undefined, { 'x-admin-token': 'wrong' })).status).toBe(401)
    const created = await first.call(
      'POST',
      `${PREFIX}/tenants`,
      { id: 'acme', name: 'Acme' },
      {
        'x-admin-token': first.token,
        prefer: 'wait=20',
      },
    )
    expect(await created.json()).toMatchObject({ id: 'acme', status: 'active' })
  })

  test('the printed link signs a browser in once', async () => {
    const [, code] = first.block.match(/#code=(\S+)/) ?? []
    const redeem = () => first.call('POST', `${PREFIX}/session`, { code }, { origin: first.url })
    const signedIn = await redeem()
    expect(signedIn.status).toBeLessThan(300)
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
    expect((await first.call('GET', `${PREFIX}/tenants/acme`, undefined, { cookie })).status).toBe(200)
    expect((await redeem()).status).toBe(401)
  })

  test('commands use the PostgreSQL of the running service and find the service by the directory', async () => {
    const [list, show, status, api] = await Promise.all([
      run('tenant:list', '--json'),
      run('tenant:show', 'unknown'),
      run('status', '--json'),
      run('api', 'GET', '/tenants/acme'),
    ])
    expect(JSON.parse(list.stdout)).toMatchObject({ data: [{ id: 'acme' }] })
    expect(show.code).toBe(3)
    expect(JSON.parse(status.stdout)).toMatchObject({ url: first.url, status: 'ok' })
    expect(JSON.parse(api.stdout)).toMatchObject({ id: 'acme' })
  })

  test('rejects a second start on the same directory with a clear message', async () => {
    const { code, stdout, stderr } = await run('serve')
    expect({ code, stdout }).toEqual({ code: 5, stdout: '' })
    expect(stderr).toMatch(/^error: Another Tenantry runs on .*\(process \d+ at http:\/\/127\.0\.0\.1:\d+\)\. Stop it/)
  })

  test('Ctrl-C ends the service and its PostgreSQL, also when npm forwards the signal twice', async () => {
    const pid = postmaster()
    first.child.process.kill('SIGINT')
    first.child.process.kill('SIGINT')
    expect(await first.child.ended).toMatchObject({ code: 0, stderr: '' })
    expect(isPostmasterOf(join(data, 'postgres'), pid ?? 0)).toBe(false)
    expect(existsSync(join(data, 'running.json'))).toBe(false)
    expect(await run('status')).toMatchObject({ code: 7, stderr: expect.stringContaining('No service is running') })
  })

  test('a restart keeps the token and the tenants', async () => {
    const second = await serve()
    expect(second.token).toBe(first.token)
    expect(await (await second.call('GET', `${PREFIX}/tenants/acme`)).json()).toMatchObject({ status: 'active' })
    second.child.process.kill('SIGKILL')
    expect((await second.child.ended).code).toBe('SIGKILL')
  })

  test('after kill -9 the next start takes over the running PostgreSQL', async () => {
    const orphan = postmaster()
    expect(orphan).toBeTypeOf('number')
    const third = await serve()
    expect(await (await third.call('GET', `${PREFIX}/tenants/acme`)).json()).toMatchObject({ status: 'active' })
    expect(postmaster()).toBe(orphan)
    third.child.process.kill('SIGTERM')
    expect((await third.child.ended).code).toBe(0)
    expect(postmaster()).toBeUndefined()
  })

  test('a command without a service starts PostgreSQL, and another command waits for the directory', async () => {
    const long = start(['tenant:exec', 'acme', '--sql', 'select pg_sleep(300)'])
    await eventually(() => expect(existsSync(join(data, 'running.json'))).toBe(true), 20_000)
    const waiting = start(['tenant:list', '--json'])
    await eventually(() => expect(postmaster()).toBeTypeOf('number'), 20_000)
    const pid = postmaster() ?? 0
    long.process.kill('SIGINT')
    expect((await long.ended).code).toBe(130)
    expect(isPostmasterOf(join(data, 'postgres'), pid)).toBe(false)
    const { code, stdout } = await waiting.ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout).data).toMatchObject([{ id: 'acme' }])
    expect(postmaster()).toBeUndefined()
  })
})
