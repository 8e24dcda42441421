import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { ConnectionLimits, IsolationDriver, Placement } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { inTransaction } from '../../../testing/base/in-transaction.ts'
import { locationOf, provisioned } from '../roles/installation.fixture.ts'
import { sqliteMemory } from './driver.ts'

const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: async (db) => {
    await db.schema
      .createTable('notes')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('owner', 'text', (column) => column.notNull())
      .addColumn('parent', 'integer', (column) => column.references('notes.id').modifyFront(sql``))
      .execute()
  },
  down: async (db) => db.schema.dropTable('notes').execute(),
}
const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: async (db) => {
    await db.schema.createTable('tags').addColumn('tag', 'text').execute()
    await db.schema.alterTable('notes').addColumn('note', 'text').execute()
  },
  down: async (db) => {
    await db.schema.dropTable('tags').execute()
    await db.schema.alterTable('notes').dropColumn('note').execute()
  },
}

const drivers: IsolationDriver[] = []
afterEach(async () => {
  for (const driver of drivers.splice(0)) await driver.stop()
})

async function open(
  migrations: readonly TenantMigration[] = [NOTES],
  limits: Partial<ConnectionLimits> = {},
): Promise<IsolationDriver> {
  const driver = sqliteMemory()
  const connections = { max: 10, perTenant: 5, queuePerTenant: 100, waitMs: 5_000, ...limits }
  const main: Placement = { name: 'main', url: '', tenantUrl: '', scopeRole: '', connections, pooler: false }
  await driver.start({
    installation: 'sqlite',
    placements: new Map([['main', main]]),
    migrations,
    generation: () => 0,
    log: createLogger({ level: 'silent' }),
  })
  drivers.push(driver)
  return driver
}

async function opened(...ids: string[]): Promise<{ driver: IsolationDriver; handles: StorageHandle[] }> {
  const driver = await open()
  return { driver, handles: await Promise.all(ids.map((id) => provisioned(driver, id))) }
}

async function one(): Promise<StorageHandle> {
  return provisioned(await open(), 'a')
}

/** Resolves when the previously sent statements are waiting. */
const arrived = () => new Promise(setImmediate)
const raw = async (db: Kysely<any>, text: string) => (await sql.raw<any>(text).execute(db)).rows
const owners = async (db: Kysely<any>) =>
  (await db.selectFrom('notes').select('owner').orderBy('id').execute()).map(({ owner }) => owner)
const insert = (db: Kysely<any>, id: number, owner = 'a') => db.insertInto('notes').values({ id, owner }).execute()

describe('a tenant', () => {
  test('a tenant has its own database without objects of other tenants', async () => {
    const { handles } = await opened('a', 'b')
    const [a, b] = handles as [StorageHandle, StorageHandle]
    await insert(a.db, 1, 'a')
    await insert(b.db, 1, 'b')
    await a.transaction(async (db) => {
      await raw(db, 'create table only_a (x)')
      await db.updateTable('notes').set({ owner: 'a2' }).execute()
      expect(await owners(b.db)).toEqual(['b'])
      await expect(raw(b.db, 'select * from only_a')).rejects.toThrow('no such table: only_a')
    })
    expect([await owners(a.db), await owners(b.db)]).toEqual([['a2'], ['b']])
    expect(await raw(b.db, `select name from sqlite_master where type = 'table'`)).toEqual([{ name: 'notes' }])
  })

  test('rejects SQL of a tenant that reaches a file or another database, with a message', async () => {
    const { db, pool, transaction } = await one()
    await insert(db, 1)
    const folder = mkdtempSync(join(tmpdir(), 'tenantry-sqlite-'))
    const file = join(folder, 'file.db')
    for (const text of [
      `attach '${file}' as other`,
      `attach ':memory:' as other`,
      `attach 'file::memory:?cache=shared' as other`,
      'detach main',
      `vacuum into '${file}'`,
      `select load_extension('${file}')`,
      `select readfile('/etc/passwd')`,
      `pragma temp_store_directory = '${folder}'`,
      `pragma Temp_Store = file`,
    ]) {
      for (const rejected of [raw(db, text), pool.query(text), transaction((tx) => raw(tx, text))]) {
        await expect(rejected, text).rejects.toMatchObject({ name: 'SqliteError' })
      }
    }
    const attached = { code: '42501', message: 'ATTACH and DETACH are not available' }
    await expect(raw(db, `attach '${file}' as other`)).rejects.toMatchObject(attached)
    expect(readdirSync(folder)).toEqual([])
    expect(existsSync(file)).toBe(false)
    rmSync(folder, { recursive: true })
    expect(await owners(db)).toEqual(['a'])
  })

  test('a tenant cannot change settings and can read its schema', async () => {
    const { db, transaction } = await one()
    const settings = ['foreign_keys = off', 'query_only = on', 'writable_schema = on', 'recursive_triggers = on']
    for (const setting of [...settings, 'journal_mode = off', 'case_sensitive_like = on']) {
      await expect(raw(db, `pragma ${setting}`), setting).rejects.toMatchObject({ code: '42501' })
    }
    expect(await raw(db, 'pragma foreign_keys')).toEqual([{ foreign_keys: 1 }])
    expect((await raw(db, 'pragma Table_Info(notes)')).map(({ name }) => name)).toEqual(['id', 'owner', 'parent'])
    const tables = await db.introspection.getTables()
    expect(tables.find(({ name }) => name === 'notes')?.columns.map(({ name }) => name)).toEqual([
      'id',
      'owner',
      'parent',
    ])
    await transaction(async (tx) => {
      await raw(tx, 'pragma defer_foreign_keys = on')
      await sql`insert into notes (id, owner, parent) values (1, 'a', 2), (2, 'a', null)`.execute(tx)
    })
    const orphan = sql`insert into notes (id, owner, parent) values (3, 'a', 99)`
    await expect(transaction((tx) => orphan.execute(tx))).rejects.toMatchObject({ code: '23503' })
    expect(await raw(db, 'pragma defer_foreign_keys')).toEqual([{ defer_foreign_keys: 0 }])
  })

  test('a tenant can have full-text and spatial tables', async () => {
    const { db } = await one()
    for (const [name, module] of Object.entries({ a: 'fts3(body)', b: 'fts5(body)', c: 'rtree(id, x1, x2)' })) {
      await raw(db, `create virtual table ${name} using ${module}`)
    }
    await raw(db, `insert into b values ('the quick fox'), ('the slow one')`)
    expect(await raw(db, `select body from b where b match 'fox'`)).toEqual([{ body: 'the quick fox' }])
    await raw(db, 'insert into c values (1, 2, 3)')
    expect(await raw(db, 'select id from c where x1 > 1')).toEqual([{ id: 1 }])
    await raw(db, 'drop table b')
  })
})

