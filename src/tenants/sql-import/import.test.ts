/** SQL files with data, imported into a tenant on every driver. */
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../drivers/isolation/sqlite/driver.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenant } from '../handles/handle.ts'
import type { TenantMigration } from '../isolation/migrations.ts'
import { type ImportOptions, importSql } from './import.ts'

const TABLES = `
  create table notes (tenant_id text not null default tenantry.current_tenant(), id int, body text, primary key (tenant_id, id));
  create table tags (tenant_id text not null default tenantry.current_tenant(), note_id int, tag text,
    primary key (tenant_id, note_id, tag),
    foreign key (tenant_id, note_id) references notes (tenant_id, id) deferrable initially deferred);
  create table stars (tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
    name text, primary key (tenant_id, id))`

const ON_POSTGRES: TenantMigration[] = [{ name: '0001_notes', checksum: '1', up: TABLES }]
const ON_SQLITE: TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: '1',
    async up(db) {
      await sql`create table notes (id integer primary key, body text)`.execute(db)
      await sql`create table tags (note_id int references notes (id) deferrable initially deferred, tag text)`.execute(
        db,
      )
    },
  },
]

const UNDONE = 'Everything was rolled back; nothing was imported.'

let postgres: TestTenancy<[]>
let sqlite: TestTenancy<[]>
beforeAll(async () => {
  const isolation = [schemaPg(), rowscopePg(), databasePg()]
  postgres = await testTenancy(inject('postgresUrl'), { isolation, migrations: ON_POSTGRES })
  sqlite = await testTenancy(inject('postgresUrl'), { isolation: [sqliteMemory()], migrations: ON_SQLITE })
  for (const { name } of isolation) await installed(postgres.tenancy, { id: name, name, isolation: name })
  await installed(sqlite.tenancy, { id: 'sqlite-memory', name: 'sqlite-memory' })
})
afterAll(async () => {
  await postgres?.end()
  await sqlite?.end()
})

const sourceOf = (id: string) => (id === 'sqlite-memory' ? sqlite : postgres).tenancy.tenants.handles.source(id)

async function* pieces(text: string, size = 7): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

describe.each(['schema-pg', 'rowscope-pg', 'database-pg', 'sqlite-memory'])('%s', (driver) => {
  const engine = driver === 'sqlite-memory' ? 'sqlite' : 'postgres'
  let handle: Tenant
  beforeAll(async () => {
    handle = await (engine === 'sqlite' ? sqlite : postgres).tenancy.tenant(driver)
  })
  beforeEach(async () => {
    for (const table of ['tags', 'notes']) await handle.db.deleteFrom(table).execute()
  })

  const imported = (file: string | AsyncIterable<Uint8Array>, options: Partial<ImportOptions> = {}) =>
    importSql(sourceOf(driver), typeof file === 'string' ? pieces(file) : file, {
      engine,
      signal: new AbortController().signal,
      ...options,
    })
  const notes = () => handle.db.selectFrom('notes').select(['id', 'body']).orderBy('id').execute()

  test('imports a file and returns its counts', async () => {
    const file = `-- 💥;\ninsert into notes (id, body) values (1, 'it''s; é'), (2, null);;\n
      /* ; */ INSERT INTO public . "notes" (id, body) -- ;
      VALUES (3, '💥\n') on conflict do nothing`
    expect(await imported(file)).toEqual({ statements: 2, rows: 3, bytes: Buffer.byteLength(file), passedOver: 0 })
    expect(await notes()).toEqual([
      { id: 1, body: "it's; é" },
      { id: 2, body: null },
      { id: 3, body: '💥\n' },
    ])
    expect(await imported('-- nothing')).toMatchObject({ statements: 0, rows: 0, bytes: 10 })
  })

  test('reports an error of the server with its line, and rolls back', async () => {
    const file = `insert into notes (id) values (1);\n\n-- again\ninsert into notes (id) values (2), (1);\n`
    const failure = imported(file)
    await expect(failure).rejects.toThrow(/^line 4: .*\n.*$/)
    await expect(failure).rejects.toThrow(
      engine === 'sqlite' ? 'UNIQUE constraint failed' : 'violates unique constraint "notes_pkey"',
    )
    if (driver === 'schema-pg')
      await expect(failure).rejects.toThrow('pkey": Key (tenant_id, id)=(schema-pg, 1) already')
    await expect(failure).rejects.toThrow(`\n${UNDONE}`)
    await expect(failure).rejects.toMatchObject({ code: 'E_SQL_REJECTED', status: 422, extras: { sqlState: '23505' } })
    expect(await notes()).toEqual([])
  })

  test('rejects a statement with its line, and rolls back the statements before it', async () => {
    for (const statement of ['\\connect x', 'COMMIT', 'copy notes from stdin', 'set role a', 'select 1']) {
      const failure = imported(`insert into notes (id) values (1);\n-- a\n${statement};`)
      await expect(failure).rejects.toMatchObject({
        code: 'E_INVALID_REQUEST',
        message: expect.stringMatching(/^line 3: .*\nEverything was rolled back/),
      })
    }
    const latin = Buffer.from("insert into notes (id) values (1);\n\nselect 'é';", 'latin1')
    const chunks = [latin.subarray(0, 36), latin.subarray(36)]
    await expect(imported(chunks.values() as never)).rejects.toThrow(`line 3: invalid UTF-8`)
    expect(await notes()).toEqual([])
  })

  test('skips the header of a dump at any position', async () => {
    const head = `\\restrict abc\nSET row_security = off;\nSELECT pg_catalog.set_config('search_path', '', false);\n`
    const file = `${head}insert into notes (id) values (1);\n${head}insert into notes (id) values (2);\n\\unrestrict abc\n`
    expect(await imported(file)).toMatchObject({ statements: 2, rows: 2, passedOver: 7 })
    expect(await notes()).toHaveLength(2)
  })

  test('checks deferred constraints before the commit', async () => {
    const file = "insert into tags (note_id, tag) values (9, 'a'); insert into notes (id) values (8);"
    for (const isDryRun of [false, true]) {
      const failure = imported(file, { isDryRun })
      await expect(failure).rejects.toThrow(/^at the end of the file: .*(foreign key|FOREIGN KEY)/)
      await expect(failure).rejects.toThrow(UNDONE)
    }
    expect(await notes()).toEqual([])
    const settled = "insert into tags (note_id, tag) values (9, 'a'); insert into notes (id) values (9);"
    expect(await imported(settled)).toMatchObject({ rows: 2 })
  })

  test('a dry run returns the same counts and rolls back', async () => {
    const file = 'insert into notes (id) values (1); insert into notes (id) values (2)'
    expect(await imported(file, { isDryRun: true })).toMatchObject({ statements: 2, rows: 2 })
    await expect(imported(`${file};\ninsert into notes (nowhere) values (1)`, { isDryRun: true })).rejects.toThrow(
      /^line 2: .*nowhere/,
    )
    expect(await notes()).toEqual([])
  })

  test('an aborted import throws the reason of its signal and rolls back', async () => {
    const stopped = new Error('stopped')
    const stop = new AbortController()
    async function* endless() {
      for (let id = 1; ; id++) {
        yield Buffer.from(`insert into notes (id) values (${id});`)
        if (id === 10) stop.abort(stopped)
      }
    }
    await expect(imported(endless(), { signal: stop.signal })).rejects.toBe(stopped)
    async function* lost() {
      yield Buffer.from('insert into notes (id) values (1);')
      throw new Error('the file cannot be read')
    }
    await expect(imported(lost())).rejects.toThrow(`the file cannot be read\n${UNDONE}`)
    expect(await notes()).toEqual([])
  })

  test('reports progress in bytes, statements and rows', async () => {
    const seen: number[][] = []
    const file = 'insert into notes (id) values (1);\ninsert into notes (id) values (2);'
    await imported(pieces(file, 40), {
      onProgress: ({ bytes, statements, rows }) => seen.push([bytes, statements, rows]),
    })
    expect(seen).toEqual([
      [40, 1, 1],
      [69, 2, 2],
    ])
  })
})

