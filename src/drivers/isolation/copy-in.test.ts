import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../kernel/logger.ts'
import type { TenantCopy } from '../../tenants/copy.ts'
import type { Imported, IsolationDriver, Place } from '../../tenants/isolation.ts'
import { eventually } from '../../testing/tenancy.ts'
import { catalogOf, changed, exported, type HeldCopy, never, replayed } from './copy.fixture.ts'
import { busySessions, type Imports, isSchemaThere, OWN, openImports, rowsIn } from './copy-in.fixture.ts'
import { RICH } from './copy-rich.fixture.ts'
import { type Kind, openSide, places, type Side } from './copy-sides.fixture.ts'
import { provisioned } from './installation.fixture.ts'
import { schemaPg } from './schema-pg.ts'

let imports: Imports
let side: Side
let client: pg.Client
let copy: HeldCopy
let driver: IsolationDriver
/** Of a tenant with few tables, and a driver with their migrations: for what does not depend on the tables. */
let few: HeldCopy
let fewDriver: IsolationDriver

const FEW = {
  name: '0001_few',
  checksum: 'a',
  up: `create domain positive as int check (value > 0);
    create table people (id int primary key, name text, age positive, constraint "a check" check (name <> 'nobody'));
    create table hens (id int primary key, egg int not null);
    create table eggs (id int primary key, hen int not null references hens);
    alter table hens add constraint hens_egg foreign key (egg) references eggs deferrable;
    create table rented (room int, during tsrange, exclude using gist (during with &&) deferrable initially deferred);
    create table measures (at date not null, id int) partition by range (at);
    create table measures_new partition of measures for values from ('2020-01-01') to (maxvalue)`,
}

const place = (tenantId: string, kind: Kind = 'schema-pg') => places(side, kind, tenantId)
const take = (to: Place, what: TenantCopy, by = side.drivers[to.isolation as Kind]): Promise<Imported> =>
  by.import(to, what, { signal: never() })
const isThere = (schema: string) => isSchemaThere(client, schema)
const busy = () => busySessions(client, place('unwanted', 'database-pg').locator)

beforeAll(async () => {
  imports = await openImports()
  ;({ side, client, copy } = imports)
  driver = side.drivers['schema-pg']
  fewDriver = await side.installation.open(await side.installation.prepare(), {
    driver: () => schemaPg(),
    migrations: [FEW],
  })
  const { pool } = await provisioned(fewDriver, 'few')
  for (const text of [
    `insert into people values (1, 'Ada', 1)`,
    'with hen as (insert into hens values (1, 1)) insert into eggs values (1, 1)',
    `insert into rented values (1, '[2020-01-01, 2020-02-01)')`,
    `insert into measures values ('2021-01-01', 1)`,
  ])
    await pool.query(text)
  few = await exported(fewDriver, place('few'))
})
afterAll(() => imports?.end())