describe('a statement', () => {
  test('a statement uses $1 any number of times, in any order, and needs one value for each parameter', async () => {
    const { pool } = await one()
    const { rows } = await pool.query(`select $2 as b, $1 as a, $2 || '$1' as c -- '$7`, ['one', 'two'])
    expect(rows).toEqual([{ b: 'two', a: 'one', c: 'two$1' }])
    expect((await pool.query('select ?2 as b, ?1 as a', [1, 2])).rows).toEqual([{ b: 2, a: 1 }])
    expect((await pool.query('select ? as a, ? as b', [1, 2])).rows).toEqual([{ a: 1, b: 2 }])
    expect((await pool.query('select $3 as c, $1 as a', [1, 2, 3])).rows).toEqual([{ c: 3, a: 1 }])
    for (const [text, values] of [
      ['select $1, $2', [1]],
      ['select $1', [1, 2]],
      ['select ?, ?', [1]],
      ['select 1', [1]],
    ] as const) {
      await expect(pool.query(text, [...values]), text).rejects.toMatchObject({ code: '42P02' })
    }
  })

  test('values are written and returned without loss, and unsupported values are rejected', async () => {
    const { pool } = await one()
    const at = new Date('2026-01-02T03:04:05.678Z')
    const given = [
      true,
      false,
      undefined,
      null,
      1,
      1.5,
      2n ** 60n,
      -7n,
      'ä\0b',
      at,
      { a: [1] },
      [1, 'b'],
      Buffer.from('x'),
    ]
    const text = `select ${given.map((_, at) => `$${at + 1}`).join(', ')}`
    const { rows } = await pool.query({ text, values: given, rowMode: 'array' })
    expect(rows).toEqual([
      [1, 0, null, null, 1, 1.5, 2n ** 60n, -7, 'ä\0b', at.toISOString(), '{"a":[1]}', '[1,"b"]', Buffer.from('x')],
    ])
    expect(Buffer.isBuffer(rows[0]?.[12])).toBe(true)
    expect((await pool.query('select 5 / $1 as whole, typeof($2) as type', [2, 0.5])).rows).toEqual([
      { whole: 2, type: 'real' },
    ])
    for (const value of [new Date(Number.NaN), () => 1, Symbol('x'), 2n ** 63n]) {
      await expect(pool.query('select $1', [value])).rejects.toThrow()
    }
  })

  test('comments of any length are skipped', async () => {
    const { db } = await one()
    const line = '-'.repeat(20_000)
    expect(await raw(db, `${line}\n/*${'* /'.repeat(20_000)}*/ select 1 as one ${line}`)).toEqual([{ one: 1 }])
    expect(await raw(db, `${line}\n${line}x`)).toEqual([])
  })

  test('a result has rows, count, command and fields as in node-postgres', async () => {
    const { db, pool } = await one()
    const inserted = await pool.query(
      `insert into notes (id, owner) values (1, 'a'), (2, 'b') returning id, owner as by`,
    )
    expect(inserted).toMatchObject({
      command: 'INSERT',
      rowCount: 2,
      fields: [{ name: 'id' }, { name: 'by' }],
      rows: [
        { id: 1, by: 'a' },
        { id: 2, by: 'b' },
      ],
    })
    expect(await pool.query(`update notes set owner = 'c' where id > 1`)).toMatchObject({
      command: 'UPDATE',
      rowCount: 1,
    })
    expect(await pool.query('create table other (x)')).toMatchObject({ command: 'CREATE', rowCount: null, rows: [] })
    expect(await pool.query('select 1 as a, 2 as a')).toMatchObject({
      command: 'SELECT',
      rowCount: 1,
      rows: [{ a: 2 }],
    })
    expect((await pool.query({ text: 'select 1 as a, 2 as a', rowMode: 'array' })).rows).toEqual([[1, 2]])
    expect(
      await pool.query('with d as (select 2 as id) delete from notes where id in (select id from d)'),
    ).toMatchObject({
      command: 'DELETE',
      rowCount: 1,
    })
    expect(await pool.query(`with "delete" as (select '(' as id) select * from "delete" -- '`)).toMatchObject({
      command: 'SELECT',
      rows: [{ id: '(' }],
    })
    expect(await pool.query(`/* ' */ replace into notes (id, owner) values (8, ')')`)).toMatchObject({
      command: 'INSERT',
      rowCount: 1,
    })
    expect(await pool.query(' -- nothing')).toMatchObject({ rows: [], rowCount: null })
    const { numUpdatedRows } = await db.updateTable('notes').set({ owner: 'd' }).executeTakeFirstOrThrow()
    expect(numUpdatedRows).toBe(2n)
    const returned = await db.insertInto('notes').values({ id: 9, owner: 'x' }).returning('id').executeTakeFirst()
    expect(returned).toEqual({ id: 9 })
    expect((await db.deleteFrom('notes').executeTakeFirst()).numDeletedRows).toBe(3n)
  })

  test('rejects a text with several statements and runs none of them', async () => {
    const { db, pool, transaction } = await one()
    for (const text of [
      'delete from notes; select 1',
      `insert into notes values (1, 'ä€😀', null);;insert into notes values (2, 'b', null)`,
      'select 1; selekt',
      'commit; select 1',
      `select 1; /* x */ -- y\n '`,
    ]) {
      await expect(raw(db, text), text).rejects.toMatchObject({ code: expect.stringMatching(/42601|42501/) })
      await expect(pool.query(text), text).rejects.toMatchObject({ code: expect.stringMatching(/42601|42501/) })
      await expect(
        transaction((tx) => raw(tx, text)),
        text,
      ).rejects.toBeDefined()
    }
    await expect(raw(db, 'select 1; select 2')).rejects.toMatchObject({ code: '42601' })
    await expect(raw(db, 'select 1\0; delete from notes')).rejects.toMatchObject({ code: '42601' })
    expect(await owners(db)).toEqual([])
    expect(await raw(db, `select ';' as a; -- ; select 2\n ; /* ; */`)).toEqual([{ a: ';' }])
    await raw(db, `create trigger t after insert on notes begin update notes set owner = 't'; select 1; end;`)
    await insert(db, 1)
    expect(await owners(db)).toEqual(['t'])
  })

  test('a violated constraint has the SQLSTATE of PostgreSQL and changes nothing', async () => {
    const { db } = await one()
    await insert(db, 1)
    await raw(db, 'create table checked (x integer check (x > 0), y unique)')
    await raw(db, 'insert into checked values (1, 1)')
    for (const [text, code] of [
      [`insert into notes (id, owner) values (2, 'b'), (1, 'again')`, '23505'],
      [`insert or fail into notes (id, owner) values (2, 'b'), (1, 'again')`, '23505'],
      ['insert into checked values (2, 1)', '23505'],
      [`insert into notes (id, owner) values (2, null)`, '23502'],
      [`insert into notes (id, owner, parent) values (2, 'b', 99)`, '23503'],
      ['insert into checked values (-1, 2)', '23514'],
      ['selekt', '42000'],
      ['select * from missing', '42000'],
    ] as const) {
      await expect(raw(db, text), text).rejects.toMatchObject({ code })
    }
    expect(await owners(db)).toEqual(['a'])
  })
})