describe('lines', () => {
  beforeEach(async () => {
    const { db } = await postgres.tenancy.tenant('schema-pg')
    await db.deleteFrom('notes').execute()
  })
  const failure = (text: string) =>
    importSql(sourceOf('schema-pg'), pieces(text), { engine: 'postgres', signal: new AbortController().signal }).then(
      () => undefined,
      ({ message }: Error) => message.split('\n')[0],
    )

  test.each<[string, number, string]>([
    ['inside of a statement', 4, "insert into notes (id, body) values (1,\n'💥'),\n(2, '💥'), (3,\n'💥'), ('x', null)"],
    ['after comments', 3, '-- a\n/*\n*/ selec'],
    ['of the statement, for an error without a position', 3, '\n-- a\ninsert into notes (id)\nvalues (5), (5)'],
    ['after a name that spans lines', 5, "insert into public\n.\nnotes (id)\nvalues (1),\n('x')"],
    ['of a token that is not accepted', 3, 'insert into notes (id)\nvalues (1),\n(id)'],
    [
      'of an unclosed string',
      2,
      "insert into notes (id) values (1);\ninsert into notes (body) values ('a\n;\nselect 2;\n",
    ],
    ['of an unclosed bracket', 4, 'insert into notes (id)\nvalues (\n1\n;\nselect 2;\n'],
    ['with line ends of two signs', 3, 'insert into notes (id)\r\nvalues (1),\r\n(nowhere)'],
    ['of a row of COPY', 4, 'copy notes (id) from stdin;\n1\n2\nx\n4\n\\.\n'],
    ['of a statement after the rows of COPY', 5, 'copy notes (id) from stdin;\n1\n2\n\\.\nselect 1'],
  ])('%s', async (_, line, text) => {
    expect(await failure(text)).toMatch(new RegExp(`^line ${line}: `))
  })
})

describe('connections', () => {
  test('reports a lost connection with its line, and rolls back', async () => {
    const handle = await postgres.tenancy.tenant('schema-pg')
    const { database } = postgres.tenancy.kernel
    async function* file() {
      yield Buffer.from('insert into notes (id) values (77);\n')
      await eventually(async () => {
        const { rows } = await database.sql(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where state = 'idle in transaction' and datname = current_database() and query like '%standard_conforming_strings%'`,
        )
        expect(rows).toHaveLength(1)
      })
      yield Buffer.from('insert into notes (id) values (78);')
    }
    const options = { engine: 'postgres', signal: new AbortController().signal } as const
    await expect(importSql(sourceOf('schema-pg'), file(), options)).rejects.toMatchObject({
      code: 'E_DEPENDENCY_UNAVAILABLE',
      message: `line 2: the connection to the database of the tenant was lost\n${UNDONE}`,
    })
    expect(await handle.db.selectFrom('notes').where('id', '=', 77).execute()).toEqual([])
  })
})