describe('storage that was made by an import', () => {
  test('has the rows, to the letter, and nothing that triggers would have made of them', async () => {
    const phases: string[] = []
    const options = { signal: never(), onPhase: (phase: string) => phases.push(phase) }
    const { rows, migrations } = await driver.import(place('again'), replayed(copy, 7), options)
    expect(migrations).toEqual(RICH.map(({ name }) => name))
    expect([...rows]).toEqual(copy.totals.map(({ name, rows }) => [name, rows]))
    expect(phases).toEqual(['making', 'loading', 'indexing', 'migrating'])
    const before = await rowsIn(side, place('full'))
    expect(Object.keys(before).filter((name) => before[name]?.length === 0)).toEqual([])
    // Nobody has refreshed the views of the source.
    const { a_first, '0 second': second, over_forced, ...after } = await rowsIn(side, place('again'))
    expect([a_first, second, over_forced]).toEqual([['(3)'], ['(4)'], ['(1)']])
    const { a_first: _, '0 second': __, over_forced: ___, ...expected } = before
    expect(after).toEqual({ ...expected, owned: ['(again,1)', '(again,2)'] })
    await driver.drop(place('again'))
  })

  test.each(OWN)('of %s is the same as any other, in every word of the catalog', async (kind) => {
    const [fresh, made] = [place('fresh', kind), place('made', kind)]
    await side.drivers[kind].provision(fresh)
    await take(made, replayed(copy))
    const catalogs = await Promise.all(
      [fresh, made].map((one) => side.reach(one, (reader, schema) => catalogOf(reader, schema))),
    )
    expect(catalogs[0]?.length).toBeGreaterThan(900)
    expect(catalogs[1]).toEqual(catalogs[0])
    await side.drivers[kind].fence(made)
    await side.drivers[kind].unfence(made)
    const { rows } = await side.drivers[kind].execute(made, { text: 'select name from people order by id' })
    expect(rows).toEqual([{ name: 'Ada Lovelace' }, { name: 'two\nlines, "quoted"\t\\.' }, { name: 'ž 🦄' }])
  })

  test('has its indexes where they were', async () => {
    const name = `elsewhere_${Math.random().toString(36).slice(2, 10)}`
    await client.query('set allow_in_place_tablespaces = on')
    await client.query(`create tablespace ${name} location ''`)
    const spread = {
      name: '0001_spread',
      checksum: '',
      up: `create table spread (id int, a int, b int); create index on spread (b) tablespace pg_default;
        create index on spread (a) tablespace ${name}; alter table spread add primary key (id) using index tablespace ${name}`,
    }
    const there = await openSide(inject('postgresUrl'), { migrations: [spread] })
    try {
      const by = there.drivers['schema-pg']
      const [fresh, made] = [places(there, 'schema-pg', 'fresh'), places(there, 'schema-pg', 'made')]
      await by.provision(fresh)
      await there.installation.database.sql(
        `alter database ${pg.escapeIdentifier(new URL(there.installation.url).pathname.slice(1))} set default_tablespace = ${name}`,
      )
      const again = await there.installation.open(await there.installation.prepare(), {
        driver: () => schemaPg(),
        migrations: [spread],
      })
      await take(made, replayed(await exported(by, fresh)), again)
      const tablespaces = `select relname, reltablespace <> 0 as "isElsewhere" from pg_class
        where relnamespace = 't1_made'::regnamespace and relkind = 'i' order by relname`
      expect((await there.installation.database.sql(tablespaces)).rows).toEqual([
        { relname: 'spread_a_idx', isElsewhere: true },
        { relname: 'spread_b_idx', isElsewhere: false },
        { relname: 'spread_pkey', isElsewhere: true },
      ])
    } finally {
      await there.end()
      await client.query(`drop tablespace ${name}`)
    }
  })

  test('goes on from where the copy was, not from where its rows end', async () => {
    await take(place('going'), replayed(copy))
    const next = async (at: Place) =>
      (
        await side.reach(
          at,
          (reader, schema) =>
            reader.query(`set search_path = ${schema}; select nextval('"free ""seq"""') as free, nextval('people_id_seq') as serial,
            nextval('measures_id_seq') as identity`) as unknown as Promise<pg.QueryResult[]>,
        )
      )[1]?.rows[0]
    expect(await next(place('going'))).toEqual({ free: '95', serial: '4', identity: '14' })
    const insert = `insert into people (name, email) values ('x', 'x') returning id, stamped`
    const { rows } = await driver.execute(place('going'), { text: insert })
    expect(rows).toEqual([{ id: 5, stamped: 1 }])
    await driver.drop(place('going'))
  })

  test('is brought up to date, and its constraints may wait again for the end of the transaction', async () => {
    const later = {
      name: '0004_new',
      checksum: 'd',
      up: `insert into outside values (7); insert into public.shared_by_all values (7) on conflict do nothing;
        alter table people rename column later to last; update people set last = upper(last); create table new (id int)`,
    }
    const newer = await side.installation.open(await side.installation.prepare(), {
      driver: () => schemaPg(),
      migrations: [...RICH, later],
    })
    const { migrations, rows } = await take(place('newer'), replayed(copy), newer)
    expect(migrations).toEqual([...RICH, later].map(({ name }) => name))
    expect(rows.has('new')).toBe(false)
    const after = await rowsIn(side, place('newer'))
    expect(after).toMatchObject({ outside: ['(1)', '(1)', '(7)'], new: [] })
    expect(after.people?.join()).toContain('LATER')
    expect(await newer.applied(place('newer'))).toEqual(migrations)
    await newer.drop(place('newer'))
  })

  test('keeps what the copy does not have of its tables', async () => {
    await take(place('kept'), replayed(changed(copy, 'rented', undefined)))
    expect((await rowsIn(side, place('kept'))).rented).toEqual([
      '(9,"[""2000-01-01 00:00:00"",""2000-02-01 00:00:00"")")',
    ])
    await driver.drop(place('kept'))
  })

  test('is without statistics where they cannot be made, and whole all the same', async () => {
    const lines: string[] = []
    const stubborn = {
      name: '0004_stubborn',
      checksum: '',
      up: `create function known(int) returns boolean immutable language plpgsql as $$ begin
          if current_query() ~* '^analyze|create (unique )?index' then raise exception 'not now'; end if; return true; end $$;
        create index people_known on people (known(id))`,
    }
    const source = schemaPg()
    await source.start({
      installation: side.installation.id,
      placements: new Map([['main', await side.installation.prepare()]]),
      migrations: [...RICH, stubborn],
      generation: () => 0,
      log: createLogger({ write: (line) => lines.push(line) }),
    })
    await source.provision(place('stubborn'))
    await source.execute(place('stubborn'), { text: `insert into people (name, email) values ('a', 'a'), ('b', 'b')` })
    await take(place('moved'), replayed(await exported(source, place('stubborn'))), source)
    const { people } = await rowsIn(side, place('moved'))
    expect(people).toHaveLength(2)
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual([expect.stringMatching(/^statistics of imported tables/)])
    await source.drop(place('stubborn'))
    await source.drop(place('moved'))
    await source.stop()
  })
})

