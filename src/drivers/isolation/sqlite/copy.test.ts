/** Copies of what sqlite-memory keeps: to another place of its own, and to PostgreSQL and back. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { IsolationDriver, Placement, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { type BufferedCopy, exported, held, never, replayed } from '../copy/copy.fixture.ts'
import { createInstallation, locationOf } from '../roles/installation.fixture.ts'
import { schemaPg } from '../schema-pg.ts'
import { sqliteMemory } from './driver.ts'

const migration = (name: string, ...statements: readonly string[]): TenantMigration => ({
  name,
  checksum: name,
  up: async (db) => {
    for (const text of statements) await sql.raw(text).execute(db)
  },
})
const drivers: IsolationDriver[] = []
afterEach(async () => {
  for (const driver of drivers.splice(0)) await driver.stop()
})

async function open(migrations: readonly TenantMigration[]): Promise<IsolationDriver> {
  const driver = sqliteMemory()
  const connections = { max: 10, perTenant: 5, queuePerTenant: 100, waitMs: 5_000 }
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
const run = async (driver: IsolationDriver, location: StorageLocation, text: string, values: readonly unknown[] = []) =>
  (await driver.execute(location, { text, values, rowMode: 'array' })).rows as unknown[][]
/** Each value with its type, in the order in which rows were put there. */
async function contents(driver: IsolationDriver, location: StorageLocation, table: string, columns: readonly string[]) {
  const selected = columns.flatMap((column) => [`typeof(${column})`, column])
  return run(driver, location, `select ${selected.join(', ')} from ${table}`)
}
const into = (driver: IsolationDriver, location: StorageLocation, copy: TenantCopy | BufferedCopy, bytes?: number) =>
  driver.import(location, 'csv' in copy ? replayed(copy, bytes) : copy, { signal: never() })
/** The same with other lines in one table. */
const altered = (copy: BufferedCopy, table: string, csv: string, rows = csv.split('\n').length - 2): BufferedCopy => ({
  ...copy,
  csv: new Map([...copy.csv, [table, csv]]),
  totals: copy.totals.map((one) => (one.name === table ? { name: table, rows, bytes: Buffer.byteLength(csv) } : one)),
})

const NOTES = migration(
  '0001_notes',
  `create table notes (tenant_id text not null default '', id integer primary key autoincrement, text text not null, parent integer references notes)`,
)
const TAGS = migration('0002_tags', `create table tags (tag text primary key, uses int not null default 7)`)
async function withNotes(...migrations: readonly TenantMigration[]) {
  const driver = await open([NOTES, ...migrations])
  const [source, target] = [locationOf(driver, 'source'), locationOf(driver, 'target')]
  await driver.provision(source)
  return { driver, source, target }
}

