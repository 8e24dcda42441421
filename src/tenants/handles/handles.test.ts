/**
 * Lifetime of handles: one per storage location, as qualified names contain its schema. The pool is created on first
 * use.
 */
import { EventEmitter } from 'node:events'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { createGuard } from '../guard/guard.ts'
import { toLocation } from '../registry/registry.ts'
import type { Tenant } from './handle.ts'
import { REFUSED_SETTINGS } from './rejected-settings.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key)' }

let environment: TestTenancy<[]>

beforeAll(async () => {
  environment = await testTenancy(inject('postgresUrl'), {
    migrations: [NOTES],
    isolation: [schemaPg({ names: 'qualified' })],
  })
})
afterAll(() => environment.end())

const ids = async ({ db }: Tenant) => (await db.selectFrom('notes').select('id').execute()).map(({ id }) => id)

test('the handle of a moved tenant uses its new schema, and its client is built again', async () => {
  const { tenants, kernel } = environment.tenancy
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
  const before = await environment.tenancy.tenant('acme')
  const disposed: unknown[] = []
  const clients = environment.tenancy.perTenant(({ db }) => db, { dispose: (db) => disposed.push(db) })
  expect(await clients.of('acme', (db) => db === before.db)).toBe(true)
  await before.db.insertInto('notes').values({ id: 1 }).execute()
  expect(await environment.tenancy.tenant('acme').then(({ db }) => db)).toBe(before.db)

  const left = toLocation(await tenants.registry.row('acme'))
  const driver = tenants.storage.driver(left.isolation)
  const location = { ...left, epoch: 2, locator: driver.locator('acme', 2) }
  await driver.provision(location)
  await kernel.database.sql(`update multitenancy.tenants set epoch = 2, locator = $2 where id = $1`, [
    'acme',
    location.locator,
  ])
  await driver.fence(left)
  await tenants.registry.refresh('acme')

  const after = await environment.tenancy.tenant('acme')
  await after.db.insertInto('notes').values({ id: 2 }).execute()
  expect(await ids(after)).toEqual([2])
  expect(await clients.of('acme', (db) => db === after.db)).toBe(true)
  await eventually(() => expect(disposed).toEqual([before.db]))
  await driver.unfence(left)
  expect((await driver.execute(left, { text: 'select id from notes' })).rows).toEqual([{ id: 1 }])
})

test('a handle and a guarded request share one pool, created on first use', async () => {
  await installed(environment.tenancy, { id: 'lazy', name: 'Lazy' })
  const inits = vi.spyOn(EventEmitter as unknown as { init(): void }, 'init')
  const pools = () => inits.mock.contexts.filter((made: any) => made.options?.host === REFUSED_SETTINGS.host)
  const guard = createGuard(environment.tenancy.tenants, { resolve: () => ({ id: 'lazy' }), authorize: 'anyone' })
  const request = { raw: {}, method: 'GET', path: '/', host: undefined, header: () => undefined }
  const [handle, { tenant }] = [await environment.tenancy.tenant('lazy'), await guard.admit(request)]
  expect(await ids(handle)).toEqual([])
  expect(pools()).toEqual([])
  expect(tenant?.pool).toBe(handle.pool)
  expect(pools()).toEqual([handle.pool])
  inits.mockRestore()
})

test('a tenant has its record and plan of the time at which it was returned; a change keeps its storage handle', async () => {
  const { tenancy } = environment
  const { id } = await installed(tenancy, { id: 'initech', name: 'Initech' })
  const before = await tenancy.tenant(id)
  expect(before).toMatchObject({ id, plan: 'free', record: { id, name: 'Initech', status: 'active' } })
  const inside = await tenancy.run(id, (tenant) => tenant)
  expect([inside.record, inside.db]).toEqual([before.record, before.db])
  await tenancy.tenants.update(id, { name: 'Initrode' })
  const after = await tenancy.tenant(id)
  expect(after.record.name).toBe('Initrode')
  expect(before.record.name).toBe('Initech')
  for (const form of ['db', 'pool', 'pg', 'dialect'] as const) expect(after[form]).toBe(before[form])
  expect(() => Object.assign(after, { db: null })).toThrow(TypeError)
})