/** What is told of a copy that is refused, and that nothing is left of it. */
async function refusal(what: TenantCopy, kind: Kind = 'schema-pg', by = side.drivers[kind]): Promise<string> {
  const at = place('refused', kind)
  const error = await take(at, what, by).catch((error) => error)
  expect(error).toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
  if (kind === 'schema-pg') expect(await isThere(at.locator)).toBe(false)
  await side.drivers[kind].drop(at)
  return error.message
}

describe('a copy is refused, and nothing of it is left,', () => {
  const described = (change: Partial<HeldCopy['description']>): HeldCopy => ({
    ...copy,
    description: { ...copy.description, ...change },
  })
  const migrations = RICH.map(({ name, checksum }) => ({ name, checksum }))

  test('when its migrations are not these', async () => {
    const unknown = described({ migrations: [...migrations, { name: '0009_theirs', checksum: 'z' }] })
    const edited = described({ migrations: migrations.with(1, { name: '0002_rows', checksum: 'other' }) })
    for (const kind of OWN) {
      expect(await refusal(replayed(unknown), kind)).toMatch(/not known here: 0009_theirs/)
      expect(await refusal(replayed(edited), kind)).toMatch(/changed since: 0002_rows/)
    }
    const { rowCount } = await client.query('select from pg_database where datname = $1', [
      place('refused', 'database-pg').locator,
    ])
    expect(rowCount).toBe(0)
    const unsaid = described({ migrations: migrations.map(({ name }) => ({ name, checksum: '' })) })
    await take(place('unsaid'), replayed(unsaid))
    await driver.drop(place('unsaid'))
  })

  test('when its tables are not those that its migrations make', async () => {
    const tables = copy.description.tables.map((table) =>
      table.name === 'hens' ? { ...table, columns: [...table.columns, { name: 'beak', type: 'text' }] } : table,
    )
    expect(await refusal(replayed(described({ tables })))).toMatch(/no column "beak" in the table "hens"/)
    expect(await refusal(replayed(described({ migrations: migrations.slice(0, 2) })))).toMatch(
      /no column "later" in the table "people"/,
    )
  })

  test.each<[why: string, table: string, csv: string, told: RegExp]>([
    ['a key is there twice', 'hens', 'id,egg\n1,1\n1,1\n', /"hens" is refused by its constraint "hens_pkey"/],
    ['a row refers to none', 'hens', 'id,egg\n1,9\n', /"hens" is refused by its constraint "hens_egg"/],
    ['a check fails', 'people', 'id,name,age\n1,nobody,\n', /"people" is refused by its constraint "a check"/],
    ['a value is missing', 'hens', 'id,egg\n1,\n', /for the table "hens" is not what the columns take/],
    ['a value is not of its type', 'hens', 'id,egg\n1,one\n', /for the table "hens" is not what the columns take/],
    ['a domain refuses a value', 'people', 'id,name,age\n1,a,-1\n', /"people".* constraint "positive_check"/],
    ['its columns are others', 'hens', 'id,eggs\n1,1\n', /for the table "hens" is not what the columns take/],
    ['a row is cut off', 'hens', 'id,egg\n1', /for the table "hens" is not what the columns take/],
    ['no partition takes a row', 'measures', 'at,id\n,1\n', /for the table "measures\w*" is not what the columns take/],
    [
      'two ranges overlap',
      'rented',
      'room,during\n1,"[2020-01-01,2020-03-01)"\n2,"[2020-02-01,2020-03-01)"\n',
      /"rented" is refused by its constraint "rented_during_excl"/,
    ],
  ])('when %s', async (_, table, csv, told) => {
    expect(await refusal(replayed(changed(few, table, csv)), 'schema-pg', fewDriver)).toMatch(told)
  })

  test('when it is not whole', async () => {
    const upTo = (count: number): TenantCopy => {
      const whole = replayed(few)
      return {
        ...whole,
        async *tables() {
          let n = 0
          for await (const one of whole.tables()) if (n++ < count) yield one
        },
      }
    }
    expect(await refusal(upTo(3), 'schema-pg', fewDriver)).toMatch(/ends before the table "people"/)
    expect(
      await refusal({
        ...replayed(copy),
        totals: async () => copy.totals.map((one) => ({ ...one, rows: one.rows + 1 })),
      }),
    ).toMatch(/has 4 rows of the table "Weird "table". name", and 3 are there/)
    const twice: TenantCopy = {
      ...replayed(few),
      async *tables() {
        for (let n = 0; n < 2; n++) yield* replayed(few).tables()
      },
    }
    expect(await refusal(twice, 'schema-pg', fewDriver)).toMatch(/has the table "eggs" twice/)
    const empty = changed(copy, 'nothing', '')
    expect(await refusal(replayed(empty))).toMatch(/"nothing" is not whole/)
  })

  test.each(OWN)('when %s has the storage already, which stays as it is', async (kind) => {
    const there = place('there', kind)
    await side.drivers[kind].provision(there)
    await side.drivers[kind].execute(there, { text: `insert into countries values ('xx', 'mine')` })
    const before = await rowsIn(side, there)
    await expect(take(there, replayed(copy))).rejects.toMatchObject({
      code: 'E_STORAGE_EXISTS',
      message: expect.stringContaining('there already'),
    })
    expect(await rowsIn(side, there)).toEqual(before)
  })

  test.each(OWN)('when it is taken in twice at once: %s takes one', async (kind) => {
    const at = place('racing', kind)
    const other = await side.installation.open(await side.installation.prepare(), {
      driver: () => side.makers[kind](),
      migrations: RICH,
    })
    const outcomes = await Promise.allSettled([take(at, replayed(copy)), take(at, replayed(copy), other)])
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'E_STORAGE_EXISTS' },
    })
    expect((await rowsIn(side, at)).hens).toEqual(['(1,1)'])
  })
})