describe('a transaction', () => {
  test('a transaction has exclusive use of the database: 100 concurrent increments lose none', async () => {
    const { db, transaction, pool } = await one()
    await raw(db, 'create table counters (n integer)')
    await raw(db, 'insert into counters values (0)')
    const increment = () =>
      transaction(async (tx) => {
        const [{ n }] = await raw(tx, 'select n from counters')
        await new Promise(setImmediate)
        await tx
          .updateTable('counters')
          .set({ n: n + 1 })
          .execute()
      })
    await Promise.all(Array.from({ length: 100 }, increment))
    expect((await pool.query('select n from counters')).rows).toEqual([{ n: 100 }])
  })

  test('a transaction is invisible before its end, and transactions run in the order of their requests', async () => {
    const { handles } = await opened('a', 'b')
    const [a, b] = handles as [StorageHandle, StorageHandle]
    const tx = await a.db.startTransaction().execute()
    await insert(tx, 1, 'open')
    const order: string[] = []
    const read = async () => order.push(`read ${await owners(a.db)}`)
    const write = async () => {
      await a.transaction(async (db) => {
        await insert(db, 2, 'second')
        await new Promise(setImmediate)
        order.push('second')
      })
    }
    const waiting: Promise<unknown>[] = []
    for (const work of [read, write, read]) {
      waiting.push(work())
      await arrived()
    }
    expect(await owners(b.db)).toEqual([])
    await tx.rollback().execute()
    await Promise.all(waiting)
    expect(order).toEqual(['read ', 'second', 'read second'])
  })

  test('the number of waiting statements and their waiting time are limited', async () => {
    const driver = await open([NOTES], { queuePerTenant: 1, waitMs: 1 })
    const { db, pool } = await provisioned(driver, 'a')
    const tx = await db.startTransaction().execute()
    await insert(tx, 1)
    const limited = { code: 'E_TENANT_CONNECTION_LIMIT', status: 503 }
    const [late, oneTooMany] = [pool.query('select 1'), pool.query('select 1')]
    await Promise.all([late, oneTooMany].map((waiting) => expect(waiting).rejects.toMatchObject(limited)))
    await expect(oneTooMany).rejects.toThrow('Too many statements')
    await expect(late).rejects.toThrow('within 1 ms')
    await tx.commit().execute()
    expect(await owners(db)).toEqual(['a'])
  })

  test('a transaction with a failed statement rejects other statements and its commit', async () => {
    const { db, transaction } = await one()
    const careless = transaction(async (tx) => {
      await insert(tx, 1)
      await raw(tx, 'select * from missing').catch(() => undefined)
      await expect(insert(tx, 2)).rejects.toMatchObject({ code: '25P02' })
    })
    await expect(careless).rejects.toThrow('The transaction was rolled back')
    expect(await owners(db)).toEqual([])
  })

  test.each([
    'insert or rollback into notes (id, owner) values (1, null)',
    `insert into notes (id, owner) values (7, 'roll')`,
  ])('a transaction has ended after a statement that rolled it back: %s', async (text) => {
    const { db, transaction } = await one()
    await raw(
      db,
      `create trigger t before insert on notes when new.owner = 'roll' begin select raise(rollback, 'no'); end`,
    )
    const lost = transaction(async (tx) => {
      await insert(tx, 1)
      await raw(tx, text).catch(() => undefined)
      for (const next of ['savepoint x', 'rollback to x', `insert into notes (id, owner) values (3, 'outside')`]) {
        await expect(raw(tx, next)).rejects.toBeDefined()
      }
    })
    await expect(lost).rejects.toThrow('The transaction was rolled back')
    expect(await owners(db)).toEqual([])
  })

  test('a transaction continues after a rollback to a savepoint', async () => {
    const { db } = await one()
    const outer = await db.startTransaction().execute()
    await insert(outer, 1)
    const inner = await outer.savepoint('in "ner').execute()
    await insert(inner, 2)
    await expect(insert(inner, 1)).rejects.toMatchObject({ code: '23505' })
    const back = await inner.rollbackToSavepoint('in "ner').execute()
    await insert(back, 3)
    const released = await back.releaseSavepoint('in "ner').execute()
    await released.commit().execute()
    expect(await owners(db)).toEqual(['a', 'a'])
  })

  test.each(['commit', 'rollback', 'end', 'begin', 'begin immediate'])(
    'a transaction is ended by its handle and not by a %s statement',
    async (word) => {
      const { db, transaction } = await one()
      const careless = transaction(async (tx) => {
        await insert(tx, 1)
        await raw(tx, word)
      })
      await expect(careless).rejects.toThrow('must not begin or end its transaction')
      await expect(raw(db, word)).rejects.toThrow('must not begin or end its transaction')
      await raw(db, 'savepoint left_open')
      expect(await owners(db)).toEqual([])
    },
  )

  test('a read-only transaction rejects writes, and the next transaction can write', async () => {
    const { db } = await one()
    const reading = db.transaction().setIsolationLevel('serializable').setAccessMode('read only')
    expect(await reading.execute(owners)).toEqual([])
    await expect(reading.execute((tx) => insert(tx, 1))).rejects.toThrow('The transaction is read only')
    await expect(reading.execute((tx) => raw(tx, 'create temporary table t (x)'))).rejects.toThrow(
      'The transaction is read only',
    )
    await insert(db, 1)
    expect(await owners(db)).toEqual(['a'])
  })

  test('a transaction whose commit fails is rolled back and releases the database', async () => {
    const { db, transaction } = await one()
    const orphan = sql`insert into notes (id, owner, parent) values (1, 'a', 99)`
    const deferred = async (tx: Kysely<any>) => {
      await raw(tx, 'pragma defer_foreign_keys = on')
      await orphan.execute(tx)
    }
    await expect(transaction(deferred)).rejects.toMatchObject({ code: '23503' })
    await insert(db, 2)
    expect(await owners(db)).toEqual(['a'])
  })
})

