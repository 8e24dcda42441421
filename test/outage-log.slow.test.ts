/** Counts the log lines of a service process while its PostgreSQL is stopped, is unresponsive, or cannot store data. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Child, type Program, programWith } from '../src/cli/program.fixture.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import { databaseUrl } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { query } from './postgres-15.fixture.ts'
import { signalPostgres } from './support/signal-postgres.ts'
import { createSmallDisk, type SmallDisk } from './support/small-disk.ts'

const TOKEN = 'a-token-for-the-outage'
const OUTAGE_MS = 20_000
/** Between two requests of the traffic. */
const PAUSE_MS = 250
const API = '/admin/multitenancy'

let root: string
let directory: string
let postgres: EmbeddedPostgres
let command: string[]
let disk: SmallDisk
let tenantry: Program
let url: string
let lines: () => Line[]

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tenantry-outage-'))
  directory = join(root, 'postgres')
  postgres = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  command = commandOf(postgres.pid).split(' ')
  disk = await createSmallDisk()
  await sql(`create tablespace small location '${disk.tablespace}'`)
  await sql('create database backoffice tablespace small')
  tenantry = programWith({
    DATABASE_URL: databaseUrl(postgres.url, 'backoffice'),
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(root, 'data'),
    NODE_ENV: 'production',
    PORT: '0',
  })
  const child = tenantry.start(['serve'], { cwd: root, stdin: '' })
  url = (await child.says(/ready at (http:\S+)"/))[1] ?? ''
  lines = linesOf(child)
  const created = await call('POST', `${API}/tenants`, { id: 'acme', name: 'Acme' }, { prefer: 'wait=20' })
  expect(await created.json()).toMatchObject({ status: 'active' })
}, 120_000)
afterAll(async () => {
  await tenantry?.killAll()
  const left = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  await left.stop()
  await disk?.remove()
  await rm(root, { recursive: true })
})

const sql = (text: string) => query(databaseUrl(postgres.url, 'postgres'), text)

const call = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
  fetch(`${url}${path}`, {
    method,
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', ...headers },
    body: body === undefined ? null : JSON.stringify(body),
  })
const read = () => call('GET', `${API}/tenants/acme`)
let writes = 0
/** Each adds an audit entry, so that a full disk rejects some. */
const write = () => call('PATCH', `${API}/tenants/acme`, { name: `Acme ${writes++}` })

/** Starts the same server on the same port. */
async function startAgain(): Promise<void> {
  const [program = '', ...args] = command
  const programs = await findPostgresPrograms(directory)
  programs.spawn(program, args, { detached: true, stdio: 'ignore' }).unref()
}

type Line = Record<string, any>

/** Collects the log lines of a process from now on. */
function linesOf({ process: { stderr } }: Child): () => Line[] {
  let text = ''
  stderr.on('data', (more: string) => {
    text += more
  })
  return () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line))
}

const isAccess = ({ msg }: Line) => msg === 'request completed'
const START = { level: 40, msg: 'the connection to the backoffice database was lost; connecting again' }
const END = { level: 30, msg: 'the backoffice database can be reached again' }
const STORAGE_START = { level: 40, msg: 'the backoffice database cannot store data' }
const STORAGE_END = { level: 30, msg: 'the backoffice database can store data again' }

/**
 * Sends reads and writes during an outage. Returns the lines since its start, without those of requests that succeeded.
 *
 * @param end message of the last line
 */
async function linesDuring(outage: { start(): unknown; stop(): unknown }, end: string) {
  const before = lines().length
  await outage.start()
  const stop = new AbortController()
  const send = async () => {
    while (!stop.signal.aborted) await Promise.all([read(), write(), call('GET', '/readyz'), sleep(PAUSE_MS)])
  }
  const traffic = [send(), send(), send()]
  await sleep(OUTAGE_MS)
  await outage.stop()
  await eventually(
    () =>
      expect(
        lines()
          .slice(before)
          .map(({ msg }) => msg),
      ).toContain(end),
    20_000,
  )
  stop.abort()
  await Promise.all(traffic)
  await eventually(async () => expect((await write()).status).toBe(200), 20_000)
  const all = lines().slice(before)
  const isHealth = ({ check }: Line) => check !== undefined
  return {
    rejected: all.filter((line) => isAccess(line) && line.status === 503 && line.operation !== null),
    health: all.filter(isHealth).map(({ level, msg, check, reason }) => ({ level, msg, check, reason })),
    others: all.filter((line) => !isAccess(line) && !isHealth(line)),
  }
}

test('20 s of a read-only PostgreSQL have one log line at the start and one at the end', async () => {
  const setReadOnly = async (value: 'on' | 'off') => {
    await sql(`alter system set default_transaction_read_only = ${value}`)
    await sql('select pg_reload_conf()')
  }
  const { rejected, others } = await linesDuring(
    { start: () => setReadOnly('on'), stop: () => setReadOnly('off') },
    STORAGE_END.msg,
  )
  expect(others).toEqual([
    expect.objectContaining({ ...STORAGE_START, reason: 'database is read-only' }),
    expect.objectContaining(STORAGE_END),
  ])
  expect(rejected[0]).toMatchObject({ level: 30, code: 'E_DEPENDENCY_UNAVAILABLE', tenantId: 'acme' })
}, 90_000)

test('20 s of a full disk have one log line at the start and one at the end', async () => {
  const { rejected, others } = await linesDuring({ start: () => disk.fill(), stop: () => disk.free() }, STORAGE_END.msg)
  expect(others).toEqual([
    expect.objectContaining({ ...STORAGE_START, reason: 'disk is full' }),
    expect.objectContaining(STORAGE_END),
  ])
  expect(rejected.length).toBeGreaterThan(0)
}, 90_000)

test('20 s of an unresponsive PostgreSQL have one log line at the start and one at the end', async () => {
  const signal = (name: 'SIGSTOP' | 'SIGCONT') => signalPostgres(postgres.pid, name)
  const { rejected, health, others } = await linesDuring(
    { start: () => signal('SIGSTOP'), stop: () => signal('SIGCONT') },
    END.msg,
  )
  expect(others).toEqual([expect.objectContaining(START), expect.objectContaining(END)])
  expect(rejected.map(({ code }) => code)).toContain('E_DEADLINE_EXCEEDED')
  for (const line of rejected) expect(line).not.toHaveProperty('err')
  const failures = health.map((line) => JSON.stringify(line))
  expect(new Set(failures).size).toBe(failures.length)
}, 90_000)

test('20 s without PostgreSQL have one log line at the start and one at the end', async () => {
  const { rejected, others } = await linesDuring(
    { start: () => stopPostmaster(directory, postgres.pid, () => undefined), stop: startAgain },
    END.msg,
  )
  expect(others).toEqual([expect.objectContaining(START), expect.objectContaining(END)])
  expect(rejected[0]).toMatchObject({ level: 30, code: 'E_DEPENDENCY_UNAVAILABLE', tenantId: 'acme' })
}, 90_000)
