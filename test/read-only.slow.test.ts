/** Drill: the PostgreSQL server of a running service becomes read-only, as hosted servers do on a full disk. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../src/testing/base/tenancy.ts'
import {
  type Drill,
  problemOf,
  REJECTED_WRITE,
  type Server,
  startDrill,
  startServer,
  tenantsIn,
} from './unwritable.fixture.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

/** The queue detects an interrupted job by its heartbeat (15 s), with checks every 10 s. */
const CONTINUED_WITHIN_MS = 45_000

let server: Server
let drill: Drill

beforeAll(async () => {
  server = await startServer()
  drill = await startDrill(server.url)
  const created = await drill.api('POST /tenants', { id: 'acme', name: 'Acme' }, { prefer: 'wait=20' })
  expect(await created.json()).toMatchObject({ status: 'active' })
})
afterAll(async () => {
  await drill?.end()
  await server?.end()
})
afterEach(() => setReadOnly(false))

/** Resolves when the sessions of the service have the new setting. */
async function setReadOnly(isReadOnly: boolean): Promise<void> {
  await server.sql(`alter system set default_transaction_read_only = ${isReadOnly ? 'on' : 'off'}`)
  await server.sql('select pg_reload_conf()')
  await eventually(async () => {
    const { checks } = (await (await drill.call('GET /readyz')).json()) as any
    expect(checks.backoffice.status).toBe(isReadOnly ? 'fail' : 'pass')
  })
}

test('reads continue while the server is read-only, writes return 503, and check, doctor and status report it', async () => {
  await setReadOnly(true)
  const ready = await drill.call('GET /readyz')
  expect(ready.status).toBe(200)
  expect(await ready.json()).toMatchObject({
    status: 'degraded',
    checks: { backoffice: { status: 'fail', message: 'database is read-only' } },
  })
  for (const path of ['/tenants', '/tenants/acme', '/audit-logs', '/tenants/acme/feature-flags']) {
    expect([path, (await drill.api(`GET ${path}`)).status]).toEqual([path, 200])
  }
  const key = { 'idempotency-key': 'drill' }
  const writes = [
    drill.api('POST /tenants', { name: 'Globex' }),
    drill.api('POST /tenants', { name: 'Globex' }, key),
    drill.api('PATCH /tenants/acme', { name: 'Acme Corp' }),
    drill.api('PUT /tenants/acme/suspend'),
    drill.api('DELETE /tenants/acme'),
  ]
  for (const response of await Promise.all(writes)) expect(await problemOf(response)).toEqual(REJECTED_WRITE)
  const doctor = await drill.api('GET /doctor')
  expect([doctor.status, (await doctor.json()) as any]).toMatchObject([
    503,
    { checks: expect.arrayContaining([expect.objectContaining({ code: 'backoffice.read-only', severity: 'error' })]) },
  ])
  expect(await drill.tenantry.run('status', '--url', drill.url)).toMatchObject({
    code: 6,
    stdout: expect.stringMatching(/^backoffice +fail .*database is read-only/m),
  })
  expect(await drill.tenantry.run('serve')).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('The database cannot store data: database is read-only'),
  })

  await setReadOnly(false)
  expect((await drill.api('POST /tenants', { id: 'globex', name: 'Globex' }, key)).status).toBe(201)
  expect((await drill.api('PATCH /tenants/acme', { name: 'Acme Corp' })).status).toBe(200)
  expect(await drill.tenantry.run('status', '--url', drill.url)).toMatchObject({ code: 0 })
})

test('commands on the database read while the server is read-only, doctor reports it, and writes end with 7', async () => {
  await setReadOnly(true)
  expect(await drill.tenantry.run('doctor')).toMatchObject({
    code: 6,
    stdout: expect.stringMatching(/^error +backoffice\.read-only /m),
  })
  for (const line of [['tenant:list'], ['dead-letter:list']]) {
    expect([line, await drill.tenantry.run(...line, '--json')]).toMatchObject([line, { code: 0 }])
  }
  const rejected = { code: 7, stderr: expect.stringContaining('The database cannot store data: database is read-only') }
  for (const line of [
    ['tenant:create', 'Globex'], // has a worker
    ['tenant:suspend', 'acme'],
  ]) {
    expect([line, await drill.tenantry.run(...line)]).toMatchObject([line, rejected])
  }
})

test('installations in progress continue after the server was read-only, and no tenant fails', async () => {
  const ids = Array.from({ length: 12 }, (_, number) => `new-${String(number).padStart(2, '0')}`)
  const create = async (id: string) => [id, (await drill.api('POST /tenants', { id, name: id })).status] as const
  const requests = ids.map(create)
  await Promise.all(requests.slice(0, 6))
  await setReadOnly(true)
  const responses = await Promise.all(requests)
  expect(responses.filter(([, status]) => status !== 201 && status !== 503)).toEqual([])
  const accepted = responses.filter(([, status]) => status === 201).map(([id]) => id)
  expect(accepted.length).toBeGreaterThan(0)
  await setReadOnly(false)
  await eventually(async () => {
    expect(await tenantsIn(drill, 'active')).toEqual(expect.arrayContaining(accepted))
  }, CONTINUED_WITHIN_MS)
  expect(await tenantsIn(drill, 'failed')).toEqual([])
  expect(await tenantsIn(drill, 'provisioning')).toEqual([])
})
