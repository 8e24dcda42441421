/** Refused, cancelled and interrupted imports into separate storage leave no schema or database. */
import pg from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { IsolationDriver } from '../../../tenants/isolation/driver.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { provisioned } from '../roles/installation.fixture.ts'
import { schemaPg } from '../schema-pg.ts'
import { type BufferedCopy, changed, exported, replayed } from './copy.fixture.ts'
import { OWN, rowsIn, useImports } from './copy-in.fixture.ts'
import type { Kind } from './copy-storage.fixture.ts'
import { RICH } from './rich.fixture.ts'

const here = useImports()
const { locationOf, take, isThere, busy } = here

/** Of a tenant with few tables, and a driver with their migrations: for what does not depend on the tables. */
let few: BufferedCopy
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

beforeAll(async () => {
  fewDriver = await here.fixture.installation.open(await here.fixture.installation.prepare(), {
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
  few = await exported(fewDriver, locationOf('few'))
})

/** Checks the message of a refused copy, and that its storage is gone. */
async function rejection(what: TenantCopy, kind: Kind = 'schema-pg', by = here.fixture.drivers[kind]): Promise<string> {
  const at = locationOf('refused', kind)
  const error = await take(at, what, by).catch((error) => error)
  expect(error).toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
  if (kind === 'schema-pg') expect(await isThere(at.locator)).toBe(false)
  await here.fixture.drivers[kind].drop(at)
  return error.message
}

describe('a copy is refused, and nothing of it is left,', () => {
  const described = (change: Partial<BufferedCopy['description']>): BufferedCopy => ({
    ...here.copy,
    description: { ...here.copy.description, ...change },
  })
  const migrations = RICH.map(({ name, checksum }) => ({ name, checksum }))

  test('when its migrations are not these', async () => {
    const unknown = described({ migrations: [...migrations, { name: '0009_theirs', checksum: 'z' }] })
    const edited = described({ migrations: migrations.with(1, { name: '0002_rows', checksum: 'other' }) })
    for (const kind of OWN) {
      expect(await rejection(replayed(unknown), kind)).toMatch(/not known here: 0009_theirs/)
      expect(await rejection(replayed(edited), kind)).toMatch(/changed since: 0002_rows/)
    }
    const { rowCount } = await here.client.query('select from pg_database where datname = $1', [
      locationOf('refused', 'database-pg').locator,
    ])
    expect(rowCount).toBe(0)
    const withoutChecksums = described({ migrations: migrations.map(({ name }) => ({ name, checksum: '' })) })
    await take(locationOf('unsaid'), replayed(withoutChecksums))
    await here.fixture.drivers['schema-pg'].drop(locationOf('unsaid'))
  })

  test('when its tables are not those that its migrations make', async () => {
    const tables = here.copy.description.tables.map((table) =>
      table.name === 'hens' ? { ...table, columns: [...table.columns, { name: 'beak', type: 'text' }] } : table,
    )
    expect(await rejection(replayed(described({ tables })))).toMatch(/no column "beak" in the table "hens"/)
    expect(await rejection(replayed(described({ migrations: migrations.slice(0, 2) })))).toMatch(
      /no column "later" in the table "people"/,
    )
  })

  test.each<[why: string, table: string, csv: string, expected: RegExp]>([
    ['a key is there twice', 'hens', 'id,egg\n1,1\n1,1\n', /"hens" violates its constraint "hens_pkey"/],
    ['a row refers to none', 'hens', 'id,egg\n1,9\n', /"hens" violates its constraint "hens_egg"/],
    ['a check fails', 'people', 'id,name,age\n1,nobody,\n', /"people" violates its constraint "a check"/],
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
      /"rented" violates its constraint "rented_during_excl"/,
    ],
  ])('when %s', async (_, table, csv, expected) => {
    expect(await rejection(replayed(changed(few, table, csv)), 'schema-pg', fewDriver)).toMatch(expected)
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
    expect(await rejection(upTo(3), 'schema-pg', fewDriver)).toMatch(/ends before the table "people"/)
    expect(
      await rejection({
        ...replayed(here.copy),
        totals: async () => here.copy.totals.map((one) => ({ ...one, rows: one.rows + 1 })),
      }),
    ).toMatch(/has 4 rows of the table "Weird "table". name", and 3 are there/)
    const twice: TenantCopy = {
      ...replayed(few),
      async *tables() {
        for (let n = 0; n < 2; n++) yield* replayed(few).tables()
      },
    }
    expect(await rejection(twice, 'schema-pg', fewDriver)).toMatch(/has the table "eggs" twice/)
    const empty = changed(here.copy, 'nothing', '')
    expect(await rejection(replayed(empty))).toMatch(/"nothing" is not whole/)
  })

  test.each(OWN)('when %s has the storage already, which stays as it is', async (kind) => {
    const there = locationOf('there', kind)
    await here.fixture.drivers[kind].provision(there)
    await here.fixture.drivers[kind].execute(there, { text: `insert into countries values ('xx', 'mine')` })
    const before = await rowsIn(here.fixture, there)
    await expect(take(there, replayed(here.copy))).rejects.toMatchObject({
      code: 'E_STORAGE_EXISTS',
      message: expect.stringContaining('there already'),
    })
    expect(await rowsIn(here.fixture, there)).toEqual(before)
  })

  test.each(OWN)('when it is taken in twice at once: %s takes one', async (kind) => {
    const at = locationOf('racing', kind)
    const other = await here.fixture.installation.open(await here.fixture.installation.prepare(), {
      driver: () => here.fixture.makers[kind](),
      migrations: RICH,
    })
    const outcomes = await Promise.allSettled([take(at, replayed(here.copy)), take(at, replayed(here.copy), other)])
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'E_STORAGE_EXISTS' },
    })
    expect((await rowsIn(here.fixture, at)).hens).toEqual(['(1,1)'])
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
  await expect(take(locationOf('torn'), torn, fewDriver)).rejects.toBe(failure)
  expect(await isThere('t1_torn')).toBe(false)
  const untotalled = { ...replayed(few), totals: () => Promise.reject(failure) }
  await expect(take(locationOf('torn'), untotalled, fewDriver)).rejects.toBe(failure)
  expect(await isThere('t1_torn')).toBe(false)
})

