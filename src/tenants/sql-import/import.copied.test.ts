/** COPY and setval of a dump, on every driver for PostgreSQL. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { importSql } from './import.ts'

const TABLES = `
  create table stars (tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
    name text, seen bool, data bytea, tags text[], at timestamptz, primary key (tenant_id, id));
  create table visits (tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
    below bigint generated always as identity (increment by -1), primary key (tenant_id, id));
  create table notes (tenant_id text not null default tenantry.current_tenant(), id serial, body text, primary key (tenant_id, id))`
const MAX = 2_147_483_647

let postgres: TestTenancy<[]>
beforeAll(async () => {
  const isolation = [schemaPg(), rowscopePg(), databasePg()]
  const migrations = [{ name: '0001', checksum: '1', up: TABLES }]
  postgres = await testTenancy(inject('postgresUrl'), { isolation, migrations })
  for (const { name } of isolation) await installed(postgres.tenancy, { id: name, name, isolation: name })
  await installed(postgres.tenancy, { id: 'neighbour', name: 'n', isolation: 'rowscope-pg' })
})
afterAll(() => postgres?.end())

describe.each(['schema-pg', 'rowscope-pg', 'database-pg'])('%s', (driver) => {
  const importing = (text: string, isDryRun = false) =>
    importSql(postgres.tenancy.tenants.handles.source(driver), [Buffer.from(text)] as never, {
      engine: 'postgres',
      signal: new AbortController().signal,
      isDryRun,
    })
  const ask = async (text: string) => (await (await postgres.tenancy.tenant(driver)).pool.query(text)).rows
  const next = async (sequence: string) => Number((await ask(`select nextval('${sequence}') as value`))[0].value)

  test('stores the rows of COPY unchanged', async () => {
    const rows = [
      String.raw`1	a\tb\\c\n'"--;	t	\\x00ff	{a,"b c",NULL}	2020-01-02 03:04:05+00`,
      String.raw`2		f	\\x	{}	\N`,
      String.raw`3	\N	\N	\N	\N	infinity`,
    ].join('\n')
    const file = `COPY public.stars (id, name, seen, data, tags, at) FROM stdin;\n${rows}\n\\.\n\nSELECT pg_catalog.setval('public.stars_id_seq', 3, true);`
    expect(await importing(file)).toEqual({ statements: 2, rows: 3, bytes: Buffer.byteLength(file), passedOver: 0 })
    expect(
      await ask('select id::int, name, seen, encode(data, $$hex$$) as data, tags, at::text from stars order by id'),
    ).toEqual([
      {
        id: 1,
        name: `a\tb\\c\n'"--;`,
        seen: true,
        data: '00ff',
        tags: ['a', 'b c', null],
        at: expect.stringMatching('2020-01-02'),
      },
      { id: 2, name: '', seen: false, data: '', tags: [], at: null },
      { id: 3, name: null, seen: null, data: null, tags: null, at: 'infinity' },
    ])
    expect(await next('stars_id_seq')).toBe(4)
  })

  test('inserts many rows of COPY in several statements, and reports an error with the line of its row', async () => {
    const rows = (count: number) => Array.from({ length: count }, (_, n) => `${n + 1_000}\ttext ${n}\n`)
    const copy = (all: readonly string[]) => `\ncopy notes (id, body) from stdin;\n${all.join('')}\\.\n`
    const broken = rows(1_203)
    broken[1_100] = '1000\tagain\n'
    await expect(importing(copy(broken))).rejects.toThrow(/^line 1103: duplicate key .*\nEverything was rolled back/)
    broken[1_100] = '5000\tone\ttoo many\n'
    await expect(importing(copy(broken))).rejects.toThrow(/^line 1103: this row of COPY has 3 values for 2 columns/)
    expect(await ask('select id from notes')).toEqual([])
    expect(await importing(copy(rows(1_203)))).toMatchObject({ statements: 1, rows: 1_203 })
    expect(await ask('select count(*)::int, max(body) from notes')).toEqual([{ count: 1_203, max: 'text 999' }])
    await ask('delete from notes')
  })

  test('setval advances a sequence and never moves it back', async () => {
    expect(await importing(`SELECT pg_catalog.setval('public.notes_id_seq', 500, true);`)).toMatchObject({
      statements: 1,
    })
    expect(await next('notes_id_seq')).toBe(501)
    await importing(`select setval('notes_id_seq', 7); select setval('notes_id_seq', 1, false)`)
    expect(await next('notes_id_seq')).toBe(502)
    await importing(`select setval('notes_id_seq', 600, false)`)
    expect(await next('notes_id_seq')).toBe(600)
    await importing(`select setval('notes_id_seq', 700)`, true)
    expect(await next('notes_id_seq')).toBe(601)
    await expect(importing(`select setval('notes_id_seq', 800);\nselect 1`)).rejects.toThrow(/^line 2/)
    expect(await next('notes_id_seq')).toBe(602)
  })

  test('rejects setval in a file that takes values of the sequence', async () => {
    const failure = importing(`insert into notes (body) values ('a');\nselect setval('notes_id_seq', 900)`)
    await expect(failure).rejects.toThrow(
      /^line 2: rows of this file take their numbers from the sequence "notes_id_seq"/,
    )
    expect(await ask('select id from notes')).toEqual([])
  })

  test('rejects setval beyond the range with its line', async () => {
    const failure = importing(`\nselect setval('notes_id_seq', ${MAX + 1})`)
    const most = driver === 'rowscope-pg' ? (MAX + 1) / 2 : MAX
    await expect(failure).rejects.toThrow(`line 2: setval sets the sequence "notes_id_seq" only to 1 .. ${most}`)
  })
})

const importing = (value: bigint | number, sequence: string) =>
  importSql(
    postgres.tenancy.tenants.handles.source('rowscope-pg'),
    [Buffer.from(`select setval('${sequence}', ${value})`)] as never,
    { engine: 'postgres', signal: new AbortController().signal },
  )
const asNeighbour = async (text: string) => (await (await postgres.tenancy.tenant('neighbour')).pool.query(text)).rows

test('limits a shared sequence to the middle of its range', async () => {
  const middle = (MAX + 1) / 2
  const failure = importing(middle + 1, 'notes_id_seq')
  await expect(failure).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  await expect(failure).rejects.toThrow('all tenants share it, so an import may use only half of its range')
  await importing(middle, 'notes_id_seq')
  expect(await asNeighbour(`insert into notes (body) values ('a') returning id`)).toEqual([{ id: middle + 1 }])
})

test('limits a shared bigint sequence to 2^52 in both directions', async () => {
  const limit = 2 ** 52
  const beyond = [limit + 1, 2n ** 62n].flatMap((value) => [
    [value, 'visits_id_seq'] as const,
    [-value, 'visits_below_seq'] as const,
  ])
  for (const [value, sequence] of beyond) {
    const failure = importing(value, sequence)
    await expect(failure).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    await expect(failure).rejects.toThrow('and numbers up to 2^53')
  }
  const visit = 'insert into visits default values returning id, below'
  expect(await asNeighbour(visit)).toEqual([{ id: '1', below: '-1' }])
  await importing(limit, 'visits_id_seq')
  await importing(-limit, 'visits_below_seq')
  expect(await asNeighbour(visit)).toEqual([{ id: `${limit + 1}`, below: `-${limit + 1}` }])
})
