/**
 * Runs the last release and the present version on one installation: a rolling upgrade and the way back. The release
 * runs as published (`test/releases/<version>/program.tgz`), with present dependencies where it does not bundle them.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest'
import { type Child, PROGRAM, type Program, programWith } from '../src/cli/program.fixture.ts'
import { verifyWebhook } from '../src/satellites/webhooks/verify.ts'
import { EXAMPLE_PLANS } from '../src/service/settings/plans.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { formerRelease, recordedFile } from './releases/recorded.ts'
import { freePort } from './support/free-port.ts'
import { type Receiver, startReceiver } from './support/receiver.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

const MODULES = join(import.meta.dirname, '../node_modules')
const TOKEN = 'a-token-for-the-tests'
const WAIT_TIMEOUT_MS = 30_000

let former: string
let directory: string
let database: TestDatabase
let receiver: Receiver
let tenantry: Program

beforeAll(async () => {
  await mkdir(join(MODULES, '.cache'), { recursive: true })
  former = await mkdtemp(join(MODULES, '.cache', `tenantry-${formerRelease}-`))
  await promisify(execFile)('tar', ['-xzf', recordedFile(formerRelease, 'program.tgz'), '-C', former])
  directory = await mkdtemp(join(tmpdir(), 'tenantry-former-'))
  const egress = { allowHttp: true, allowPrivateNetworks: true }
  const config = { egress, plans: EXAMPLE_PLANS } // 0.2.0 has them by default
  await writeFile(join(directory, 'tenantry.config.json'), JSON.stringify(config))
  receiver = await startReceiver()
})
beforeEach(async () => {
  database = await createTestDatabase(inject('postgresUrl'))
  tenantry = programWith({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: TOKEN,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: join(directory, 'tenantry.config.json'),
  })
  return async () => {
    await tenantry.killAll()
    await database.drop()
  }
})
afterAll(async () => {
  await receiver?.close()
  for (const each of [former, directory]) await rm(each, { recursive: true, force: true })
})

interface Service {
  readonly child: Child
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: any }>
  stop(): Promise<void>
}

/** @param program path of its `main` */
async function serve(program: string): Promise<Service> {
  const port = await freePort()
  const env = { PORT: String(port) }
  const child = tenantry.start([], { env, through: [process.execPath, program, 'serve'] })
  await child.says(/Try: curl/)
  return {
    child,
    async call(method, path, body) {
      const response = await fetch(`http://127.0.0.1:${port}/admin/multitenancy${path}`, {
        method,
        headers: { 'x-admin-token': TOKEN, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, body: await response.json().catch(() => undefined) }
    },
    async stop() {
      child.process.kill('SIGTERM')
      expect(await child.ended).toMatchObject({ code: 0 })
    },
  }
}
const serveFormer = () => serve(join(former, 'dist/cli/main.js'))
const servePresent = () => serve(PROGRAM)

const created = async (by: Service, id: string) => {
  expect((await by.call('POST', '/tenants', { id, name: id })).status).toBe(201)
  await eventually(async () => {
    expect((await by.call('GET', `/tenants/${id}`)).body.status).toBe('active')
  }, WAIT_TIMEOUT_MS)
}
const tenantsOf = async (service: Service): Promise<string[]> =>
  (await service.call('GET', '/tenants')).body.data.map(({ id }: { id: string }) => id).toSorted()
const subscribed = async (by: Service, id: string) => {
  const { body } = await by.call('POST', `/tenants/${id}/webhooks`, {
    url: `${receiver.url}/${id}`,
    events: ['order.*'],
  })
  return body as { webhookId: string; secret: string }
}
const dispatched = async (by: Service, id: string, count: number) => {
  const all = Array.from({ length: count }, (_, n) =>
    by.call('POST', `/tenants/${id}/dispatch`, { event: 'order.paid', payload: { n } }),
  )
  for (const { status } of await Promise.all(all)) expect(status).toBe(202)
}
/** Names of the scheduled jobs. */
async function scheduled(): Promise<string[]> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const { rows } = await client.query('select name from multitenancy_jobs.schedule order by name')
  await client.end()
  return rows.map(({ name }) => name)
}
/** Waits for `count` signed deliveries, each received once. */
const received = (id: string, secret: string, count: number) =>
  eventually(() => {
    const all = receiver.received.filter(({ path }) => path === `/${id}`)
    for (const { body, headers } of all) verifyWebhook(body, headers as Record<string, string>, secret)
    expect(new Set(all.map(({ headers }) => headers['x-delivery-id'])).size).toBe(count)
    expect(all).toHaveLength(count)
  }, WAIT_TIMEOUT_MS)

test('the last release and the present version run in parallel: both serve all changes, and each webhook is sent once', async () => {
  const before = await serveFormer()
  await created(before, 'acme')
  const { secret } = await subscribed(before, 'acme')

  const after = await servePresent() // migrates while the last release serves
  await created(after, 'globex')
  await created(before, 'initech')
  for (const each of [before, after]) expect(await tenantsOf(each)).toEqual(['acme', 'globex', 'initech'])

  await Promise.all([dispatched(before, 'acme', 20), dispatched(after, 'acme', 20)])
  await received('acme', secret, 40)

  expect((await after.call('PUT', '/tenants/acme/suspend', {})).status).toBe(200)
  expect((await before.call('GET', '/tenants/acme')).body.status).toBe('suspended')
  expect((await before.call('PUT', '/tenants/acme/activate', {})).status).toBe(200)
  expect((await after.call('GET', '/tenants/acme')).body.status).toBe('active')
  await before.stop()
  await dispatched(after, 'acme', 5)
  await received('acme', secret, 45)
})

test('the last release runs after the present version, and the present version continues after it', async () => {
  const present = await servePresent()
  await created(present, 'hooli')
  const { webhookId, secret } = await subscribed(present, 'hooli')
  await dispatched(present, 'hooli', 5)
  await received('hooli', secret, 5)
  const schedule = await scheduled()
  expect(schedule.length).toBeGreaterThan(0)
  await present.stop()

  const back = await serveFormer()
  expect((await back.call('GET', '/health')).body.status).toBe('ok')
  await created(back, 'pied-piper')
  await dispatched(back, 'hooli', 5)
  await received('hooli', secret, 10)
  expect((await back.call('PUT', '/tenants/pied-piper/suspend', {})).status).toBe(200)
  await back.stop()

  const again = await servePresent()
  expect((await again.call('GET', '/health')).body.status).toBe('ok')
  expect(await tenantsOf(again)).toEqual(['hooli', 'pied-piper'])
  expect((await again.call('GET', '/tenants/pied-piper')).body.status).toBe('suspended')
  const { body: deliveries } = await again.call('GET', `/tenants/hooli/webhooks/${webhookId}/deliveries`)
  expect(deliveries.data.map(({ state }: { state: string }) => state)).toEqual(Array(10).fill('delivered'))
  expect(await scheduled()).toEqual(schedule)
  expect(await tenantry.run('tenant:audit:verify')).toMatchObject({ code: 0 }) // sealed by both versions
  await again.stop()
})
