/** Tests migrations of many storages: the first is read, later ones get one text each with the same effect. */
import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { createInstallation, type Installation, locationOf } from '../roles/installation.fixture.ts'

const migration = (name: string, up: TenantMigration['up'], down?: TenantMigration['down']): TenantMigration => ({
  name,
  checksum: `of ${name}`,
  up,
  ...(down === undefined ? {} : { down }),
})
const NOTES = migration('0001_notes', 'create table notes (id int)')
/** Records the text that contained it. */
const SEEN = migration(
  '0002_seen',
  'create table seen as select current_query() as text -- the whole of it',
  'drop table seen',
)
const MORE = migration('0003_more', 'create table more (id int)')

let installation: Installation
let base: IsolationDriver
beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), { migrations: [NOTES] })
  base = await open([NOTES])
})
afterAll(() => installation.end())

const open = async (migrations: readonly TenantMigration[]) =>
  installation.open(await installation.prepare(), { migrations })
const query = async (text: string) => (await installation.database.sql(text)).rows
const locationFor = (id: string) => locationOf(base, id)

let storages = 0
/** Creates storage with the first migration. */
async function storage(): Promise<string> {
  const id = `storage-${storages++}`
  await base.provision(locationFor(id))
  return id
}

/** A driver that has migrated a storage with only the first migration. */
async function taught(...migrations: readonly TenantMigration[]): Promise<IsolationDriver> {
  const driver = await open([NOTES, ...migrations])
  await driver.migrate(locationFor(await storage()))
  return driver
}

const tablesOf = async (id: string) =>
  (await query(`select tablename from pg_tables where schemaname = 't1_${id}' order by 1`)).map(
    ({ tablename }) => tablename,
  )
const isAtOnce = async (id: string) => (await query(`select text from "t1_${id}".seen`))[0].text.startsWith('begin;')

async function expectNothingOpen(): Promise<void> {
  const open = await query(`select query from pg_stat_activity where datname = current_database()
    and application_name = 'tenantry ddl' and state like 'idle in transaction%'`)
  expect(open).toEqual([])
}

test('storage in the same state as the previous one is migrated by one text', async () => {
  const driver = await open([NOTES, SEEN, MORE])
  const [first, second] = [await storage(), await storage()]
  for (const id of [first, second]) {
    expect(await driver.migrate(locationFor(id))).toEqual([SEEN.name, MORE.name])
    expect(await driver.applied(locationFor(id))).toEqual([NOTES.name, SEEN.name, MORE.name])
    expect(await tablesOf(id)).toEqual(['more', 'notes', 'seen'])
    expect(await driver.migrate(locationFor(id))).toEqual([])
  }
  expect([await isAtOnce(first), await isAtOnce(second)]).toEqual([false, true])
  const records = `select name, checksum from tenantry.migrations where locator = 't1_`
  expect(await query(`${records}${second}' order by name`)).toEqual(
    [NOTES, SEEN, MORE].map(({ name, checksum }) => ({ name, checksum })),
  )
})

test('migrations in TypeScript run in every storage, with and without migrations in SQL', async () => {
  const inCode = migration('0002_code', async (db: Kysely<any>) => {
    await db.schema.createTable('code').addColumn('id', 'integer').execute()
  })
  for (const pending of [[inCode], [inCode, MORE]]) {
    const driver = await taught(...pending)
    const id = await storage()
    expect(await driver.migrate(locationFor(id))).toEqual(pending.map(({ name }) => name))
    expect(await tablesOf(id)).toEqual(['code', ...(pending.length > 1 ? ['more'] : []), 'notes'])
  }
})

