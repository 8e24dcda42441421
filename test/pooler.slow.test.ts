/**
 * Runs tenants' queries through a pooler in transaction mode with one server session: any remaining state would reach
 * another tenant.
 */
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { databasePg, TENANT_SCHEMA } from '../src/drivers/isolation/database-pg.ts'
import {
  createInstallation,
  type Installation,
  locationOf,
} from '../src/drivers/isolation/roles/installation.fixture.ts'
import { ROWS_SCHEMA, rowscopePg } from '../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { ChangeRecorded, recordChange } from '../src/kernel/events/changes.ts'
import { createTenancy } from '../src/tenancy/tenancy.ts'
import type { StorageHandle } from '../src/tenants/handles/handle.ts'
import type { IsolationDriver, Placement, StorageLocation } from '../src/tenants/isolation/driver.ts'
import { directHandle } from '../src/testing/base/direct-handle.ts'
import { markOf, proofMigrations, type StorageView } from '../src/testing/base/subject.ts'
import { eventually, installed, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { leakFuzz } from '../src/testing/leak/fuzzer.ts'
import { raw } from '../src/testing/leak/operations.ts'
import { type PgBouncer, startPgBouncer } from './pooler/pgbouncer.ts'

const TENANTS = ['a', 'b', 'c', 'a-b', 'select', '0']
const OPERATIONS = 1_000
const WORKERS = 8
const CLIENTS = 5

/**
 * Operations that watch or end a server session, which no connection owns here; tests below check the same properties.
 */
const NOT_THROUGH_A_POOLER = [
  'backend terminated',
  'backend cancelled',
  'client released while busy',
  'own commit or rollback',
]

let installation: Installation
let direct: Placement
let pooler: PgBouncer
let pooled: Placement

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), {
    publicRights: ['temporary'],
    connections: { max: CLIENTS, perTenant: CLIENTS, waitMs: 60_000, queuePerTenant: 1_000 },
  })
  direct = await installation.prepare()
  pooler = await startPgBouncer(direct.url, [direct.url, direct.tenantUrl])
  pooled = { ...direct, tenantUrl: pooler.through(direct.tenantUrl), pooler: true, ownLogins: undefined }
})
afterAll(async () => {
  await installation?.end()
  await pooler?.stop()
})

type View = (location: StorageLocation) => StorageView
const inSchema: View = ({ locator }) => ({ url: direct.url, tenantUrl: pooled.tenantUrl, schema: locator })
const inRows: View = ({ locator }) => ({
  ...inSchema({ locator } as StorageLocation),
  schema: ROWS_SCHEMA,
  tenantColumn: locator,
})
const inDatabase: View = ({ locator }) => {
  const [url, tenantUrl] = [direct.url, pooled.tenantUrl].map((text) => {
    const changed = new URL(text)
    changed.pathname = `/${locator}`
    return changed.href
  }) as [string, string]
  return { url, tenantUrl, schema: TENANT_SCHEMA }
}

const KINDS: Readonly<Record<string, { readonly make: () => IsolationDriver; readonly viewOf: View }>> = {
  'schema-pg, batch': { make: () => schemaPg(), viewOf: inSchema },
  'schema-pg, transaction': { make: () => schemaPg({ scope: 'transaction' }), viewOf: inSchema },
  'schema-pg, qualified': { make: () => schemaPg({ names: 'qualified' }), viewOf: inSchema },
  'rowscope-pg, batch': { make: () => rowscopePg(), viewOf: inRows },
  'rowscope-pg, transaction': { make: () => rowscopePg({ scope: 'transaction' }), viewOf: inRows },
  'database-pg, batch': { make: () => databasePg(), viewOf: inDatabase },
  'database-pg, transaction': { make: () => databasePg({ scope: 'transaction' }), viewOf: inDatabase },
}

const WRITE = `insert into items (id, owner) values (1, 'of a')`
/** All spellings that the server accepts, for a single statement. */
const ENDINGS = [
  'commit',
  'END',
  'rollback work',
  'abort',
  'commit and chain',
  ';; commit',
  '-- a comment\ncommit',
  '/* one /* in another */ */ rollback',
  'rollback/**/transaction',
  `prepare transaction 'half'`,
]

