/** Tests that rejected, cancelled and interrupted imports into separate storage leave no schema or database. */
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

/**
 * The copy of a tenant with few tables, and a driver with their migrations: for tests that do not depend on the tables.
 */
let few: BufferedCopy
let fewDriver: IsolationDriver

const FEW = {
  name: '0001_few',
  checksum: 'a',
  up: `create domain positive as int check (value > 0);
    create table people (id int primary key, name text, age positive, constraint "a check" check (name <> 'unknown'));
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

/** Returns the message of a rejected copy, and checks that its storage was removed. */
async function rejection(what: TenantCopy, kind: Kind = 'schema-pg', by = here.fixture.drivers[kind]): Promise<string> {
  const at = locationOf('rejected', kind)
  const error = await take(at, what, by).catch((error) => error)
  expect(error).toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
  if (kind === 'schema-pg') expect(await isThere(at.locator)).toBe(false)
  await here.fixture.drivers[kind].drop(at)
  return error.message
}

describe('rejected copy', () => {
  const described = (change: Partial<BufferedCopy['description']>): BufferedCopy => ({
    ...here.copy,
    description: { ...here.copy.description, ...change },
  })
  const migrations = RICH.map(({ name, checksum }) => ({ name, checksum }))

  test('rejects a copy with other migrations and leaves no storage', async () => {
    const unknown = described({ migrations: [...migrations, { name: '0009_theirs', checksum: 'z' }] })
    const edited = described({ migrations: migrations.with(1, { name: '0002_rows', checksum: 'other' }) })
    for (const kind of OWN) {
      expect(await rejection(replayed(unknown), kind)).toMatch(/unknown here: 0009_theirs/)
      expect(await rejection(replayed(edited), kind)).toMatch(/changed since: 0002_rows/)
    }
    const { rowCount } = await here.client.query('select from pg_database where datname = $1', [
      locationOf('rejected', 'database-pg').locator,
    ])
    expect(rowCount).toBe(0)
    const withoutChecksums = described({ migrations: migrations.map(({ name }) => ({ name, checksum: '' })) })
    await take(locationOf('unsaid'), replayed(withoutChecksums))
    await here.fixture.drivers['schema-pg'].drop(locationOf('unsaid'))
  })

  test('rejects a copy whose tables are not those of its migrations and leaves no storage', async () => {
    const tables = here.copy.description.tables.map((table) =>
      table.name === 'hens' ? { ...table, columns: [...table.columns, { name: 'beak', type: 'text' }] } : table,
    )
    expect(await rejection(replayed(described({ tables })))).toMatch(/no column "beak" in the table "hens"/)
    expect(await rejection(replayed(described({ migrations: migrations.slice(0, 2) })))).toMatch(
      /no column "later" in the table "people"/,
    )
  })

  test.each<[why: string, table: string, csv: string, expected: RegExp]>([
    ['a duplicate key', 'hens', 'id,egg\n1,1\n1,1\n', /"hens" violates its constraint "hens_pkey"/],
    ['a missing referenced row', 'hens', 'id,egg\n1,9\n', /"hens" violates its constraint "hens_egg"/],
    ['a failed check', 'people', 'id,name,age\n1,unknown,\n', /"people" violates its constraint "a check"/],
    ['a missing value', 'hens', 'id,egg\n1,\n', /for the table "hens" has a value that is invalid for its column/],
    [
      'a value of another type',
      'hens',
      'id,egg\n1,one\n',
      /for the table "hens" has a value that is invalid for its column/,
    ],
    ['a value that a domain rejects', 'people', 'id,name,age\n1,a,-1\n', /"people".* constraint "positive_check"/],
    ['other columns', 'hens', 'id,eggs\n1,1\n', /for the table "hens" has a value that is invalid for its column/],
    ['a truncated row', 'hens', 'id,egg\n1', /for the table "hens" has a value that is invalid for its column/],
    [
      'a row without a partition',
      'measures',
      'at,id\n,1\n',
      /for the table "measures\w*" has a value that is invalid for its column/,
    ],
    [
      'two overlapping ranges',
      'rented',
      'room,during\n1,"[2020-01-01,2020-03-01)"\n2,"[2020-02-01,2020-03-01)"\n',
      /"rented" violates its constraint "rented_during_excl"/,
    ],
  ])('when %s', async (_, table, csv, expected) => {
    expect(await rejection(replayed(changed(few, table, csv)), 'schema-pg', fewDriver)).toMatch(expected)
  })

  test('rejects an incomplete copy and leaves no storage', async () => {
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
    expect(await rejection(twice, 'schema-pg', fewDriver)).toMatch(/contains the table "eggs" twice/)
    const empty = changed(here.copy, 'nothing', '')
    expect(await rejection(replayed(empty))).toMatch(/"nothing" is incomplete/)
  })

  test.each(OWN)('rejects a copy when %s already has the storage, which stays unchanged', async (kind) => {
    const there = locationOf('there', kind)
    await here.fixture.drivers[kind].provision(there)
    await here.fixture.drivers[kind].execute(there, { text: `insert into countries values ('xx', 'mine')` })
    const before = await rowsIn(here.fixture, there)
    await expect(take(there, replayed(here.copy))).rejects.toMatchObject({
      code: 'E_STORAGE_EXISTS',
      message: expect.stringContaining('already exists'),
    })
    expect(await rowsIn(here.fixture, there)).toEqual(before)
  })

  test.each(OWN)('of two concurrent imports of one copy %s accepts one', async (kind) => {
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

test('an import rethrows the error of its source unchanged and leaves no storage', async () => {
  // The source may be a server, too, and throw such an error.
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

describe('cancelled import', () => {
  test.each(['making', 'loading', 'indexing', 'migrating'] as const)(
    'an import that is cancelled while it is %s ends and leaves no storage',
    async (phase) => {
      const at = locationOf('unwanted')
      const controller = new AbortController()
      const reason = new Error('no longer required')
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

  test('an import that is cancelled within an endless table ends', async () => {
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

  test('an import whose signal is already aborted does not begin', async () => {
    for (const kind of OWN) {
      const importing = here.fixture.drivers[kind].import(locationOf('before', kind), replayed(here.copy), {
        signal: AbortSignal.abort(),
      })
      await expect(importing).rejects.toMatchObject({ name: 'AbortError' })
    }
  })
})

test('an import whose session is terminated creates nothing', async () => {
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
