/**
 * Runs four processes of the real program on one database, two API processes and two workers, and kills one of them.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Child, type Program, programWith } from '../src/cli/program.fixture.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { Database } from '../src/kernel/database/database.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { type Child as Host, startChild } from './support/child.ts'

const TOKEN = 'a-token-for-the-fleet'
const TENANTS = 16
/** A killed worker's jobs are released after their heartbeat (15 s), by a check every 10 s. */
const MISSED_WITHIN_MS = 60_000
/** Each installation records its worker, and is slow enough that one worker cannot run all of them. */
const MADE_BY = `-- up
create table made_by as select current_setting('application_name') as worker;
select pg_sleep(0.3);
`

let directory: string
let database: TestDatabase
let onlooker: Database
let program: Program
let apis: readonly string[]
let host: Host

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-fleet-'))
  await mkdir(join(directory, 'migrations'))
  await writeFile(join(directory, 'migrations', '0001_made_by.sql'), MADE_BY)
  await writeFile(join(directory, 'tenantry.config.json'), JSON.stringify({ migrations: './migrations' }))
  database = await createTestDatabase(inject('postgresUrl'))
  onlooker = new Database({ url: database.url, max: 1 }, createLogger({ level: 'silent' }))
  program = programWith({
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_CONFIG: join(directory, 'tenantry.config.json'),
    LOG_LEVEL: 'error',
    PORT: '0',
  })
  // Concurrent starts on an empty database: one process migrates, the others wait.
  const started = await Promise.all([start('api', 'api-1'), start('api', 'api-2')])
  apis = await Promise.all(started.map(async (child) => (await child.says(/Admin API +(\S+)/))[1] ?? ''))
  host = await startChild(new URL('./processes/host.ts', import.meta.url), { url: database.url })
}, 60_000)
afterAll(async () => {
  await host?.kill('SIGTERM')
  await program?.killAll()
  await onlooker.close()
  await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true })
})

/** Starts the program in a role; its connections have its name. */
async function start(role: 'api' | 'worker', name: string): Promise<Child> {
  const url = `${database.url}?application_name=${name}`
  const child = program.start(['serve'], { env: { TENANTRY_ROLE: role, DATABASE_URL: url } })
  await child.says(/Stop with Ctrl-C\./)
  return child
}
async function call(api: number, method: string, path: string, body?: unknown): Promise<any> {
  const headers = { 'x-admin-token': TOKEN, 'content-type': 'application/json' }
  const response = await fetch(`${apis[api]}${path}`, { method, headers, body: JSON.stringify(body) })
  expect(response.status).toBeLessThan(300)
  return response.json()
}
const create = async (count: number): Promise<string[]> => {
  const tenants = await Promise.all(
    Array.from({ length: count }, (_, n) => call(n % 2, 'POST', '/tenants', { name: `Tenant ${n}` })),
  )
  return tenants.map(({ id }) => id)
}
const statuses = async (ids: readonly string[]): Promise<string[]> => {
  const { data } = await call(0, 'GET', '/tenants?limit=200')
  return data.filter(({ id }: { id: string }) => ids.includes(id)).map(({ status }: { status: string }) => status)
}
/** Installations in progress. */
const installationsOf = async (worker: string): Promise<unknown[]> => {
  const { rows } = await onlooker.sql(
    `select pid from pg_stat_activity
     where datname = current_database() and application_name = $1 and wait_event = 'PgSleep'`,
    [worker],
  )
  return rows
}
const makers = async (ids: readonly string[]) => {
  const results: { worker: string }[] = await Promise.all(ids.map((id) => host.request(id)))
  return [...new Set(results.map(({ worker }) => worker))].sort()
}
const allActive = (ids: readonly string[], withinMs?: number) =>
  eventually(async () => expect(await statuses(ids)).toEqual(ids.map(() => 'active')), withinMs)

test('workers share the jobs of all API processes, every process applies a suspension, and a killed worker’s jobs are run', async () => {
  const workers = await Promise.all([start('worker', 'worker-1'), start('worker', 'worker-2')])
  const early = await create(TENANTS)
  await allActive(early, 20_000)
  expect(await makers(early)).toEqual(['worker-1', 'worker-2'])

  const [id = ''] = early
  expect(await host.request(id)).toMatchObject({ status: 200 })
  await call(0, 'PUT', `/tenants/${id}/suspend`)
  expect((await call(1, 'GET', `/tenants/${id}`)).status).toBe('suspended')
  await eventually(async () => expect(await host.request(id)).toEqual({ status: 403, code: 'E_TENANT_SUSPENDED' }))
  await call(1, 'PUT', `/tenants/${id}/activate`)
  await eventually(async () => expect(await host.request(id)).toMatchObject({ status: 200 }))

  const late = await create(TENANTS)
  await eventually(async () => expect(await installationsOf('worker-1')).not.toEqual([]))
  workers[0].process.kill('SIGKILL')
  await workers[0].ended
  expect(await statuses(late)).toContain('provisioning')
  await allActive(late, MISSED_WITHIN_MS)

  workers[1].process.kill('SIGTERM')
  expect((await workers[1].ended).code).toBe(0)
}, 120_000)

test('a worker serves probes and no API', async () => {
  const worker = await start('worker', 'worker-3')
  const [, metrics = ''] = await worker.says(/Metrics +(\S+)\/metrics/)
  expect((await fetch(`${metrics}/readyz`)).status).toBe(200)
  const api = await fetch(`${metrics}/admin/multitenancy/tenants`, { headers: { 'x-admin-token': TOKEN } })
  expect(api.status).toBe(404)
  worker.process.kill('SIGTERM')
  await worker.ended
})