describe.each(Object.keys(KINDS))('%s through one server session', (kind) => {
  const { make, viewOf } = KINDS[kind] as (typeof KINDS)[string]
  let driver: IsolationDriver
  let locations: StorageLocation[]
  let a: StorageHandle
  let b: StorageHandle

  beforeAll(async () => {
    driver = await installation.open(pooled, { driver: make, migrations: proofMigrations('postgres') })
    locations = TENANTS.map((id) => locationOf(driver, id))
    for (const location of locations) await driver.provision(location)
    ;[a, b] = locations.map((location) => directHandle(driver, location)) as [StorageHandle, StorageHandle]
  })
  afterAll(async () => {
    for (const location of locations) await driver.drop(location)
  })

  test('no tenant sees or changes rows of another tenant', async () => {
    const { violations, operations } = await leakFuzz({
      driver,
      locations,
      operations: OPERATIONS,
      workers: WORKERS,
      maxConnections: 1, // the server's
      viewOf,
      without: NOT_THROUGH_A_POOLER,
    })
    expect(violations).toEqual([])
    expect(Object.values(operations).reduce((sum, count) => sum + count, 0)).toBe(OPERATIONS)
    for (const { db } of [a, b]) await db.deleteFrom('items').execute()
  })

  test.each(ENDINGS)('a statement cannot end its transaction: %j', async (ending) => {
    const work = a.transaction(async (db) => {
      await raw(db, `set app.fuzz = 'left'`)
      await raw(db, `declare kept cursor with hold for select owner from items`)
      await raw(db, WRITE)
      await raw(db, ending)
    })
    await expect(work).rejects.toThrow('a statement ended the transaction it ran in')
    await expect(raw(a.db, ending)).rejects.toThrow('a statement ended the transaction it ran in')
    expect(await raw(a.db, 'select owner from items')).toEqual([])
    expect(await raw(b.db, `select coalesce(current_setting('app.fuzz', true), '') as left from tags`)).toEqual([])
    await expect(raw(b.db, 'fetch all from kept')).rejects.toMatchObject({ code: '34000' })
  })

  test('the release of a client rolls back its transaction', async () => {
    const client = await a.pool.connect()
    await client.query('begin')
    await client.query(WRITE)
    const asked = client.query(`select 1 from pg_sleep(0.01)`).catch(() => undefined)
    client.release()
    expect(await raw(b.db, 'select owner from items')).toEqual([])
    await asked
    expect(await raw(a.db, 'select owner from items')).toEqual([])
  })

  test('a session that the server terminates fails only its own calls', async () => {
    const lost = a.transaction(async (db) => {
      const [{ pid }] = (await raw(db, 'select pg_backend_pid() as pid')) as [{ pid: number }]
      await raw(db, WRITE)
      await installation.database.sql('select pg_terminate_backend($1, 5000)', [pid])
      await raw(db, 'select owner from items')
    })
    await expect(lost).rejects.toThrow()
    await eventually(async () => expect(await raw(b.db, 'select owner from items')).toEqual([]))
    expect(await raw(a.db, 'select owner from items')).toEqual([])
  })

  test('fenced storage rejects its tenant, and is available after the fence is lifted', async () => {
    const [location] = locations as [StorageLocation]
    await driver.fence(location)
    const error = await raw(a.db, 'select owner from items').catch((error) => error)
    expect(driver.mayBeFence(error)).toBe(true)
    expect(await raw(b.db, 'select owner from items')).toEqual([])
    await driver.unfence(location)
    await eventually(async () => expect(await raw(a.db, 'select owner from items')).toEqual([]))
  })
})

