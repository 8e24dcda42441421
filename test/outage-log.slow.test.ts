/** Counts the log lines of a service process while its PostgreSQL is stopped. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Child, type Program, programWith } from '../src/cli/program.fixture.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'

const TOKEN = 'a-token-for-the-outage'
const OUTAGE_MS = 20_000
const API = '/admin/multitenancy'

let root: string
let directory: string
let postgres: EmbeddedPostgres
let command: string[]
let tenantry: Program

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tenantry-outage-'))
  directory = join(root, 'postgres')
  postgres = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  command = commandOf(postgres.pid).split(' ')
  tenantry = programWith({
    DATABASE_URL: postgres.url,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(root, 'data'),
    NODE_ENV: 'production',
    PORT: '0',
  })
})
afterAll(async () => {
  await tenantry?.killAll()
  const left = await startEmbeddedPostgres({ directory, password: 'p', settings: { fsync: 'off' } })
  await left.stop()
  await rm(root, { recursive: true })
})

/** Starts the same server on the same port. */
async function startAgain(): Promise<void> {
  const [program = '', ...args] = command
  const programs = await findPostgresPrograms(directory)
  programs.spawn(program, args, { detached: true, stdio: 'ignore' }).unref()
}

/** Collects the log lines of a process from now on. */
function linesOf({ process: { stderr } }: Child): () => Record<string, any>[] {
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

test('20 s without PostgreSQL have one log line at the start and one at the end', async () => {
  const child = tenantry.start(['serve'], { cwd: root, stdin: '' })
  const [, url = ''] = await child.says(/ready at (http:\S+)"/)
  const get = (path: string) => fetch(`${url}${path}`, { headers: { 'x-admin-token': TOKEN } })
  const created = await fetch(`${url}${API}/tenants`, {
    method: 'POST',
    headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json', prefer: 'wait=20' },
    body: JSON.stringify({ id: 'acme', name: 'Acme' }),
  })
  expect(await created.json()).toMatchObject({ status: 'active' })
  const lines = linesOf(child)

  await stopPostmaster(directory, postgres.pid, () => undefined)
  await sleep(OUTAGE_MS / 2)
  expect((await get(`${API}/tenants/acme`)).status).toBe(503)
  await sleep(OUTAGE_MS / 2)
  await startAgain()
  await eventually(async () => expect((await get(`${API}/tenants/acme`)).status).toBe(200), 20_000)
  await eventually(() =>
    expect(lines().map(({ msg }) => msg)).toContain('the backoffice database can be reached again'),
  )

  const isAccess = ({ msg }: Record<string, any>) => msg === 'request completed'
  expect(lines().filter((line) => !isAccess(line))).toEqual([
    expect.objectContaining({ level: 40, msg: 'the connection to the backoffice database was lost; connecting again' }),
    expect.objectContaining({ level: 30, msg: 'the backoffice database can be reached again' }),
  ])
  expect(lines().filter(isAccess)[0]).toMatchObject({ status: 503, code: 'E_DEPENDENCY_UNAVAILABLE', tenantId: 'acme' })
}, 60_000)