describe('storage in another state than the previous one', () => {
  test('storage in another state gets its own pending migrations: more, fewer, or none', async () => {
    const behind = await storage()
    const ahead = await storage()
    const done = await storage()
    const driver = await open([NOTES, SEEN, MORE])
    await (await open([NOTES, SEEN])).migrate(locationFor(ahead))
    await (await open([NOTES, SEEN, MORE])).migrate(locationFor(done))
    expect(await driver.migrate(locationFor(ahead))).toEqual([MORE.name])
    expect(await driver.migrate(locationFor(behind))).toEqual([SEEN.name, MORE.name])
    expect(await driver.migrate(locationFor(done))).toEqual([])
    const alsoAhead = await storage()
    await (await open([NOTES, SEEN])).migrate(locationFor(alsoAhead))
    expect(await driver.migrate(locationFor(alsoAhead))).toEqual([MORE.name])
    for (const id of [behind, ahead, done, alsoAhead]) expect(await tablesOf(id)).toEqual(['more', 'notes', 'seen'])
  })

  test('rejects storage in which a migration was changed after it was run', async () => {
    const driver = await taught(SEEN)
    const id = await storage()
    await query(`update tenantry.migrations set checksum = 'another' where locator = 't1_${id}'`)
    await expect(driver.migrate(locationFor(id))).rejects.toThrow('0001_notes was changed after it was run')
    expect(await tablesOf(id)).toEqual(['notes'])
  })

  test.each(['with its records', 'without its records'])('rejects missing storage %s', async (how) => {
    const driver = await taught(SEEN)
    const id = await storage()
    await query(`drop schema "t1_${id}" cascade`)
    if (how === 'without its records') await query(`delete from tenantry.migrations where locator = 't1_${id}'`)
    await expect(driver.migrate(locationFor(id))).rejects.toMatchObject({
      code: 'E_MIGRATION_FAILED',
      message: expect.stringContaining('not found'),
    })
    expect(await query(`select from pg_tables where tablename = 'seen' and schemaname not like 't1%'`)).toEqual([])
    await expectNothingOpen()
  })
})

describe('failed migration', () => {
  test('a failed migration is named, also one of several, and none of them is applied', async () => {
    const driver = await taught(SEEN, MORE)
    const id = await storage()
    await query(`create table "t1_${id}".more ()`)
    await expect(driver.migrate(locationFor(id))).rejects.toMatchObject({
      code: 'E_MIGRATION_FAILED',
      message: 'The migration 0003_more (up) failed (SQLSTATE 42P07); the log has the full text.',
    })
    expect(await tablesOf(id)).toEqual(['more', 'notes'])
    expect(await driver.applied(locationFor(id))).toEqual([NOTES.name])
    await query(`drop table "t1_${id}".more`)
    expect(await driver.migrate(locationFor(id))).toEqual([SEEN.name, MORE.name])
    expect(await isAtOnce(id)).toBe(true)
  })

  test('a single failed migration is tried once', async () => {
    await query('create sequence public.tries')
    const driver = await taught(migration('0002_tried', `select nextval('public.tries'); ${MORE.up}`))
    const id = await storage()
    await query(`create table "t1_${id}".more ()`)
    await expect(driver.migrate(locationFor(id))).rejects.toMatchObject({
      code: 'E_MIGRATION_FAILED',
      message: 'The migration 0002_tried (up) failed (SQLSTATE 42P07); the log has the full text.',
    })
    expect(await query('select last_value from public.tries')).toEqual([{ last_value: 2 }])
    await expectNothingOpen()
  })

  test('a failed migration with invalid SQL is named', async () => {
    const driver = await open([NOTES, migration('0002_typo', 'selekt'), MORE])
    for (let round = 0; round < 2; round++) {
      await expect(driver.migrate(locationFor(await storage()))).rejects.toThrow(
        '0002_typo (up) failed (SQLSTATE 42601)',
      )
    }
    await expectNothingOpen()
  })

  test('migrations that are complete statements only together are named, in every storage', async () => {
    const halves = [migration('0002_half', 'comment on table notes is $$'), migration('0003_half', '$$')]
    const driver = await open([NOTES, ...halves])
    for (let round = 0; round < 2; round++) {
      const id = await storage()
      await expect(driver.migrate(locationFor(id))).rejects.toThrow('0002_half (up) failed (SQLSTATE 42601)')
      expect(await driver.applied(locationFor(id))).toEqual([NOTES.name])
    }
  })

  test.each(['alone', 'of several'])(
    'a migration that fails to get a lock reports it, is tried once and can be repeated: %s',
    async (how) => {
      await query('create sequence public.waits')
      const column = migration('0003_column', `select nextval('public.waits'); alter table notes add column text text`)
      const pending = how === 'alone' ? [column] : [SEEN, column]
      const driver = await taught(...pending)
      const id = await storage()
      await installation.database.session(async (blocker) => {
        await blocker.query(`begin; lock table "t1_${id}".notes`)
        await expect(driver.migrate(locationFor(id), { lockTimeoutMs: 50 })).rejects.toMatchObject({ code: '55P03' })
        await expectNothingOpen()
        await blocker.query('commit')
      })
      expect(await query('select last_value from public.waits')).toEqual([{ last_value: 2 }])
      expect(await driver.migrate(locationFor(id), { lockTimeoutMs: 50 })).toEqual(pending.map(({ name }) => name))
      await query('drop sequence public.waits')
    },
  )
})