describe('a cancelled import', () => {
  test.each(['making', 'loading', 'indexing', 'migrating'] as const)(
    'ends while it is %s, and leaves nothing',
    async (phase) => {
      const at = locationOf('unwanted')
      const controller = new AbortController()
      const reason = new Error('not wanted any more')
      const onPhase = (started: string) => started === phase && controller.abort(reason)
      const importing = here.fixture.drivers['schema-pg'].import(at, replayed(here.copy), {
        signal: controller.signal,
        onPhase,
      })
      await expect(importing).rejects.toBe(reason)
      await eventually(async () => expect(await busy()).toEqual([]))
      expect(await isThere(at.locator)).toBe(false)
      await here.fixture.drivers['schema-pg'].drop(at)
      const { rows } = await here.client.query(`select from pg_locks
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
    await expect(fewDriver.import(locationOf('endless'), endless, { signal: controller.signal })).rejects.toMatchObject(
      {
        name: 'AbortError',
      },
    )
    await eventually(async () => expect(await busy()).toEqual([]))
    expect(await isThere('t1_endless')).toBe(false)
  })

  test('has not begun when the signal came before', async () => {
    for (const kind of OWN) {
      const importing = here.fixture.drivers[kind].import(locationOf('before', kind), replayed(here.copy), {
        signal: AbortSignal.abort(),
      })
      await expect(importing).rejects.toMatchObject({ name: 'AbortError' })
    }
  })
})

test('an import whose session is ended has made nothing', async () => {
  const ended: TenantCopy = {
    ...replayed(here.copy),
    async *tables() {
      for await (const { table, csv } of replayed(here.copy).tables()) {
        yield {
          table,
          csv: (async function* () {
            yield* csv
            if (table.name !== 'people') return
            await eventually(async () => {
              const { rowCount } = await here.client.query(`select pg_terminate_backend(pid) from pg_stat_activity
                where application_name = 'tenantry ddl' and datname = current_database() and query like 'copy "t1_ended"%'`)
              expect(rowCount).toBe(1)
            })
          })(),
        }
      }
    },
  }
  await expect(take(locationOf('ended'), ended)).rejects.toThrow()
  await eventually(async () => expect(await busy()).toEqual([]))
  expect(await isThere('t1_ended')).toBe(false)
})