describe('a copy of sqlite-memory', () => {
  const value = fc.oneof(
    fc.constant(null),
    fc.string({ unit: 'binary' }),
    fc.constantFrom('', ' ', '"', ',', '\n', '\r\n', '\\x00', '1', '1.5', 'NULL', '\\.', 'a\0b', '😀'),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.integer(),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  )
  const float = fc.oneof(
    fc.double({ noNaN: true }),
    fc.constantFrom(
      1e308,
      5e-324,
      -0,
      1,
      1.0000000000000002,
      1e21,
      123456789012345680,
      Infinity,
      -Infinity,
      2 ** 53,
      2 ** 63,
    ),
  )
  const cell = fc.oneof(
    { weight: 3, arbitrary: value.map((value) => ({ value, as: 'any' })) },
    { weight: 1, arbitrary: float.map((value) => ({ value, as: 'real' })) },
  )

  test('is what it was: every value and its type, whatever the columns are', async () => {
    const types = ['', 'integer', 'real', 'text', 'blob', 'numeric', 'varchar(20)', 'boolean', 'timestamp']
    const columns = types.map((_, at) => `c${at}`)
    const driver = await open([
      migration(
        '0001_all',
        `create table "all of it" (${types.map((type, at) => `${columns[at]} ${type}`).join(', ')})`,
      ),
    ])
    let number = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(...types.map(() => cell)), { maxLength: 6 }),
        fc.integer({ min: 1, max: 40 }),
        async (rows, bytes) => {
          const [source, target] = [locationOf(driver, `s${++number}`), locationOf(driver, `t${number}`)]
          await driver.provision(source)
          for (const row of rows) {
            const placed = row.map(({ as }, at) => (as === 'real' ? `cast($${at + 1} as real)` : `$${at + 1}`))
            const values = row.map(({ value }) => value)
            await run(driver, source, `insert into "all of it" values (${placed.join(', ')})`, values)
          }
          const before = await contents(driver, source, '"all of it"', columns)
          const copy = await exported(driver, source)
          expect(copy.totals).toMatchObject([{ name: 'all of it', rows: rows.length }])
          const { rows: counted } = await into(driver, target, copy, bytes)
          expect([...counted]).toEqual([['all of it', rows.length]])
          expect(await contents(driver, target, '"all of it"', columns)).toEqual(before)
          await Promise.all([driver.drop(source), driver.drop(target)])
        },
      ),
      { numRuns: 100 },
    )
  })

  test('is CSV in which texts have quotes, and nothing else has', async () => {
    const driver = await open([migration('0001', 'create table t (a, "b c", tenant_id, twice as (a || a))')])
    const location = locationOf(driver, 'a')
    await driver.provision(location)
    await run(driver, location, 'insert into t values ($1, $2, $3)', ['1', 1, null])
    await run(driver, location, 'insert into t values ($1, $2, $3)', [null, '', '"'])
    await run(
      driver,
      location,
      `insert into t values (1e308, x'00ff', -9223372036854775808), (9e999, 1.0, 1e21), (0.0 * -1, null, null)`,
    )
    const { description, csv, totals } = await exported(driver, location)
    const text = 'a,b c,tenant_id\n"1",1,\n,"",""""\n1e+308,\\x00ff,-9223372036854775808\nInfinity,1.0,1e+21\n-0.0,,\n'
    expect(csv.get('t')).toBe(text)
    expect(totals).toEqual([{ name: 't', rows: 5, bytes: Buffer.byteLength(text) }])
    expect(description).toEqual({
      engine: 'sqlite',
      isolation: 'sqlite-memory',
      migrations: [{ name: '0001', checksum: '0001' }],
      tables: [
        {
          name: 't',
          columns: ['a', 'b c', 'tenant_id'].map((name) => ({ name, type: '' })),
        },
      ],
      sequences: [],
    })
    const target = locationOf(driver, 'b')
    await into(driver, target, { description, csv, totals })
    expect(await run(driver, target, 'select * from t')).toEqual(await run(driver, location, 'select * from t'))
  })

  test('leaves out whose the rows are, and what follows from others', async () => {
    const { driver, source } = await withNotes(
      migration('0002', 'create table sums (a int, b int, c int as (a + b) stored, d int as (a - b))'),
    )
    const { description } = await exported(driver, source)
    expect(description.tables.map(({ name, columns }) => [name, columns.map((column) => column.name)])).toEqual([
      ['notes', ['id', 'text', 'parent']],
      ['sums', ['a', 'b']],
    ])
  })

  test('has tables of any kind: without a rowid, strict, without a column to be copied, empty', async () => {
    const driver = await open([
      migration(
        '0001',
        'create table by_key (a text, b int, primary key (a, b)) without rowid',
        'create table strictly (a any, b int, c blob) strict',
        `create table bare (tenant_id text default 'x', twice as (tenant_id || tenant_id))`,
        'create table empty (a)',
      ),
    ])
    const [source, target] = [locationOf(driver, 'source'), locationOf(driver, 'target')]
    await driver.provision(source)
    await run(driver, source, `insert into by_key values ('b', 2), ('a', 1)`)
    await run(driver, source, `insert into strictly values (1.5, 7, x'01'), ('1', null, null), (null, 1, null)`)
    await run(driver, source, 'insert into bare default values')
    await run(driver, source, 'insert into bare default values')
    const { rows } = await into(driver, target, await exported(driver, source), 3)
    expect(Object.fromEntries(rows)).toEqual({ by_key: 2, strictly: 3, bare: 2, empty: 0 })
    for (const [table, columns] of Object.entries({
      by_key: ['a', 'b'],
      strictly: ['a', 'b', 'c'],
      bare: ['tenant_id'],
    })) {
      expect(await contents(driver, target, table, columns)).toEqual(await contents(driver, source, table, columns))
    }
  })

  test('goes on with numbers after those that were given, also of rows that are gone', async () => {
    const { driver, source, target } = await withNotes()
    await run(driver, source, `insert into notes (text) values ('a'), ('b'), ('c')`)
    await run(driver, source, 'delete from notes where id > 1')
    const copy = await exported(driver, source)
    expect(copy.description.sequences).toEqual([{ name: 'notes', lastValue: '3', isCalled: true }])
    await into(driver, target, copy)
    expect(await run(driver, target, `insert into notes (text) values ('d') returning id`)).toEqual([[4]])
    const behind = locationOf(driver, 'behind')
    await into(driver, behind, altered(copy, 'notes', 'id,text,parent\n9,"later",\n'))
    await run(driver, behind, 'delete from notes')
    expect(await run(driver, behind, `insert into notes (text) values ('d') returning id`)).toEqual([[10]])
    const emptied = locationOf(driver, 'emptied')
    await into(driver, emptied, altered(copy, 'notes', 'id,text,parent\n'))
    expect(await run(driver, emptied, `insert into notes (text) values ('d') returning id`)).toEqual([[4]])
  })

  test('has rows that refer to later ones and to each other, and is refused when they refer to nothing', async () => {
    const { driver, source, target } = await withNotes(
      migration(
        '0002',
        'create table hens (id integer primary key, egg int not null references eggs deferrable initially deferred)',
        'create table eggs (id integer primary key, hen int not null references hens on delete restrict)',
      ),
    )
    await directHandle(driver, source).transaction(async (db) => {
      await sql`insert into notes (id, text) values (2, 'root')`.execute(db)
      await sql`insert into notes (id, text, parent) values (1, 'leaf', 2)`.execute(db)
      await sql`insert into hens values (1, 1)`.execute(db)
      await sql`insert into eggs values (1, 1)`.execute(db)
    })
    const copy = await exported(driver, source)
    expect(copy.csv.get('notes')).toBe('id,text,parent\n1,"leaf",2\n2,"root",\n')
    await into(driver, target, copy)
    expect(await run(driver, target, 'select egg, hen from hens join eggs on egg = eggs.id')).toEqual([[1, 1]])
    await expect(run(driver, target, 'insert into eggs values (2, 9)')).rejects.toMatchObject({ code: '23503' })
    const loose = altered(copy, 'notes', 'id,text,parent\n1,"leaf",2\n')
    const refused = locationOf(driver, 'refused')
    await expect(into(driver, refused, loose)).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
      message: 'A row of the copy for the table "notes" refers to one that is not there.',
    })
    await into(driver, refused, copy) // nothing was left of it
  })

  test('does not run triggers, and has them again afterwards, in their order', async () => {
    const { driver, source, target } = await withNotes(
      migration(
        '0002',
        'create table journal (what text)',
        `create trigger first after insert on notes begin insert into journal values ('first'); end`,
        `create trigger "sec""ond" after insert on notes begin insert into journal values ('second'); end`,
        `create trigger loud before insert on notes when new.text = 'loud' begin select raise(abort, 'too loud'); end`,
        `create view shown as select text from notes`,
        `create trigger through instead of insert on shown begin insert into notes (text) values (new.text); end`,
      ),
    )
    await run(driver, source, `insert into notes (text) values ('a')`)
    await run(driver, source, `update notes set text = 'loud'`)
    const before = await run(driver, source, 'select what from journal')
    await into(driver, target, await exported(driver, source))
    expect(await run(driver, target, 'select what from journal')).toEqual(before)
    expect(await run(driver, target, 'select text from notes')).toEqual([['loud']])
    for (const location of [source, target]) await run(driver, location, `insert into shown values ('b')`)
    expect(await run(driver, target, 'select what from journal')).toEqual(
      await run(driver, source, 'select what from journal'),
    )
    await expect(run(driver, target, `insert into shown values ('loud')`)).rejects.toMatchObject({ code: 'P0001' })
    const triggers = `select name, sql from sqlite_schema where type = 'trigger' order by rowid`
    expect(await run(driver, target, triggers)).toEqual(await run(driver, source, triggers))
  })

  test.each([
    ['fts5', 'create virtual table found using fts5(text)', `found match 'fox'`],
    [
      'fts5 over another table',
      `create virtual table found using fts5(text, content='notes', content_rowid='id')`,
      `found match 'fox'`,
    ],
    ['fts4', 'create virtual table found using fts4(text)', `found match 'fox'`],
  ])('has what a full-text table has: %s', async (_, text, condition) => {
    const { driver, source, target } = await withNotes(
      migration(
        '0002',
        text,
        `insert into notes (text) values ('an old fox')`,
        `insert into found (rowid, text) select id, text from notes`,
      ),
      {
        name: '0003',
        checksum: '',
        up: async (db) => void (await sql.raw(`select * from found where ${condition}`).execute(db)),
      },
    )
    await run(
      driver,
      source,
      text.includes('content=')
        ? `insert into found (found, rowid, text) values ('delete', 1, 'an old fox')`
        : 'delete from found',
    )
    await run(driver, source, 'delete from notes')
    const look = async (location: StorageLocation) => [
      await run(driver, location, `select rowid, text from found where ${condition} order by rowid`),
      await run(driver, location, 'pragma integrity_check'),
      await run(driver, location, `insert into found (found) values ('integrity-check')`),
    ]
    for (const words of ['a quick fox', 'a lazy dog', 'the fox again', 'gone']) {
      const [[id]] = (await run(driver, source, 'insert into notes (text) values ($1) returning id', [words])) as [
        [number],
      ]
      await run(driver, source, 'insert into found (rowid, text) values ($1, $2)', [id, words])
    }
    const before = await look(source)
    expect(before[0]).toHaveLength(2)
    await into(driver, target, await exported(driver, source))
    expect(await look(target)).toEqual(before)
    for (const storage of [source, target]) {
      await run(driver, storage, `insert into notes (id, text) values (9, 'fox nine')`)
      await run(driver, storage, `insert into found (rowid, text) values (9, 'fox nine')`)
    }
    expect(await look(target)).toEqual(await look(source))
    await expect(run(driver, target, 'delete from found_content')).rejects.toThrow(/may not be modified|no such table/)
  })

  test('has what a spatial table has', async () => {
    const { driver, source, target } = await withNotes(
      migration('0002', 'create virtual table areas using rtree(id, x0, x1, y0, y1)'),
    )
    for (let id = 0; id < 200; id++) {
      await run(driver, source, 'insert into areas values ($1, $2, $3, $4, $5)', [id, id, id + 2, -id, 1 - id])
    }
    await into(driver, target, await exported(driver, source))
    const within = 'select id from areas where x0 > 50 and x1 < 70 order by id'
    expect(await run(driver, target, within)).toEqual(await run(driver, source, within))
    await run(driver, target, 'insert into areas values (500, 60, 61, 0, 1)')
    expect((await run(driver, target, within)).at(-1)).toEqual([500])
  })
})