describe('client of the pool', () => {
  test('a client begins, commits and rolls back by statements and blocks no other client in between', async () => {
    const { pool } = await one()
    const [one_, other] = [await pool.connect(), await pool.connect()]
    await one_.query(`insert into notes (id, owner) values (1, 'alone')`)
    await one_.query('begin isolation level serializable')
    await one_.query('insert into notes (id, owner) values ($1, $2)', [2, 'lost'])
    await expect(one_.query('begin')).rejects.toMatchObject({ code: '25001' })
    await one_.query('rollback')
    await one_.query('rollback')
    await expect(one_.query('commit')).rejects.toThrow('no transaction in progress')
    await other.query('begin')
    await other.query(`insert into notes (id, owner) values (3, 'kept')`)
    await other.query('commit')
    expect((await one_.query('select owner from notes order by id')).rows).toEqual([
      { owner: 'alone' },
      { owner: 'kept' },
    ])
    one_.release()
    other.release()
  })

  test('a client runs statements in the order of the calls and takes the storage with its first query', async () => {
    const { pool } = await one()
    const [client, idle] = [await pool.connect(), await pool.connect()]
    await idle.query('begin')
    await Promise.all([
      client.query('begin'),
      client.query(`insert into notes (id, owner) values (1, 'kept')`),
      client.query('commit'),
      client.query('begin'),
      client.query(`insert into notes (id, owner) values (2, 'lost')`),
      client.query('rollback'),
    ])
    expect((await idle.query('select owner from notes')).rows).toEqual([{ owner: 'kept' }])
    await idle.query('commit')
    await idle.query('begin')
    await idle.query('commit')
    for (const one of [client, idle]) one.release()
  })

  test('the transaction of a client that is released is rolled back, and the client rejects further use', async () => {
    const { db, pool } = await one()
    for (const destroy of [false, true]) {
      const client = await pool.connect()
      await client.query('begin')
      await client.query(`insert into notes (id, owner) values (1, 'lost')`)
      client.release(destroy)
      client.release()
      await expect(client.query('select 1')).rejects.toThrow('released')
      await expect(client.query('begin')).rejects.toThrow('released')
      expect(await owners(db)).toEqual([])
    }
    const [holder, impatient] = [await pool.connect(), await pool.connect()]
    await holder.query('begin')
    await holder.query('select 1')
    await impatient.query('begin')
    const sent = [impatient.query('select 1'), impatient.query('select 2'), impatient.query('commit')]
    await arrived()
    impatient.release()
    const rejected = sent.map((one) => expect(one).rejects.toThrow(/released/))
    await holder.query('commit')
    await Promise.all(rejected)
    holder.release()
    expect(await owners(db)).toEqual([])
  })
})