test('what its source throws is thrown as it is, and nothing is left', async () => {
  // As one may be whose source is a server, too.
  const failure = Object.assign(new pg.DatabaseError('the source is torn', 0, 'error'), { code: '22000' })
  const torn: TenantCopy = {
    ...replayed(few),
    async *tables() {
      for await (const { table, csv } of replayed(few).tables()) {
        yield {
          table,
          csv: (async function* () {
            yield* csv
            if (table.name === 'people') throw failure
          })(),
        }
      }
    },
  }
  await expect(take(place('torn'), torn, fewDriver)).rejects.toBe(failure)
  expect(await isThere('t1_torn')).toBe(false)
  const untotalled = { ...replayed(few), totals: () => Promise.reject(failure) }
  await expect(take(place('torn'), untotalled, fewDriver)).rejects.toBe(failure)
  expect(await isThere('t1_torn')).toBe(false)
})

describe('an import that nobody wants any more', () => {
  test.each(['making', 'loading', 'indexing', 'migrating'] as const)(
    'ends while it is %s, and leaves nothing',
    async (phase) => {
      const at = place('unwanted')
      const controller = new AbortController()
      const reason = new Error('not wanted any more')
      const onPhase = (begun: string) => begun === phase && controller.abort(reason)
      const importing = driver.import(at, replayed(copy), { signal: controller.signal, onPhase })
      await expect(importing).rejects.toBe(reason)
      await eventually(async () => expect(await busy()).toEqual([]))
      expect(await isThere(at.locator)).toBe(false)
      await driver.drop(at)
      const { rows } = await client.query(`select from pg_locks
        where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
      expect(rows).toEqual([])
    },
  )

  test('ends in the middle of a table that has no end', async () => {
    const controller = new AbortController()
    const endless: TenantCopy = {
      ...replayed(few),
      async *tables() {
        for await (const one of replayed(few).tables()) {
          if (one.table.name !== 'hens') yield one
          else yield { table: one.table, csv: rows() }
        }
      },
    }
    async function* rows() {
      yield Buffer.from('id,egg\n')
      for (let id = 1; ; id++) {
        if (id === 1_000) controller.abort()
        yield Buffer.from(`${id},1\n`)
      }
    }
    await expect(fewDriver.import(place('endless'), endless, { signal: controller.signal })).rejects.toMatchObject({
      name: 'AbortError',
    })
    await eventually(async () => expect(await busy()).toEqual([]))
    expect(await isThere('t1_endless')).toBe(false)
  })

  test('has not begun when the signal came before', async () => {
    for (const kind of OWN) {
      const importing = side.drivers[kind].import(place('before', kind), replayed(copy), {
        signal: AbortSignal.abort(),
      })
      await expect(importing).rejects.toMatchObject({ name: 'AbortError' })
    }
  })
})

test('an import whose session is ended has made nothing', async () => {
  const ended: TenantCopy = {
    ...replayed(copy),
    async *tables() {
      for await (const { table, csv } of replayed(copy).tables()) {
        yield {
          table,
          csv: (async function* () {
            yield* csv
            if (table.name !== 'people') return
            await eventually(async () => {
              const { rowCount } = await client.query(`select pg_terminate_backend(pid) from pg_stat_activity
                where application_name = 'tenantry ddl' and datname = current_database() and query like 'copy "t1_ended"%'`)
              expect(rowCount).toBe(1)
            })
          })(),
        }
      }
    },
  }
  await expect(take(place('ended'), ended)).rejects.toThrow()
  await eventually(async () => expect(await busy()).toEqual([]))
  expect(await isThere('t1_ended')).toBe(false)
})
