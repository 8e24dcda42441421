/** A killed restore in shared tables has changed the labels of rows: the next request changes them back. */
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { exported, never, replayed } from '../../drivers/isolation/copy/copy.fixture.ts'
import { stagingSchemaOf } from '../../drivers/isolation/copy/copy-in-shared.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { lockOf } from '../../drivers/isolation/transactions/owner-transaction.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id))`,
}

let environment: TestTenancy<[]>
beforeAll(async () => {
  environment = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], isolation: [rowscopePg()] })
})
afterAll(() => environment.end())

test('a request waits for the labels for at most ten seconds', async () => {
  const { storage, registry } = environment.tenancy.tenants
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
  const { pool } = await environment.tenancy.tenant('acme')
  const first = toLocation(await registry.row('acme'))
  const driver = storage.driver(first.isolation)
  const next = { ...first, locator: driver.locator('acme', 2), epoch: 2 }
  await driver.import(next, replayed(await exported(driver, first)), { signal: never() })
  await pool.query('insert into notes (id) values (1)')
  await driver.fence(first)
  await driver.enter?.(next, { signal: never() })

  const busy = new pg.Client(environment.url)
  await busy.connect()
  await busy.query(`select pg_advisory_lock(${lockOf(stagingSchemaOf('acme'))})`)
  await expect(pool.query('select id from notes')).rejects.toMatchObject({
    code: 'E_DEPENDENCY_UNAVAILABLE',
    message: 'The storage of the tenant is being reopened.',
    retryAfterSeconds: 5,
  })
  await busy.end()
  const ids = async () => (await pool.query('select id from notes')).rows
  await eventually(async () => expect(await ids()).toEqual([{ id: 1 }]), 20_000)
})