describe('state left in the session by other programs', () => {
  let driver: IsolationDriver
  let a: StorageHandle

  beforeAll(async () => {
    driver = await installation.open(pooled, { driver: () => schemaPg(), migrations: proofMigrations('postgres') })
    const location = locationOf(driver, 'left')
    await driver.provision(location)
    a = directHandle(driver, location)
    await raw(a.db, `insert into items (id, owner) values (1, 'of left')`)
  })
  afterAll(() => driver.drop(locationOf(driver, 'left')))

  /** Runs statements with the login and without a scope, as another program would. */
  const leave = async (...texts: readonly string[]) => {
    const client = new Client({ connectionString: pooled.tenantUrl })
    await client.connect()
    try {
      for (const text of texts) await client.query(text)
      return (await client.query('select pg_backend_pid() as pid')).rows[0].pid
    } finally {
      await client.end()
    }
  }
  const pidOf = async (db: StorageHandle['db']) => (await raw(db, 'select pg_backend_pid() as pid'))[0].pid

  test.each(['items', 'pg_depend', 'text', 'pg_class'])(
    'a temporary table named %s does not replace a tenant’s table',
    async (name) => {
      for (const work of [
        () => raw(a.db, 'select owner from items'),
        () => a.transaction((db) => raw(db, 'select owner from items')),
      ]) {
        const pid = await leave(`create temporary table "${name}" as select 'of unknown'::pg_catalog.text as owner`)
        expect(await work()).toEqual([{ owner: 'of left' }])
        expect(await pidOf(a.db)).toBe(pid)
      }
      await leave(`create temporary table "${name}" as select 'of unknown'::pg_catalog.text as owner`)
      const newcomer = await installation.open({ ...pooled }, { driver: () => schemaPg() })
      const { db } = directHandle(newcomer, locationOf(newcomer, 'left'))
      expect(await raw(db, 'select owner from items')).toEqual([{ owner: 'of left' }])
    },
  )

  test('session settings are reset by the next transaction, and never change the scope', async () => {
    const pid = await leave(`set search_path = pg_temp, public`, `set app.tenant_id = 'b'`, `set app.fuzz = 'left'`)
    expect(await raw(a.db, `select current_setting('app.tenant_id') as tenant, owner from items`)).toEqual([
      { tenant: 'left', owner: 'of left' },
    ])
    await a.transaction((db) => raw(db, 'select 1'))
    expect(await raw(a.db, `select current_setting('app.fuzz') as left`)).toEqual([{ left: '' }])
    expect(await pidOf(a.db)).toBe(pid)
  })

  test('the login reads no row without a scope', async () => {
    await expect(leave('select owner from t1_left.items')).rejects.toMatchObject({ code: '42501' })
  })
})

test.each(['schema-pg, batch', 'schema-pg, transaction', 'rowscope-pg, batch', 'database-pg, batch'])(
  'settings that a tenant sets for the login do not affect statements of another tenant: %s',
  async (kind) => {
    const driver = await installation.open(pooled, {
      driver: () => (KINDS[kind]?.make ?? schemaPg)(),
      migrations: proofMigrations('postgres'),
    })
    const [hostile, other] = ['hostile', 'other'].map((id) => locationOf(driver, id)) as [
      StorageLocation,
      StorageLocation,
    ]
    for (const one of [hostile, other]) await driver.provision(one)
    const { username } = new URL(direct.tenantUrl)
    const texts = [
      ['standard_conforming_strings', 'off'],
      ['datestyle', 'German'],
      ['bytea_output', 'escape'],
      ['statement_timeout', '20s'],
      ['default_transaction_read_only', 'on'],
      ['default_transaction_isolation', 'serializable'],
      ['role', `${username}_scope`],
    ].map(([name, value]) => `alter role current_user set ${name} = '${value}'`)
    await raw(directHandle(driver, hostile).db, `do $$ begin set local role none; ${texts.join('; ')}; end $$`)
    const onServer = 'select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1'
    await installation.database.sql(onServer, [username])
    const { db } = directHandle(driver, other)
    const settings = `select length('\\') as one, '2026-12-31'::date::text as day, '\\x41'::bytea::text as bytes,
      current_setting('statement_timeout') as timeout, current_setting('transaction_isolation') as isolation`
    const found = { one: 1, day: '2026-12-31', bytes: '\\x41', timeout: '0', isolation: 'read committed' }
    await eventually(async () => expect(await raw(db, settings)).toEqual([found]))
    await raw(db, `insert into items (id, owner) values (1, 'of other')`)
    await db.transaction().execute(async (db) => {
      expect(await raw(db, settings)).toEqual([found])
      await raw(db, `update items set value = 2`)
    })
    const strict = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
    expect(await strict.execute((db) => raw(db, `show transaction_isolation`))).toMatchObject([
      { transaction_isolation: 'repeatable read' },
    ])
    await expect(strict.execute((db) => raw(db, 'delete from items'))).rejects.toMatchObject({ code: '25006' })
    await installation.database.sql(
      `alter role "${username}" reset all; alter role "${username}" set search_path = pg_catalog`,
    )
    await installation.database.sql(onServer, [username])
    for (const one of [hostile, other]) await eventually(() => driver.drop(one))
  },
)

