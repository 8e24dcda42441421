/**
 * Lost sessions of database-per-tenant storage. A fence ends sessions, so a lost session resembles a fence. It is
 * unknown whether the statement has run, so it is not repeated.
 */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type FaultProxy, startFaultProxy } from '../../../test/support/fault-proxy.ts'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import type { Tenant } from './handle.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int); create sequence runs' }

let proxy: FaultProxy
let elsewhere: TestDatabase
let environment: TestTenancy<[]>
let acme: Tenant

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  proxy = await startFaultProxy(elsewhere.url)
  environment = await testTenancy(inject('postgresUrl'), {
    isolation: [databasePg()],
    migrations: [NOTES],
    placements: { elsewhere: { url: proxy.through(elsewhere.url) } },
  })
  await installed(environment.tenancy, { id: 'acme', name: 'Acme', placement: 'elsewhere' })
  acme = await environment.tenancy.tenant('acme')
})
afterAll(async () => {
  const { registry, storage } = environment.tenancy.tenants
  const location = toLocation(await registry.row('acme'))
  await storage.driver(location.isolation).drop(location)
  await elsewhere.drop() // before the roles that own rights in it
  await environment.end()
  await proxy.close()
})

afterEach(() => acme.pool.query('delete from notes'))

const WRITE = `insert into notes values (nextval('runs'))`
/** A sequence also counts rolled back rows. */
const runs = async () =>
  (await acme.pool.query('select case when is_called then last_value else 0 end::int as runs from runs')).rows[0].runs
const written = async () => (await acme.pool.query('select id from notes')).rows

test('a statement is not repeated after its response was lost', async () => {
  const before = await runs()
  const fault = proxy.at('insert into', 'lose the answer')
  await expect(acme.pool.query(WRITE)).rejects.toSatisfy(DependencyUnavailable.matches)
  expect(fault.hasHappened).toBe(true)
  expect(await written()).toEqual([{ id: before + 1 }])
  expect(await runs()).toBe(before + 1)
})

test('a statement is not repeated when its arrival is unknown', async () => {
  const before = await runs()
  const fault = proxy.at('insert into', 'cut the line')
  await expect(acme.pool.query(WRITE)).rejects.toSatisfy(DependencyUnavailable.matches)
  expect(fault.hasHappened).toBe(true)
  expect(await written()).toEqual([])
  expect(await runs()).toBe(before)
})
