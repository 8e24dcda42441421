/**
 * A named statement keeps the types of its parameters. After any process has changed the type of a column, later
 * parameters must not be truncated to the old type.
 */
import { afterAll, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import { TenantMigrated } from '../tenant/events.ts'

const OWNED = `tenant_id text not null default tenantry.current_tenant()`
const EVENTS = { name: '0001_events', checksum: '', up: `create table events (${OWNED}, at date)` }
const EXACT = { name: '0002_exact', checksum: '', up: `alter table events alter at type timestamp` }
const NOON = '2030-01-01 12:00:00'

const opened: TestTenancy<[]>[] = []
afterAll(() => Promise.all(opened.map((environment) => environment.end())))

test.each([
  ['schema-pg', () => schemaPg()],
  ['schema-pg, qualified', () => schemaPg({ names: 'qualified' })],
  ['rowscope-pg', () => rowscopePg()],
  ['database-pg', () => databasePg()],
])('a statement keeps no outdated parameter types: %s', async (kind, make) => {
  const environment = await testTenancy(inject('postgresUrl'), { migrations: [EVENTS], isolation: [make()] })
  opened.push(environment)
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
  const acme = await environment.tenancy.tenant('acme')
  const table = kind.includes('qualified') ? 't1_acme.events' : 'events'
  const write = () => acme.pool.query(`insert into ${table} (at) values ($1)`, [NOON])
  for (let n = 0; n < 3; n++) await write()

  const deployed = await environment.open({ migrations: [EVENTS, EXACT], isolation: [make()] })
  const run = await deployed.tenants.migrations.run()
  expect(run).toMatchObject({ done: 1, failed: 0 })
  const exact = async () => {
    await write()
    const { rows } = await acme.pool.query(`select count(*)::int as exact from ${table} where at = $1`, [NOON])
    return rows[0].exact
  }
  // The other process notifies this one right after the change.
  await eventually(async () => expect(await exact()).toBeGreaterThan(0))
  const before = await exact()
  expect(await exact()).toBe(before + 1)
  if (kind === 'database-pg') {
    const location = toLocation(await deployed.tenants.registry.row('acme'))
    await deployed.tenants.storage.driver(location.isolation).drop(location)
  }
})

test('a run without a notification of its end has changed the tables as well', async () => {
  const environment = await testTenancy(inject('postgresUrl'), { migrations: [EVENTS] })
  opened.push(environment)
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
  const acme = await environment.tenancy.tenant('acme')
  const write = () => acme.pool.query('insert into events (at) values ($1)', [NOON])
  for (let n = 0; n < 3; n++) await write()
  const deployed = await environment.open({ migrations: [EVENTS, EXACT] })
  deployed.kernel.events.subscribe(TenantMigrated, 'within', () => {
    throw new Error('the notification failed')
  })
  expect(await deployed.tenants.migrations.run()).toMatchObject({ failed: 1 })
  await eventually(async () => {
    await write()
    const { rows } = await acme.pool.query('select from events where at = $1', [NOON])
    expect(rows.length).toBeGreaterThan(0)
  })
})
