/** Restores into adopted tables while the former application works, and across later migrations. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import {
  driversOf,
  IDS,
  idle,
  LATER,
  migrationsOf,
  openRowTransfers,
  type RowTransfers,
} from './row-transfers.fixture.ts'

const TYPE = 'uuid'
const [acme, globex] = IDS[TYPE]
let here: RowTransfers
beforeAll(async () => {
  here = await openRowTransfers(TYPE)
})
afterAll(() => here?.end())

/** A restore whose exchange waits for the rows of a table, until `client` ends. */
async function waitingRestore(backupId: string, table: string) {
  const { transfer } = await here.transfers.backups.restore(acme, { backupId })
  const client = new pg.Client({ connectionString: here.url })
  await client.connect()
  await client.query(`begin; select from app.${table} where org_id = '${acme}' for share`)
  const working = here.transfers.work(transfer.id, idle)
  await eventually(async () => {
    expect(await here.sql(`select from pg_locks where locktype = 'transactionid' and not granted`)).toHaveLength(1)
  })
  return { transfer, client, working }
}

test('the former application reads the former rows until the commit, and other tenants write', async () => {
  const backupId = await here.backup(acme)
  await here.run(acme, `update labels set label = 'later'`)
  const { client, working } = await waitingRestore(backupId, 'labels')
  const ofAcme = `select label from app.labels where org_id = '${acme}'`
  expect(await here.asApplication(ofAcme)).toEqual([{ label: 'later' }])
  await here.run(globex, `insert into labels values (default, 'meanwhile')`)
  await client.end()
  await working
  expect(await here.asApplication(ofAcme)).toEqual([{ label: 'red' }])
  expect((await here.rows(globex)).labels).toEqual([{ label: 'meanwhile' }, { label: 'red' }])
})

test('a row that the former application commits during the exchange ends the attempt, and no row is lost', async () => {
  const backupId = await here.backup(acme)
  const { transfer, client, working } = await waitingRestore(backupId, 'labels')
  await here.asApplication(`insert into app.labels values ('${acme}', 'of the application')`)
  await client.end()
  await working
  expect((await here.transfers.get(acme, transfer.id)).failure).toMatchObject({
    code: 'E_DEPENDENCY_UNAVAILABLE',
    message: expect.stringContaining('have written rows of the table "labels" during the exchange'),
  })
  expect((await here.rows(acme)).labels).toEqual([{ label: 'of the application' }, { label: 'red' }])
  await here.done(await here.transfers.backups.restore(acme, { backupId }))
  expect((await here.rows(acme)).labels).toEqual([{ label: 'red' }])
})

test.each(['tasks_shout', undefined])(
  'a row that the former application refers to from another tenant during the exchange stays, with the trigger %s',
  async (always) => {
    if (always) await here.sql(`alter table app.tasks enable always trigger ${always}`)
    const backupId = await here.backup(acme)
    const rows = await here.rows(acme)
    const { transfer, client, working } = await waitingRestore(backupId, 'tasks')
    // The exchange has locked and checked the projects, and waits for the tasks.
    await here.sql(`insert into app.projects (id, org_id, title) values (900, '${acme}', 'late')`)
    await here.sql(
      `insert into app.tasks (id, org_id, project_id, body, state) values (900, '${globex}', 900, 'CHILD', 'open')`,
    )
    await client.end()
    await working
    expect(await here.sql('select project_id::int from app.tasks where id = 900')).toEqual([{ project_id: 900 }])
    expect(await here.sql('select title from app.projects where id = 900')).toEqual([{ title: 'late' }])
    expect((await here.transfers.get(acme, transfer.id)).failure).toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      message: expect.stringContaining('have written rows of the table "projects" during the exchange'),
    })
    await here.sql('delete from app.projects where id = 900; alter table app.tasks enable trigger tasks_shout')
    expect(await here.rows(acme)).toEqual(rows)
  },
)

test('the search of an erasure finds the rows of former locations, and the doctor those of unknown ones', async () => {
  const driver = here.tenants.storage.driver('rowscope-pg')
  const [{ last_epoch: lastEpoch }] = await here.sql('select last_epoch from multitenancy.tenants where id = $1', [
    acme,
  ])
  const found = (await driver.search?.('main', acme, lastEpoch)) ?? []
  expect(found.filter(({ kind }) => kind.includes('tenantry_aside'))).not.toEqual([])
  const known = await here.tenants.reconciliation.locations('rowscope-pg', 'main')
  expect(await driver.orphanedRows?.('main', async () => known)).toEqual([])
  const others = known.filter(({ tenantId }) => tenantId !== acme)
  expect(await driver.orphanedRows?.('main', async () => others)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ table: expect.stringMatching(/^"tenantry_aside_/), tenantId: acme }),
    ]),
  )
})

test('an erasure removes the rows in the tables and those of former locations, and keeps other tenants', async () => {
  const backupId = await here.backup(globex)
  await here.done(await here.transfers.backups.restore(globex, { backupId }))
  const copied = `select schema_name from information_schema.schemata where schema_name like 'tenantry_aside%'`
  const before = (await here.sql(copied)).length
  const others = await here.others(globex)
  const { erasures } = here.tenants
  await erasures.request(globex, { confirm: globex, reason: 'request 4711' })
  await erasures.work(globex, { signal: idle.signal })
  const { state, report } = await erasures.get(globex)
  expect(state).toBe('completed')
  expect(report?.systems.filter(({ kind }) => kind.includes('tenantry_aside'))).toEqual(
    expect.arrayContaining([expect.objectContaining({ found: 1, removed: 1 })]),
  )
  expect(await here.sql(`select from app.labels where org_id = '${globex}'`)).toEqual([])
  expect(await here.sql(copied)).toHaveLength(before - 1)
  expect(await here.others(globex)).toEqual(others)
})

test('archives and former locations from before later migrations are migrated', async () => {
  await here.sql('update multitenancy.storage_locations set purge_at = now()')
  await here.transfers.recover()
  const before = await here.rows(acme)
  const backupId = await here.backup(acme)
  await here.run(acme, `insert into tasks (id, body, state) values (1000, 'later', 'done')`)
  const later = await here.rows(acme)
  await here.done(await here.transfers.backups.restore(acme, { backupId }))
  const next = await here.open({ migrations: [...migrationsOf(TYPE), LATER], isolation: driversOf(TYPE) })
  const { transfers, migrations } = next.tenants
  await migrations.run({ ids: [acme] })
  expect(await here.sql(`select from pg_type where typname = 'state' and typnamespace = 'app'::regnamespace`)).toEqual(
    [],
  )
  const done = async (started: { transfer: { id: string } }) => {
    await transfers.work(started.transfer.id, idle)
    expect(await transfers.get(acme, started.transfer.id)).toMatchObject({ failure: null, state: 'completed' })
  }
  const others = await here.others(acme)
  await done(await transfers.move(acme, { undo: true }))
  expect(await here.rows(acme)).toEqual(later)
  expect(await here.others(acme)).toEqual(others)
  await done(await transfers.backups.restore(acme, { backupId }))
  expect(await here.rows(acme)).toEqual(before)
  expect(await here.others(acme)).toEqual(others)
  expect((await here.aside()).filter((name) => name.startsWith('tenantry_scratch'))).toEqual([])
  const kept = await here.sql(`select locator from multitenancy.storage_locations where tenant_id = $1`, [acme])
  expect(await here.aside()).toHaveLength(kept.length)
})