describe('while sqlite-memory is read', () => {
  test('its tenant goes on: what is written meanwhile is not in the copy, and is not lost', async () => {
    const { driver, source } = await withNotes(TAGS)
    await run(driver, source, `insert into notes (text) values ('before')`)
    await run(driver, source, `insert into tags (tag) values ('before')`)
    const copy = await driver.export(
      source,
      async (copy) => {
        const lines: string[] = []
        for await (const { csv } of copy.tables()) {
          await run(driver, source, `insert into notes (text) values ('meanwhile')`)
          await run(driver, source, `update tags set tag = tag || '!'`)
          await run(driver, source, 'create table if not exists made (a)')
          for await (const chunk of csv) lines.push(chunk.toString())
        }
        return { lines, totals: await copy.totals() }
      },
      { signal: never() },
    )
    expect(copy.lines).toEqual(['id,text,parent\n1,"before",\n', 'tag,uses\n"before",7\n'])
    expect(await run(driver, source, 'select text from notes')).toEqual([['before'], ['meanwhile'], ['meanwhile']])
    expect(await run(driver, source, 'select tag from tags')).toEqual([['before!!']])
    expect(driver.connections()).toMatchObject([{ idle: 1, busy: 0, waiting: 0 }])
  })

  test('it has what was committed, and waits for a transaction that has it', async () => {
    const { driver, source } = await withNotes()
    const tx = await directHandle(driver, source).db.startTransaction().execute()
    await sql`insert into notes (text) values ('open')`.execute(tx)
    const reading = exported(driver, source)
    await sql`insert into notes (text) values ('still open')`.execute(tx)
    await tx.commit().execute()
    expect((await reading).totals).toMatchObject([{ rows: 2 }])
  })

  test('a fence does not matter, and what is not read to its end is no copy', async () => {
    const { driver, source } = await withNotes(TAGS)
    await driver.fence(source)
    expect((await exported(driver, source)).totals).toHaveLength(2)
    const skipping = driver.export(
      source,
      async (copy) => {
        for await (const { table } of copy.tables()) expect(table.name).toBe('notes')
      },
      { signal: never() },
    )
    await expect(skipping).rejects.toThrow('was not read to its end')
    const early = driver.export(source, (copy) => copy.totals(), { signal: never() })
    await expect(early).rejects.toThrow('not all tables')
    await expect(exported(driver, locationOf(driver, 'never'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
  })

  test('it may be given up', async () => {
    const { driver, source } = await withNotes()
    for (let n = 0; n < 200; n++) await run(driver, source, 'insert into notes (text) values ($1)', ['x'.repeat(1_000)])
    const giving = new AbortController()
    const reading = driver.export(
      source,
      async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) giving.abort(new Error('enough'))
      },
      { signal: giving.signal },
    )
    await expect(reading).rejects.toThrow('enough')
    await expect(driver.export(source, held, { signal: giving.signal })).rejects.toThrow('enough')
    expect(await run(driver, source, 'select count(*) from notes')).toEqual([[200]])
  })
})

describe('an import into sqlite-memory', () => {
  test('has the migrations that the copy had, then its rows, then the others', async () => {
    const seeded = migration(
      '0002_seed',
      `insert into notes (id, text) values (1, 'by a migration'), (7, 'this one too')`,
    )
    const { driver, source } = await withNotes(seeded)
    await run(driver, source, `update notes set text = 'changed' where id = 1`)
    await run(driver, source, 'delete from notes where id = 7')
    const copy = await exported(driver, source)
    const later = await open([
      NOTES,
      seeded,
      migration(
        '0003_upper',
        `update notes set text = upper(text)`,
        'create table more (a)',
        'insert into more values (1)',
      ),
    ])
    const target = locationOf(later, 'target')
    const phases: string[] = []
    const imported = await later.import(target, replayed(copy), {
      signal: never(),
      onPhase: (phase) => phases.push(phase),
    })
    expect(imported.migrations).toEqual(['0001_notes', '0002_seed', '0003_upper'])
    expect([...imported.rows]).toEqual([['notes', 1]])
    expect(phases).toEqual(['making', 'loading', 'indexing', 'migrating'])
    expect(await run(later, target, 'select id, text from notes')).toEqual([[1, 'CHANGED']])
    expect(await run(later, target, 'select a from more')).toEqual([[1]])
    expect(await later.applied(target)).toEqual(imported.migrations)
    expect(await run(later, target, `insert into notes (text) values ('x') returning id`)).toEqual([[8]])
  })

  test.each<[string, (copy: BufferedCopy) => BufferedCopy, string]>([
    [
      'an unknown migration',
      (copy) => ({
        ...copy,
        description: {
          ...copy.description,
          migrations: [...copy.description.migrations, { name: '0009_other', checksum: 'x' }],
        },
      }),
      'not known here: 0009_other',
    ],
    [
      'an edited migration',
      (copy) => ({
        ...copy,
        description: { ...copy.description, migrations: [{ name: '0001_notes', checksum: 'other' }, TAGS] },
      }),
      'changed since: 0001_notes',
    ],
    [
      'a table that is not there',
      (copy) => ({
        ...copy,
        description: { ...copy.description, tables: [...copy.description.tables, { name: 'others', columns: [] }] },
      }),
      'there is no table "others"',
    ],
    [
      'a column that is not there',
      (copy) => ({
        ...copy,
        description: {
          ...copy.description,
          tables: copy.description.tables.map((table) => ({
            ...table,
            columns: [...table.columns, { name: 'more', type: 'text' }],
          })),
        },
      }),
      'there is no column "more" in the table "notes"',
    ],
    [
      'a column that must have a value',
      (copy) => ({
        ...copy,
        description: {
          ...copy.description,
          tables: copy.description.tables.map((table) => ({
            ...table,
            columns: table.columns.filter(({ name }) => name !== 'text'),
          })),
        },
      }),
      'the column "text" of the table "notes" must have values',
    ],
    [
      'other names of columns',
      (copy) => altered(copy, 'notes', 'id,parent,text\n1,"a",\n'),
      'does not begin with the names of its columns',
    ],
    [
      'a line that is too short',
      (copy) => altered(copy, 'notes', 'id,text,parent\n1,"a"\n'),
      'A row of the copy for the table "notes" is not whole',
    ],
    ['nothing at all', (copy) => altered(copy, 'notes', '', 0), 'The copy of the table "notes" is not whole'],
    [
      'a row less than it says',
      (copy) => altered(copy, 'notes', 'id,text,parent\n1,"a",\n', 2),
      'has 2 rows of the table "notes", and 1 are there',
    ],
    [
      'two rows with one key',
      (copy) => altered(copy, 'notes', 'id,text,parent\n1,"a",\n1,"b",\n'),
      'A row of the copy for the table "notes" is refused there',
    ],
    [
      'a text for a number',
      (copy) => altered(copy, 'notes', 'id,text,parent\n"x","a",\n'),
      'A row of the copy for the table "notes" is refused there',
    ],
    [
      'a value that is none',
      (copy) => altered(copy, 'notes', 'id,text,parent\nnil,"a",\n'),
      'It is in the table "notes"',
    ],
    [
      'an integer of more than 64 bits',
      (copy) => altered(copy, 'notes', 'id,text,parent\n9223372036854775808,"a",\n'),
      'It is in the table "notes"',
    ],
    ['half a value', (copy) => altered(copy, 'notes', 'id,text,parent\n1,"a'), 'ends within a value'],
  ])('refuses %s, and leaves nothing', async (_, change, message) => {
    const { driver, source, target } = await withNotes(TAGS)
    await run(driver, source, `insert into notes (text) values ('a')`)
    const copy = await exported(driver, source)
    await expect(into(driver, target, change(copy))).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
      message: expect.stringContaining(message),
    })
    await expect(run(driver, target, 'select 1')).rejects.toMatchObject({ code: 'E_TENANT_NOT_READY' })
    await driver.drop(target)
    await into(driver, target, copy)
    expect(await run(driver, target, 'select text from notes')).toEqual([['a']])
  })

  test('refuses storage that is there, whichever comes first', async () => {
    const { driver, source, target } = await withNotes()
    const copy = await exported(driver, source)
    await expect(into(driver, source, copy)).rejects.toMatchObject({ code: 'E_STORAGE_EXISTS' })
    const both = await Promise.allSettled([into(driver, target, copy), into(driver, target, copy)])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(await run(driver, target, 'select count(*) from notes')).toEqual([[0]])
  })

  test('passes on what its copy throws, a table that is missing included, and may be given up', async () => {
    const { driver, source, target } = await withNotes(TAGS)
    const copy = await exported(driver, source)
    const lost: TenantCopy = {
      ...replayed(copy),
      async *tables() {
        for await (const table of replayed(copy).tables()) {
          yield table
          throw new Error('the archive is gone')
        }
      },
    }
    await expect(into(driver, target, lost)).rejects.toThrow('the archive is gone')
    const part: TenantCopy = {
      ...replayed(copy),
      async *tables() {
        for await (const table of replayed(copy).tables()) if (table.table.name === 'notes') yield table
      },
    }
    await expect(into(driver, target, part)).rejects.toThrow('The copy ends before the table "tags".')
    const giving = new AbortController()
    const given: string[] = []
    const long: TenantCopy = {
      ...replayed(copy),
      async *tables() {
        const [table] = copy.description.tables
        if (table) yield { table, csv: lines() }
      },
    }
    async function* lines() {
      for (const line of ['id,text,parent\n', '1,"a",\n', '2,"b",\n', '3,"c",\n']) {
        if (given.push(line) === 2) giving.abort(new Error('enough'))
        yield Buffer.from(line)
      }
    }
    await expect(driver.import(target, long, { signal: giving.signal })).rejects.toThrow('enough')
    expect(given).toHaveLength(2)
    await into(driver, target, copy)
  })
})

