/** Drill: the disks of a running service's databases are full. Each database has a separate file system (tmpfs). */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { eventually } from '../src/testing/base/tenancy.ts'
import { createSmallDisk, type SmallDisk } from './support/small-disk.ts'
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

/** Installations continue 15 s after a rejected attempt. */
const CONTINUED_WITHIN_MS = 40_000

let server: Server
let drill: Drill
let backoffice: SmallDisk
let far: SmallDisk
const disks: SmallDisk[] = []

beforeAll(async () => {
  server = await startServer()
  backoffice = await createDatabase('backoffice')
  far = await createDatabase('far')
  drill = await startDrill(server.urlOf('backoffice'), { far: { url: server.urlOf('far') } })
  const created = await drill.api('POST /tenants', { id: 'acme', name: 'Acme' }, { prefer: 'wait=20' })
  expect(await created.json()).toMatchObject({ status: 'active' })
})
afterAll(async () => {
  await drill?.end()
  await server?.end()
  for (const disk of disks) await disk.remove()
})

/** Creates a database on a separate disk. */
async function createDatabase(name: string): Promise<SmallDisk> {
  const disk = await createSmallDisk()
  disks.push(disk)
  await server.sql(`create tablespace ${name} location '${disk.tablespace}'`)
  await server.sql(`create database ${name} tablespace ${name}`)
  return disk
}

test('installations on a placement with a full disk wait, and continue when it has space', async () => {
  await far.fill()
  const ids = ['far-1', 'far-2', 'far-3']
  for (const id of ids) expect((await drill.api('POST /tenants', { id, name: id, placement: 'far' })).status).toBe(201)
  for (const id of ids) await drill.service.says(new RegExp(`"tenantId":"${id}".*the installation of the tenant waits`))
  expect(await tenantsIn(drill, 'provisioning')).toEqual(ids)
  expect((await drill.call('GET /readyz')).status).toBe(200)
  await far.free()
  await eventually(async () => {
    expect(await tenantsIn(drill, 'active')).toEqual(expect.arrayContaining(ids))
  }, CONTINUED_WITHIN_MS)
  expect(await tenantsIn(drill, 'failed')).toEqual([])
})

test('reads continue while the disk of the backoffice is full, writes return 503, and no tenant fails', async () => {
  await backoffice.fill()
  await eventually(async () => {
    expect(await (await drill.call('GET /readyz')).json()).toMatchObject({
      status: 'degraded',
      checks: { backoffice: { status: 'fail', message: 'disk is full' } },
    })
  })
  const large = { metadata: { note: randomBytes(6_000).toString('base64') } }
  expect(await problemOf(await drill.api('PATCH /tenants/acme', large))).toEqual(REJECTED_WRITE)
  expect((await drill.api('GET /tenants/acme')).status).toBe(200)
  expect(await (await drill.api('GET /doctor')).json()).toMatchObject({
    checks: expect.arrayContaining([expect.objectContaining({ code: 'backoffice.disk-full', severity: 'error' })]),
  })
  // A small row may fit into a page that the table has already.
  const accepted: string[] = []
  for (const id of ['main-1', 'main-2', 'main-3', 'main-4']) {
    const response = await drill.api('POST /tenants', { id, name: id })
    if (response.status === 201) accepted.push(id)
    else expect(await problemOf(response)).toEqual(REJECTED_WRITE)
  }

  await backoffice.free()
  await eventually(async () => {
    expect(await (await drill.call('GET /readyz')).json()).toMatchObject({ status: 'ok' })
  })
  expect((await drill.api('PATCH /tenants/acme', large)).status).toBe(200)
  await eventually(async () => {
    expect(await tenantsIn(drill, 'active')).toEqual(expect.arrayContaining(accepted))
  }, CONTINUED_WITHIN_MS)
  expect(await tenantsIn(drill, 'failed')).toEqual([])
})