test('a configuration without the pooler setting is rejected, regardless of earlier sessions', async () => {
  const unaware = await installation.open({ ...pooled, pooler: false }, { migrations: proofMigrations('postgres') })
  const location = locationOf(unaware, 'unaware')
  await unaware.provision(location)
  const { db } = directHandle(unaware, location)
  const refused = () =>
    expect(raw(db, 'select owner from items')).rejects.toThrow(/Set placements\.main\.pooler to true/)
  await refused()
  const { username } = new URL(direct.tenantUrl)
  await installation.database.sql(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1`, [
    username,
  ])
  await eventually(refused) // in a new session
  await refused() // in a session with the name that the next connection would use
  await expect(db.transaction().execute((db) => raw(db, 'select 1'))).rejects.toThrow('placements.main.pooler')
  expect(unaware.connections()).toMatchObject([{ placement: 'main', idle: 0, busy: 0, waiting: 0 }])

  const aware = await installation.open(pooled, { migrations: proofMigrations('postgres') })
  expect(await raw(directHandle(aware, location).db, 'select owner from items')).toEqual([])
  await aware.drop(location)
})

test.each(['schema-pg, batch', 'rowscope-pg, batch'])(
  'a drain does not wait for the transaction that holds the only session: %s',
  async (kind) => {
    const driver = await installation.open(pooled, {
      driver: () => (KINDS[kind]?.make ?? schemaPg)(),
      migrations: proofMigrations('postgres'),
    })
    const [location, beside] = [locationOf(driver, 'drained'), locationOf(driver, 'beside')]
    for (const one of [location, beside]) await driver.provision(one)
    const client = await directHandle(driver, location).pool.connect()
    await client.query('begin')
    await client.query(`insert into items (id, owner) values (1, 'of drained')`)
    const waiting = raw(directHandle(driver, beside).db, 'select owner from items')
    await driver.fence(location)
    await driver.drain(location, { graceMs: 0 })
    expect(await waiting).toEqual([])
    await expect(client.query('commit')).rejects.toThrow()
    client.release(true)
    await driver.unfence(location)
    expect(await raw(directHandle(driver, location).db, 'select owner from items')).toEqual([])
    for (const one of [location, beside]) await driver.drop(one)
  },
)

test('a tenancy works through the pooler', async () => {
  const tenancy = await createTenancy({
    database: { url: direct.url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), rowscopePg()],
    placements: { main: { tenantUrl: pooled.tenantUrl, pooler: true, publicRights: ['temporary'] } },
    migrations: proofMigrations('postgres'),
    logger: createLogger({ level: 'silent' }),
  })
  onTestFinished(() => tenancy.stop())
  const { events } = tenancy.kernel
  const recorded: string[] = []
  events.subscribe(ChangeRecorded, 'within', async ({ action, target }) => {
    if (action === 'items.create') recorded.push(target)
  })
  for (const isolation of ['schema-pg', 'rowscope-pg']) {
    const id = `life-${isolation}`
    await installed(tenancy, { id, name: id, isolation })
    const { db, transaction } = await tenancy.tenant(id)
    await transaction(() => recordChange(events, { action: 'items.create', tenantId: id, target: id }))
    await eventually(() => expect(recorded).toContain(id))
    await raw(db, `insert into items (id, owner) values (1, '${markOf(id)}')`)
    expect(await raw(db, 'select owner from items')).toEqual([{ owner: markOf(id) }])
    await tenancy.tenants.suspend(id)
    await expect(raw(db, 'select owner from items')).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
  }
})
