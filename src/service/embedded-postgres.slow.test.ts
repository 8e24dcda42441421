import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { type EmbeddedPostgres, type EmbeddedPostgresOptions, startEmbeddedPostgres } from './embedded-postgres.ts'
import { isPostmasterOf, readPidFile, stopPostmaster } from './postmaster.ts'

const MODULE = new URL('./embedded-postgres.ts', import.meta.url).href
const PASSWORD = 'a password/with @signs'

vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 })

let home: string
/** A stopped cluster, made once. */
let prepared: string
let parent: string
let directory: string
const owners: ChildProcess[] = []
const bystanders: ChildProcess[] = []
const started: EmbeddedPostgres[] = []

beforeAll(async () => {
  home = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'tenantry-prepared-')))
  prepared = join(home, 'postgres')
  const server = await startEmbeddedPostgres({ directory: prepared, password: PASSWORD })
  await server.stop()
})
afterAll(() => fs.rmSync(home, { recursive: true, force: true, maxRetries: 10 }))

beforeEach(() => {
  // Mode 0700: as root, PostgreSQL's user can enter it only with the capability.
  parent = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'tenantry-postgres-')))
  directory = join(parent, 'data', 'postgres')
})

afterEach(async () => {
  for (const owner of owners.splice(0)) await kill(owner)
  for (const bystander of bystanders.splice(0)) await kill(bystander, bystander.pid)
  for (const server of started.splice(0)) await server.stop()
  const running = readPidFile(directory)
  if (running) await stopPostmaster(directory, running.pid, () => {})
  fs.rmSync(parent, { recursive: true, force: true, maxRetries: 10 })
})

/** The cluster of this test, without `initdb`. */
const copyPrepared = () => fs.cpSync(prepared, directory, { recursive: true })

async function start(options: Partial<EmbeddedPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ directory, password: PASSWORD, ...options })
  started.push(server)
  return server
}

/** Rows of the last statement. */
async function query(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 })
  try {
    await client.connect()
    let rows: Record<string, unknown>[] = []
    for (const sql of statements) rows = (await client.query(sql)).rows
    return rows
  } finally {
    await client.end()
  }
}