describe('between sqlite-memory and PostgreSQL', () => {
  /** One migration for both, as a host writes it that wants both. */
  const both: TenantMigration = {
    name: '0001_both',
    checksum: 'x',
    up: async (db) => {
      await db.schema
        .createTable('things')
        .addColumn('id', 'integer', (column) => column.primaryKey())
        .addColumn('whole', 'bigint')
        .addColumn('share', 'double precision')
        .addColumn('price', 'numeric')
        .addColumn('is_on', 'boolean')
        .addColumn('text', 'text')
        .addColumn('bytes', sql`${sql.raw(db.getExecutor().adapter.supportsTransactionalDdl ? 'bytea' : 'blob')}`)
        .addColumn('at', 'timestamptz')
        .addColumn('parent', 'integer', (column) => column.references('things.id').modifyFront(sql``))
        .execute()
    },
  }
  const COLUMNS = ['id', 'whole', 'share', 'price', 'is_on', 'text', 'bytes', 'at', 'parent']

  test('everything comes back as it was', async () => {
    const installation = await createInstallation(inject('postgresUrl'), {
      driver: () => schemaPg(),
      migrations: [both],
    })
    onTestFinished(() => installation.end())
    const postgres = await installation.open(await installation.prepare())
    const driver = await open([both])
    let number = 0
    const row = fc.record({
      whole: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
      share: fc.option(fc.double({ noNaN: true })),
      price: fc.option(fc.integer({ min: -1_000_000, max: 1_000_000 }).map((cents) => cents / 100)),
      is_on: fc.option(fc.boolean()),
      text: fc.option(fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll('\0', ''))),
      bytes: fc.option(fc.uint8Array().map((bytes) => Buffer.from(bytes))),
      at: fc.option(fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 8 }), async (rows) => {
        number++
        const [source, back] = [locationOf(driver, `s${number}`), locationOf(driver, `b${number}`)]
        const there = locationOf(postgres, `p${number}`)
        await driver.provision(source)
        const { db } = directHandle(driver, source)
        for (const [id, values] of rows.entries()) {
          await db
            .insertInto('things')
            .values({ id, ...values, parent: id > 0 ? id - 1 : null })
            .execute()
        }
        const before = await contents(driver, source, 'things', COLUMNS)
        const copy = await exported(driver, source)
        await into(postgres, there, copy)
        await into(driver, back, await exported(postgres, there), 7)
        expect(await contents(driver, back, 'things', COLUMNS)).toEqual(before)
        await postgres.drop(there)
      }),
      { numRuns: 15, endOnFailure: true },
    )
  })

  test('values of PostgreSQL become what a host would have kept', async () => {
    const pg: TenantMigration = {
      name: '0001',
      checksum: '1',
      up: `create table kinds (tenant_id text not null default tenantry.current_tenant(), id serial primary key, b boolean, i int, s smallint, l bigint, r real, d double precision, n numeric(20,4), t text,
        y bytea, z timestamptz, j jsonb, a int[], u uuid, "free date" date, g int generated always as (i + 1) stored)`,
    }
    const installation = await createInstallation(inject('postgresUrl'), { driver: () => schemaPg(), migrations: [pg] })
    onTestFinished(() => installation.end())
    const postgres = await installation.open(await installation.prepare())
    const there = locationOf(postgres, 'a')
    await postgres.provision(there)
    await run(
      postgres,
      there,
      `insert into kinds (b, i, s, l, r, d, n, t, y, z, j, a, u, "free date") values
        (true, -1, 2, 9223372036854775807, 1.5, 1e308, 1.5000, '', '\\x00ff', '2026-01-01 01:00:00.123456+01', '{"a": "b,\\"c\\""}', '{1,NULL}', '00000000-0000-0000-0000-000000000001', '2026-01-02'),
        (false, null, null, null, 'NaN', '-Infinity', 'NaN', null, '', 'infinity', null, '{}', null, 'infinity'),
        (null, null, null, null, 0.1, -0.0, 12345678901.5, E'\\\\x00"\\n', null, '2026-01-01 00:00:00+00', null, null, null, null),
        (null, null, null, null, null, null, null, 't', null, '0044-03-15 00:00:00+00 BC', null, null, null, null)`,
    )
    await run(postgres, there, `select nextval('kinds_id_seq') from generate_series(1, 5)`)
    const driver = await open([
      {
        ...pg,
        up: async (db) => {
          await sql`create table kinds (tenant_id text not null default '', id integer primary key autoincrement, b, i, s, l, r, d, n, t, y, z, j, a, u, "free date", g as (i + 1))`.execute(
            db,
          )
        },
      },
    ])
    const location = locationOf(driver, 'a')
    await into(driver, location, await exported(postgres, there), 5)
    const columns = ['b', 'i', 's', 'l', 'r', 'd', 'n', 't', 'y', 'z', 'j', 'a', 'u', '"free date"', 'g']
    const int = (value: number | bigint) => ['integer', value]
    const text = (value: string) => ['text', value]
    const nil = ['null', null]
    expect(await contents(driver, location, 'kinds', columns)).toEqual(
      [
        [
          int(1),
          int(-1),
          int(2),
          int(2n ** 63n - 1n),
          ['real', 1.5],
          ['real', 1e308],
          text('1.5000'),
          text(''),
          ['blob', Buffer.from([0, 255])],
          text('2026-01-01T00:00:00.123456Z'),
          text('{"a": "b,\\"c\\""}'),
          text('{1,NULL}'),
          text('00000000-0000-0000-0000-000000000001'),
          text('2026-01-02'),
          int(0),
        ],
        [
          int(0),
          nil,
          nil,
          nil,
          text('NaN'),
          ['real', -Infinity],
          text('NaN'),
          nil,
          ['blob', Buffer.alloc(0)],
          text('infinity'),
          nil,
          text('{}'),
          nil,
          text('infinity'),
          nil,
        ],
        [
          nil,
          nil,
          nil,
          nil,
          ['real', 0.1],
          ['real', 0],
          text('12345678901.5000'),
          text('\\x00"\n'),
          nil,
          text('2026-01-01T00:00:00.000Z'),
          nil,
          nil,
          nil,
          nil,
          nil,
        ],
        [nil, nil, nil, nil, nil, nil, nil, text('t'), nil, text('0044-03-15 00:00:00+00 BC'), nil, nil, nil, nil, nil],
      ].map((row) => row.flat()),
    )
    expect(await run(driver, location, 'insert into kinds (b) values (1) returning id')).toEqual([[10]])
    const [unused, empty] = [locationOf(postgres, 'unused'), locationOf(driver, 'empty')]
    await postgres.provision(unused)
    await into(driver, empty, await exported(postgres, unused))
    expect(await run(driver, empty, 'insert into kinds (b) values (1) returning id')).toEqual([[1]])
  })
})