describe('a migration', () => {
  test('migrations and their records are committed together, in order, and can be rolled back', async () => {
    const driver = await open([NOTES, TAGS])
    const location = locationOf(driver, 'a')
    expect(await driver.provision(location)).toEqual(['0001_notes', '0002_tags'])
    expect(await driver.provision(location)).toEqual(['0001_notes', '0002_tags'])
    expect(await driver.migrate(location)).toEqual([])
    expect(await driver.rollback(location, 1)).toEqual(['0002_tags'])
    expect(await driver.applied(location)).toEqual(['0001_notes'])
    await expect(raw(directHandle(driver, location).db, 'select * from tags')).rejects.toThrow('no such table')
    expect(await driver.migrate(location)).toEqual(['0002_tags'])
    expect(await driver.rollback(location, 9)).toEqual(['0002_tags', '0001_notes'])
    expect(await driver.applied(location)).toEqual([])
  })

  test('a failed migration rolls back all of its call and is named in the error', async () => {
    const failing: TenantMigration = {
      name: '0003_failing',
      checksum: '3',
      up: async (db) => void (await raw(db, 'selekt')),
    }
    const migrations = [NOTES]
    const driver = await open(migrations)
    const { db } = await provisioned(driver, 'a')
    await insert(db, 1)
    migrations.push(TAGS, failing)
    await expect(driver.migrate(locationOf(driver, 'a'))).rejects.toMatchObject({
      code: 'E_MIGRATION_FAILED',
      message: expect.stringMatching(/0003_failing \(up\) failed/),
    })
    expect(await driver.applied(locationOf(driver, 'a'))).toEqual(['0001_notes'])
    expect(await owners(db)).toEqual(['a'])
    await expect(raw(db, 'select note from notes')).rejects.toThrow('no such column: note')
    await expect(driver.provision(locationOf(driver, 'b'))).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED' })
    await expect(driver.applied(locationOf(driver, 'b'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
  })

  test.each<[string, TenantMigration['up']]>([
    ['ends its transaction', async (db) => void (await raw(db, 'commit'))],
    ['begins another', async (db) => void (await db.transaction().execute(async () => undefined))],
    ['continues after a failure', async (db) => void (await raw(db, 'selekt').catch(() => undefined))],
    [
      'leaves a violated foreign key',
      async (db) => {
        await raw(db, 'pragma defer_foreign_keys = on')
        await raw(db, `insert into notes (id, owner, parent) values (1, 'a', 99)`)
      },
    ],
  ])('rejects a migration that %s', async (_, up) => {
    const driver = await open([NOTES, { name: '0002_wrong', checksum: '2', up }])
    await expect(driver.provision(locationOf(driver, 'a'))).rejects.toMatchObject({
      code: expect.stringMatching(/E_MIGRATION_FAILED|23503/),
    })
    await expect(driver.applied(locationOf(driver, 'a'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
  })

  test('a handle kept from a migration cannot be used after it', async () => {
    let kept: Kysely<any> | undefined
    const keeping: TenantMigration = {
      name: '0002_keeping',
      checksum: '2',
      up: async (db) => {
        kept = db
      },
    }
    await provisioned(await open([NOTES, keeping]), 'a')
    await expect(kept && owners(kept)).rejects.toThrow('was released')
  })

  test('rejects a migration in SQL with its name and the remedy, and creates nothing', async () => {
    const driver = await open([NOTES, { name: '0002_sql', checksum: '', up: 'create table t (x int)' }])
    const rejected = {
      code: 'E_MIGRATION_FAILED',
      message: expect.stringContaining('write it as 0002_sql.ts with up(db)'),
    }
    await expect(driver.provision(locationOf(driver, 'a'))).rejects.toMatchObject(rejected)
    await expect(driver.applied(locationOf(driver, 'a'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    const back = await open([{ ...NOTES, down: 'drop table notes' }])
    await back.provision(locationOf(back, 'a'))
    await expect(back.rollback(locationOf(back, 'a'), 1)).rejects.toThrow('0001_notes is written in SQL')
    expect(await back.applied(locationOf(back, 'a'))).toEqual(['0001_notes'])
  })

  test('rejects a migration that is changed, unknown or has no "down"', async () => {
    const migrations = [NOTES, { ...TAGS, down: undefined }]
    const driver = await open(migrations)
    const location = locationOf(driver, 'a')
    await driver.provision(location)
    await expect(driver.rollback(location, 2)).rejects.toThrow('0002_tags cannot be rolled back')
    migrations.splice(0, 2, { ...NOTES, checksum: 'edited' })
    await expect(driver.migrate(location)).rejects.toThrow('0001_notes was changed after it was run')
    await expect(driver.provision(location)).rejects.toThrow('0001_notes was changed')
    migrations.splice(0, 1, NOTES)
    expect(await driver.applied(location)).toEqual(['0001_notes', '0002_tags'])
    await expect(driver.rollback(location, 1)).rejects.toThrow('0002_tags is unknown here')
  })

  test('a migration waits for a transaction up to its timeout and then changes nothing', async () => {
    const driver = await open([NOTES], { waitMs: 20_000 })
    const { db } = await provisioned(driver, 'a')
    const tx = await db.startTransaction().execute()
    await owners(tx)
    for (const change of [
      driver.migrate,
      (...[location, options]: Parameters<typeof driver.migrate>) => driver.rollback(location, 1, options),
    ]) {
      await expect(change(locationOf(driver, 'a'), { lockTimeoutMs: 1 })).rejects.toMatchObject({
        code: 'E_TENANT_CONNECTION_LIMIT',
        message: expect.stringContaining('within 1 ms'),
      })
    }
    await tx.commit().execute()
    expect(await driver.applied(locationOf(driver, 'a'))).toEqual(['0001_notes'])
  })

  test('a migration runs once with many concurrent calls', async () => {
    let runs = 0
    const counting: TenantMigration = {
      name: '0002_counting',
      checksum: '2',
      up: async (db) => {
        await new Promise(setImmediate)
        await raw(db, `insert into notes (id, owner) values (1, 'once')`)
        runs++
      },
    }
    const migrations = [NOTES]
    const driver = await open(migrations)
    const { db } = await provisioned(driver, 'a')
    migrations.push(counting)
    const ran = await Promise.all(Array.from({ length: 10 }, () => driver.migrate(locationOf(driver, 'a'))))
    expect(ran.flat()).toEqual(['0002_counting'])
    expect([runs, await owners(db)]).toEqual([1, ['once']])
  })
})

describe('storage', () => {
  test('concurrent calls create storage once, and it is visible only when it is complete', async () => {
    const slow: TenantMigration = {
      ...TAGS,
      up: async (db) => {
        await new Promise(setImmediate)
        await raw(db, 'create table tags (tag)')
      },
    }
    const driver = await open([NOTES, slow])
    const location = locationOf(driver, 'a')
    const { db } = directHandle(driver, location)
    const making = Array.from({ length: 5 }, () => driver.provision(location))
    await expect(raw(db, 'select * from notes')).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    await making[0]
    await insert(db, 1)
    expect(await Promise.all(making)).toEqual(Array(5).fill(['0001_notes', '0002_tags']))
    expect(await owners(db)).toEqual(['a'])
  })

  test('storage that is missing in this process is reported as an error and never created silently', async () => {
    const { driver } = await opened('a')
    const location = locationOf(driver, 'elsewhere')
    const { db, pool, transaction } = directHandle(driver, location)
    const missing = {
      code: 'E_TENANT_NOT_READY',
      status: 503,
      message: expect.stringContaining('Create the tenant again'),
    }
    for (const asking of [
      () => raw(db, 'select 1'),
      () => pool.query('select 1'),
      () => transaction((tx) => raw(tx, 'select 1')),
      () => driver.applied(location),
      () => driver.migrate(location),
      () => driver.rollback(location, 1),
      () => driver.unfence(location),
      () => directHandle(driver, { ...locationOf(driver, 'a'), placement: 'other' }).pool.query('select 1'),
    ]) {
      await expect(asking()).rejects.toMatchObject(missing)
    }
    await driver.fence(location)
    await driver.drop(location)
    expect(await driver.isFenced(location)).toBe(false)
    await expect(driver.provision({ ...location, placement: 'other' })).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
    })
  })

  test('fenced storage rejects every statement, also of open transactions, until it is opened', async () => {
    const { driver, handles } = await opened('a', 'b')
    const [{ db, pool, transaction }, b] = handles as [StorageHandle, StorageHandle]
    const location = locationOf(driver, 'a')
    await insert(db, 1)
    const client = await pool.connect()
    const [inside, ending] = [await pool.connect(), await pool.connect()]
    await inside.query('begin')
    await inside.query(`insert into notes (id, owner) values (2, 'late')`)
    const waiting = owners(db)
    await driver.fence(location)
    await driver.fence(location)
    expect(await driver.isFenced(location)).toBe(true)
    const fenced = { code: 'E_TENANT_STORAGE_FENCED' }
    await expect(inside.query('select 1')).rejects.toMatchObject(fenced)
    await inside.query('rollback')
    await expect(waiting).rejects.toMatchObject(fenced)
    for (const asking of [
      () => owners(db),
      () => client.query('select 1'),
      () => inTransaction(client),
      () => transaction(owners),
    ]) {
      const rejected = await asking().then(
        () => undefined,
        (error: unknown) => error,
      )
      expect(rejected).toMatchObject(fenced)
      expect(driver.mayBeFence(rejected)).toBe(true)
    }
    expect(await owners(b.db)).toEqual([])
    expect(await driver.applied(location)).toEqual(['0001_notes'])
    expect(await driver.migrate(location)).toEqual([])
    await driver.unfence(location)
    expect(await driver.isFenced(location)).toBe(false)
    await ending.query('begin')
    await ending.query(`insert into notes (id, owner) values (3, 'late')`)
    await driver.fence(location)
    await expect(ending.query('commit')).rejects.toMatchObject(fenced)
    await driver.provision(location)
    expect(await owners(db)).toEqual(['a'])
    for (const one of [client, inside, ending]) one.release()
  })

  test('a transaction that a drain has ended rejects its statements and its commit as fenced', async () => {
    const { driver, handles } = await opened('a')
    const [{ db, pool }] = handles as [StorageHandle]
    const location = locationOf(driver, 'a')
    const [reading, ending] = [await pool.connect(), await pool.connect()]
    const fenced = { code: 'E_TENANT_STORAGE_FENCED' }
    for (const [client, statement] of [
      [reading, 'select 1'],
      [ending, 'commit'],
    ] as const) {
      await client.query('begin')
      await client.query(`insert into notes (id, owner) values (1, 'late')`)
      await driver.fence(location)
      await driver.drain(location, { graceMs: 0 })
      await expect(client.query(statement)).rejects.toMatchObject(fenced)
      client.release()
      await driver.unfence(location)
    }
    expect(await owners(db)).toEqual([])
  })

  test('a drop ends open transactions and rejects waiting statements', async () => {
    const { driver, handles } = await opened('a')
    const [{ db }] = handles as [StorageHandle]
    const location = locationOf(driver, 'a')
    const kept = await driver.connect(location)
    const tx = await db.startTransaction().execute()
    await insert(tx, 1)
    const missed = expect(owners(db)).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    await arrived()
    await driver.drop(location)
    await driver.drop(location)
    await missed
    await expect(owners(tx)).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    await expect(tx.commit().execute()).rejects.toThrow('rolled back')
    await expect(owners(db)).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    expect(await owners((await provisioned(driver, 'a')).db)).toEqual([])
    await expect(kept.query({ text: 'select 1' })).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
  })

  test('each epoch of a tenant has different storage', async () => {
    const { driver, handles } = await opened('a')
    const [{ db }] = handles as [StorageHandle]
    await insert(db, 1)
    const next = { ...locationOf(driver, 'a'), locator: driver.locator('a', 2), epoch: 2 }
    await driver.provision(next)
    expect(await owners(directHandle(driver, next).db)).toEqual([])
    await driver.drop(locationOf(driver, 'a'))
    expect(await owners(directHandle(driver, next).db)).toEqual([])
  })
})

describe('driver sqlite-memory', () => {
  test('the driver reports its capabilities and an empty audit', async () => {
    const { driver } = await opened('a')
    expect(driver.capabilities).toMatchObject({
      engine: 'sqlite',
      separateStorage: true,
      durable: false,
      copies: false,
      containsTenantSql: false,
    })
    const locations = (async function* () {
      yield locationOf(driver, 'a')
    })()
    for await (const finding of driver.audit(locations)) expect(finding).toBeUndefined()
  })

  test('the driver does not start in production and does not start twice', async () => {
    vi.stubEnv('NODE_ENV', 'production')
    await expect(open()).rejects.toThrow('does not start with NODE_ENV=production')
    vi.unstubAllEnvs()
    await expect(
      (await open()).start({
        installation: 'sqlite',
        placements: new Map(),
        migrations: [],
        generation: () => 0,
        log: createLogger({ level: 'silent' }),
      }),
    ).rejects.toThrow('A driver serves one tenancy')
  })

  test('the driver rejects copies and names the remedy', async () => {
    const { driver } = await opened('a')
    const rejected = {
      code: 'E_NOT_SUPPORTED',
      status: 409,
      message: expect.stringContaining('use an isolation driver for PostgreSQL'),
    }
    const options = { signal: new AbortController().signal }
    await expect(driver.export(locationOf(driver, 'a'), async () => undefined, options)).rejects.toMatchObject(rejected)
    await expect(driver.import(locationOf(driver, 'b'), {} as TenantCopy, options)).rejects.toMatchObject(rejected)
  })

  test('the driver loses all rows when it stops, and rejects waiting statements', async () => {
    const { driver, handles } = await opened('a')
    const [{ db }] = handles as [StorageHandle]
    const tx = await db.startTransaction().execute()
    await insert(tx, 1)
    const waiting = expect(owners(db)).rejects.toThrow('was stopped')
    await arrived()
    await driver.stop()
    await waiting
    await expect(owners(tx)).rejects.toThrow('was stopped')
    await expect(owners(db)).rejects.toThrow('not started')
    const again = await open()
    await expect(owners(directHandle(again, locationOf(again, 'a')).db)).rejects.toMatchObject({
      code: 'E_TENANT_NOT_READY',
    })
  })

  test('a driver that is stopped while it creates storage keeps none', async () => {
    const driver = await open()
    const making = driver.provision(locationOf(driver, 'a'))
    await driver.stop()
    await expect(making).rejects.toThrow(/stopped|not started/)
  })
})