/** A process in its own group that runs the code. */
function owner(code: string): ChildProcess {
  const text = `
    import { startEmbeddedPostgres } from ${JSON.stringify(MODULE)}
    import pg from 'pg'
    const start = () => startEmbeddedPostgres(${JSON.stringify({ directory, password: PASSWORD })})
    const say = (value) => console.log(JSON.stringify(value))
    setInterval(() => {}, 1000)
    ${code}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    cwd: new URL('../..', import.meta.url),
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  owners.push(child)
  return child
}

/** The next line of its output. */
async function nextMessage(child: ChildProcess): Promise<any> {
  if (!child.stdout) throw new Error('no output to read')
  const [line] = await once(createInterface(child.stdout), 'line')
  return JSON.parse(line)
}

/** Signals the whole group, as Ctrl-C does. PostgreSQL must not be in it. */
async function kill(child: ChildProcess, target = -(child.pid ?? 0)): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  process.kill(target, 'SIGKILL')
  await ended
}

async function killedOwner(code = ''): Promise<{ url: string; pid: number }> {
  const child = owner(`const server = await start(); ${code}; say(server)`)
  const server = await nextMessage(child)
  await kill(child)
  return server
}

const workingPlaces = () => fs.readdirSync(join(parent, 'data')).filter((name) => name.includes('.new-'))

test('the first start creates a private, local and durable cluster', async () => {
  const logged: string[] = []
  const server = await start({ log: (line) => logged.push(line), settings: { work_mem: '7MB' } })
  expect(server.isAdopted).toBe(false)
  expect(logged).toEqual([`created a PostgreSQL cluster in ${directory}`])
  expect(new URL(server.url)).toMatchObject({ hostname: '127.0.0.1', username: 'tenantry', pathname: '/tenantry' })
  expect(await query(server.url, 'select current_user, current_database(), version()')).toMatchObject([
    { current_user: 'tenantry', current_database: 'tenantry', version: expect.stringMatching(/^PostgreSQL 18\./) },
  ])

  const settings = await query(server.url, 'select name, setting from pg_settings')
  expect(Object.fromEntries(settings.map(({ name, setting }) => [name, setting]))).toMatchObject({
    ...{ fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on' },
    ...{ listen_addresses: '127.0.0.1', unix_socket_directories: '', password_encryption: 'scram-sha-256' },
    ...{ server_encoding: 'UTF8', TimeZone: 'UTC', max_connections: '100', work_mem: '7168' },
  })
  const collation = `select datlocprovider, datlocale, upper('straße ÿ') from pg_database where datname = 'tenantry'`
  expect(await query(server.url, collation)).toMatchObject([
    { datlocprovider: 'b', datlocale: 'C.UTF-8', upper: 'STRAßE Ÿ' },
  ])

  const open = `select datname from pg_database where datallowconn and has_database_privilege('public', oid, 'connect')`
  expect(await query(server.url, open)).toEqual([])

  const stranger = server.url.replace(encodeURIComponent(PASSWORD), 'guess')
  await expect(query(stranger, 'select 1')).rejects.toMatchObject({ code: '28P01' })
  expect(workingPlaces()).toEqual([])
})

test('the server does not run as root, gets no secrets, and finds its extensions', async () => {
  vi.stubEnv('TENANTRY_APP_KEY', 'a key of ours')
  const server = await start().finally(() => vi.unstubAllEnvs())
  expect(fs.statSync(directory)).toMatchObject({ uid: expect.not.toBeOneOf([0]) })
  expect(fs.statSync(directory).mode & 0o777).toBe(0o700)
  const seen = await query(
    server.url,
    `create table seen (line text);
     copy seen from program 'env';
     copy seen from program 'echo uid=$(id -u)';
     create extension pg_trgm`,
    'select line from seen',
  )
  const lines = seen.map(({ line }) => line)
  expect(lines).toContain(`uid=${fs.statSync(directory).uid}`)
  expect(lines).toContain('LC_CTYPE=C')
  expect(lines).not.toContain('TENANTRY_APP_KEY=a key of ours')
})

test('stop ends the server, is idempotent, and the next start finds the data', async () => {
  copyPrepared()
  const first = await start()
  await query(first.url, 'create table kept as select 42 as answer')
  // An open transaction of another client does not delay the stop.
  const idle = new pg.Client({ connectionString: first.url })
  idle.on('error', () => {})
  await idle.connect()
  await idle.query('begin; lock table kept')
  await Promise.all([first.stop(), first.stop()])
  expect(isPostmasterOf(directory, first.pid)).toBe(false)
  expect(readPidFile(directory)).toBeUndefined()

  const second = await start()
  expect(second.isAdopted).toBe(false)
  expect(await query(second.url, 'select answer from kept')).toEqual([{ answer: 42 }])
})

test('after kill -9 of the owner, the next start adopts the server and can stop it', async () => {
  copyPrepared()
  const orphan = await killedOwner(`
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    await client.query('create table kept as select 42 as answer')`)
  expect(isPostmasterOf(directory, orphan.pid)).toBe(true)

  const server = await start()
  expect(server).toMatchObject({ pid: orphan.pid, url: orphan.url, isAdopted: true })
  expect(await query(server.url, 'select answer from kept')).toEqual([{ answer: 42 }])
  await server.stop()
  expect(isPostmasterOf(directory, orphan.pid)).toBe(false)
})

test('an orphaned server with other settings is replaced', async () => {
  copyPrepared()
  const orphan = await killedOwner()
  const server = await start({ settings: { max_connections: '50' } })
  expect(server.isAdopted).toBe(false)
  expect(isPostmasterOf(directory, orphan.pid)).toBe(false)
  expect(await query(server.url, 'show max_connections')).toEqual([{ max_connections: '50' }])
})

test('waits for an orphaned server that is starting or stopping', async () => {
  copyPrepared()
  const starting = owner('await start()')
  await vi.waitFor(() => expect(readPidFile(directory)).toBeDefined(), { timeout: 10_000, interval: 1 })
  await kill(starting)
  const server = await start()
  await query(server.url, 'create table kept as select 42 as answer')

  process.kill(server.pid, 'SIGINT')
  const next = await start()
  expect(next.pid).not.toBe(server.pid)
  expect(await query(next.url, 'select answer from kept')).toEqual([{ answer: 42 }])
})

test('after kill -9 of PostgreSQL, the next start recovers committed data', async () => {
  copyPrepared()
  const first = await start()
  await query(first.url, 'create table kept as select generate_series(1, 1000) as n')
  process.kill(first.pid, 'SIGKILL')
  const second = await start()
  expect(second.pid).not.toBe(first.pid)
  expect(await query(second.url, 'select count(*)::int from kept')).toEqual([{ count: 1000 }])
  await first.stop()
  expect(isPostmasterOf(directory, second.pid)).toBe(true)
})

test.for(['another process', 'no process', 'nothing'])(
  'a stale pid file that names %s does not block a start',
  async (whose) => {
    copyPrepared()
    const first = await start()
    const content = fs.readFileSync(join(directory, 'postmaster.pid'), 'utf8')
    await first.stop()
    // PostgreSQL itself would take any process of its own user for a server.
    const { uid, gid } = fs.statSync(directory)
    const bystander = spawn('sleep', ['60'], process.getuid?.() === 0 ? { uid, gid } : {})
    bystanders.push(bystander)
    const numbers = { 'another process': String(bystander.pid), 'no process': '4194304' }
    const number = numbers[whose as keyof typeof numbers]
    fs.writeFileSync(join(directory, 'postmaster.pid'), number ? content.replace(String(first.pid), number) : '')

    const second = await start()
    expect(second.isAdopted).toBe(false)
    expect(bystander.exitCode ?? bystander.signalCode).toBeNull()
  },
)

test('a copy of the files, with the pid file, runs next to the original', async () => {
  const copied = join(parent, 'data', 'copy')
  copyPrepared()
  fs.cpSync(prepared, copied, { recursive: true })
  const original = await start()
  fs.cpSync(join(directory, 'postmaster.pid'), join(copied, 'postmaster.pid'))

  const copy = await start({ directory: copied })
  expect(copy.isAdopted).toBe(false)
  expect(await query(original.url, 'select 1 as one')).toEqual([{ one: 1 }])
  expect(await query(copy.url, 'select 1 as one')).toEqual([{ one: 1 }])
})

test.for(['with', 'without'])('a first start that is killed %s its initdb leaves no half cluster', async (extent) => {
  const interrupted = owner('await start()')
  await vi.waitFor(
    () => expect(fs.existsSync(join(parent, 'data', workingPlaces()[0] ?? '', 'cluster', 'base'))).toBe(true),
    { timeout: 10_000, interval: 1 },
  )
  await kill(interrupted, extent === 'with' ? undefined : interrupted.pid)
  expect(fs.existsSync(directory)).toBe(false)
  expect(workingPlaces()).toHaveLength(1)

  const server = await start()
  expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
  if (extent === 'with') expect(workingPlaces()).toEqual([])
})

test('reports a password that differs from the one of the cluster, and starts no server', async () => {
  copyPrepared()
  await expect(start({ password: 'other' })).rejects.toThrow(/has another password/)
  expect(readPidFile(directory)).toBeUndefined()

  const orphan = await killedOwner()
  await expect(start({ password: 'other' })).rejects.toThrow(/has another password/)
  expect(isPostmasterOf(directory, orphan.pid)).toBe(true)
})

test('rejects a directory with files of another program', async () => {
  fs.mkdirSync(directory, { recursive: true })
  fs.writeFileSync(join(directory, 'thesis.txt'), 'years of work')
  await expect(start()).rejects.toThrow(/contains files but no PostgreSQL cluster/)
  expect(fs.readdirSync(directory)).toEqual(['thesis.txt'])
})

test("the error contains PostgreSQL's own message about a setting", async () => {
  copyPrepared()
  await expect(start({ settings: { shared_buffers: 'plenty' } })).rejects.toThrow(
    /failed to start: .*invalid value for parameter "shared_buffers"/s,
  )
})

test('starts in a long path with spaces', async () => {
  directory = join(parent, 'a directory with spaces', 'x'.repeat(120), 'postgres')
  const first = await start()
  expect(await query(first.url, 'select 1 as one')).toEqual([{ one: 1 }])
  expect((await start()).isAdopted).toBe(true)
})