describe('migration that ends its transaction', () => {
  const ends = (name: string) => `The migration ${name} ends its own transaction.`

  test.each(['commit', 'rollback', 'commit; begin', 'rollback; begin', 'commit and chain'])(
    'a migration that ends its transaction by %s is detected and not recorded, in every storage',
    async (ending) => {
      const ender = migration('0003_ender', `create table "begun" (); ${ending}`)
      const driver = await open([NOTES, SEEN, ender, migration('0004_last', 'select 1')])
      for (let round = 0; round < 2; round++) {
        const id = await storage()
        await expect(driver.migrate(locationFor(id))).rejects.toThrow(ends('0003_ender (up)'))
        const isCommitted = ending.startsWith('commit')
        expect(await driver.applied(locationFor(id))).toEqual(isCommitted ? [NOTES.name, SEEN.name] : [NOTES.name])
        await expectNothingOpen()
      }
    },
  )

  test.each(['commit', 'commit; begin'])(
    'a migration in TypeScript that ends its transaction by %s is detected',
    async (ending) => {
      const ender = migration('0002_ender', async (db: Kysely<any>) => {
        for (const text of ending.split('; ')) await sql.raw(text).execute(db)
      })
      const id = await storage()
      await expect((await open([NOTES, ender])).migrate(locationFor(id))).rejects.toThrow(ends('0002_ender (up)'))
      expect(await base.applied(locationFor(id))).toEqual([NOTES.name])
      await expectNothingOpen()
    },
  )

  test.each(['commit', 'commit; begin'])(
    'a rollback that ends its transaction by %s is detected, and the migration stays recorded',
    async (ending) => {
      const id = await storage()
      const driver = await open([NOTES, migration('0002_back', 'select 1', ending)])
      await driver.migrate(locationFor(id))
      await expect(driver.rollback(locationFor(id), 1)).rejects.toThrow(ends('0002_back (down)'))
      expect(await driver.applied(locationFor(id))).toEqual([NOTES.name, '0002_back'])
      await expectNothingOpen()
    },
  )
})

test('of several processes that migrate a storage concurrently one does it, and the others find it done', async () => {
  const drivers = await Promise.all(Array.from({ length: 4 }, () => taught(SEEN)))
  for (let round = 0; round < 5; round++) {
    const id = await storage()
    const ran = await Promise.all(drivers.map((driver) => driver.migrate(locationFor(id))))
    expect(ran.flat()).toEqual([SEEN.name])
  }
})

test('tenants cannot begin migrations', async () => {
  const id = await storage()
  const begin = { text: `select tenantry.begin_migrations('t1_${id}', '', '0')` }
  await expect(base.execute(locationFor(id), begin)).rejects.toThrow('permission denied for function begin_migrations')
})
