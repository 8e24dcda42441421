import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import type { TenantHandle } from '../../tenants/isolation.ts'
import { createTestDatabase } from '../../testing/database.ts'
import { directHandle } from '../../testing/direct-handle.ts'
import { eventually } from '../../testing/tenancy.ts'
import { exported, held, never } from './copy.fixture.ts'
import { copyOut } from './copy-out.ts'
import { TENANT } from './copy-rows.fixture.ts'
import { abortable } from './copy-session.ts'
import { KINDS, type Kind, openSide, places, type Side, withOwner } from './copy-sides.fixture.ts'
import { readStored } from './copy-tables.ts'
import { PostgresMigrator } from './postgres-migrator.ts'

const MIGRATION = {
  name: '0001_all',
  checksum: 'abc',
  up: `create type mood as enum ('sad', 'happy');
    create table tokens (${TENANT}, id int, place text, primary key (tenant_id, id));
    create table there (${TENANT}, id int, primary key (tenant_id, id));
    create table "Values" (${TENANT}, id bigint generated always as identity (start with 41), mood mood, moods mood[], price numeric(12,2), at timestamptz,
      day date, span interval, bytes bytea, x float8, name varchar(20), length int generated always as (length(name)) stored,
      primary key (tenant_id, id));
    create sequence free start 7`,
}
const SECOND = { name: '0002_none', checksum: 'def', up: 'select' }
const FILL = [
  `insert into tokens select from generate_series(1, 0)`,
  `insert into tokens (id, place) select n, 'here' from generate_series(1, 100) n`,
  `insert into "Values" (mood, moods, price, at, day, span, bytes, x, name)
    values ('sad', '{sad,happy}', 12.5, '2024-05-06 07:08:09.1+02', '2024-05-06', '-1 day 2 hours', '\\xdead', 0.1::float8 + 0.2, 'a "name",'), (null, null, null, null, null, null, null, 'NaN', '')`,
]

const OWNERS = ['a superuser', 'an owner like any other'] as const
type Work = (side: Side, role: string) => Promise<void>

async function withSide(owner: (typeof OWNERS)[number], work: Work): Promise<void> {
  const open = async (ownerUrl?: (url: string) => string, role = '') => {
    const side = await openSide(inject('postgresUrl'), {
      migrations: [MIGRATION, SECOND],
      ...(ownerUrl ? { ownerUrl } : {}),
    })
    try {
      await work(side, role)
    } finally {
      await side.end()
    }
  }
  if (owner === 'a superuser') await open()
  else await withOwner(inject('postgresUrl'), open)
}

const handle = (side: Side, kind: Kind, tenantId: string): TenantHandle =>
  directHandle(side.drivers[kind], places(side, kind, tenantId))

async function fill(side: Side, kind: Kind, tenantId: string): Promise<void> {
  await side.drivers[kind].provision(places(side, kind, tenantId))
  for (const text of FILL) await handle(side, kind, tenantId).pool.query(text)
}

/** Sessions of the owner that are not idle, in the databases of this installation. */
const busy = async (side: Side) =>
  (
    await side.installation.database.sql(
      `select state, query from pg_stat_activity where application_name = 'tenantry ddl' and state <> 'idle'
        and datname in (current_database(), $1, $2)`,
      ['source', 'other'].map((tenant) => places(side, 'database-pg', tenant).locator),
    )
  ).rows

/** As an administrator may end a session that copies. */
const END = `select pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'tenantry ddl' and datname = current_database() and query like 'copy %' and state = 'active'`

const CSV = {
  tokens: `id,place\n${Array.from({ length: 100 }, (_, n) => `${n + 1},here\n`).join('')}`,
  there: 'id\n',
  Values: `id,mood,moods,price,at,day,span,bytes,x,name
41,sad,"{sad,happy}",12.50,2024-05-06 05:08:09.1+00,2024-05-06,-1 days +02:00:00,\\xdead,0.30000000000000004,"a ""name"","
42,,,,,,,,NaN,""
`,
}

describe.each(OWNERS)('what %s reads', (owner) => {
  test.each(KINDS)('of %s is all that the tenant has, and nothing of another', async (kind) => {
    await withSide(owner, async (side) => {
      await fill(side, kind, 'source')
      await fill(side, kind, 'other')
      await handle(side, kind, 'source').pool.query(`select nextval('free')`)
      const [rows] = (await handle(side, kind, 'source').pool.query('select id from "Values" order by id')).rows
      const { description, csv, totals } = await exported(side.drivers[kind], places(side, kind, 'source'))
      // In shared tables, others have taken numbers too, in between.
      const values = CSV.Values.replace('\n41,', `\n${rows.id},`).replace('\n42,', `\n${Number(rows.id) + 1},`)
      expect([...csv]).toEqual([
        ['Values', values],
        ['there', CSV.there],
        ['tokens', CSV.tokens],
      ])
      expect(description).toEqual({
        engine: 'postgres',
        isolation: kind,
        migrations: [
          { name: '0001_all', checksum: 'abc' },
          { name: '0002_none', checksum: 'def' },
        ],
        tables: [
          {
            name: 'Values',
            columns: [
              { name: 'id', type: 'bigint' },
              { name: 'mood', type: 'mood' },
              { name: 'moods', type: 'mood[]' },
              { name: 'price', type: 'numeric(12,2)' },
              { name: 'at', type: 'timestamp with time zone' },
              { name: 'day', type: 'date' },
              { name: 'span', type: 'interval' },
              { name: 'bytes', type: 'bytea' },
              { name: 'x', type: 'double precision' },
              { name: 'name', type: 'character varying(20)' },
            ],
          },
          { name: 'there', columns: [{ name: 'id', type: 'integer' }] },
          {
            name: 'tokens',
            columns: [
              { name: 'id', type: 'integer' },
              { name: 'place', type: 'text' },
            ],
          },
        ],
        sequences: [
          { name: 'Values_id_seq', lastValue: kind === 'rowscope-pg' ? '44' : '42', isCalled: true },
          { name: 'free', lastValue: '7', isCalled: true },
        ],
      })
      expect(totals).toEqual(
        [...csv].map(([name, text]) => ({
          name,
          rows: text.split('\n').length - 2,
          bytes: Buffer.byteLength(text),
        })),
      )
      expect(await busy(side)).toEqual([])
    })
  })

  test.each(KINDS)('of %s is the same whatever the server is set to', async (kind) => {
    await withSide(owner, async (side) => {
      await fill(side, kind, 'source')
      const before = await exported(side.drivers[kind], places(side, kind, 'source'))
      const database =
        kind === 'database-pg' ? places(side, kind, 'source').locator : new URL(side.installation.url).pathname.slice(1)
      const odd = {
        datestyle: 'German',
        intervalstyle: 'iso_8601',
        timezone: 'Asia/Tokyo',
        extra_float_digits: '-3',
        bytea_output: 'escape',
        lc_monetary: 'C',
        statement_timeout: '5s',
        default_transaction_isolation: 'serializable',
        search_path: 'pg_catalog',
        row_security: 'on',
        client_encoding: 'LATIN1',
      }
      for (const [name, value] of Object.entries(odd)) {
        await side.installation.database.sql(`alter database ${pg.escapeIdentifier(database)} set ${name} = '${value}'`)
      }
      const placement = await side.installation.prepare()
      const again = await side.installation.open(placement, {
        driver: () => side.makers[kind](),
        migrations: [MIGRATION, SECOND],
      })
      const after = await exported(again, places(side, kind, 'source'))
      expect(after).toEqual(before)
      const taken = { ...places(side, kind, 'taken') }
      const { rows } = await again.export(
        places(side, kind, 'source'),
        (copy) => again.import(taken, copy, { signal: never() }),
        { signal: never() },
      )
      expect(rows.get('tokens')).toBe(100)
      expect((await exported(again, taken)).csv).toEqual(before.csv)
    })
  })

  test.each(KINDS)('of %s comes through a fence', async (kind) => {
    await withSide(owner, async (side) => {
      await fill(side, kind, 'source')
      await side.drivers[kind].fence(places(side, kind, 'source'))
      const { csv } = await exported(side.drivers[kind], places(side, kind, 'source'))
      expect(csv.get('tokens')).toBe(CSV.tokens)
      expect(await side.drivers[kind].isFenced(places(side, kind, 'source'))).toBe(true)
    })
  })

  test.each(KINDS)('of %s is of one moment, however much is written', async (kind) => {
    await withSide(owner, async (side) => {
      await fill(side, kind, 'source')
      const { transaction, pool } = handle(side, kind, 'source')
      let isOver = false
      const write = async () => {
        while (!isOver) {
          const id = 1 + Math.floor(Math.random() * 100)
          await transaction(async (db) => {
            const moved = await db.deleteFrom('tokens').where('id', '=', id).returning('id').executeTakeFirst()
            if (moved) await db.insertInto('there').values({ id }).execute()
            else {
              await db.deleteFrom('there').where('id', '=', id).execute()
              await db
                .insertInto('tokens')
                .values({ id, place: 'back' })
                .onConflict((it) => it.doNothing())
                .execute()
            }
          })
        }
      }
      const writing = [write(), write()]
      const ids = (csv: string | undefined) =>
        (csv ?? '')
          .split('\n')
          .slice(1, -1)
          .map((line) => Number.parseInt(line, 10))
      try {
        for (let n = 0; n < 10; n++) {
          const { csv } = await exported(side.drivers[kind], places(side, kind, 'source'))
          const all = [...ids(csv.get('tokens')), ...ids(csv.get('there'))].sort((a, b) => a - b)
          expect(all).toEqual(Array.from({ length: 100 }, (_, index) => index + 1))
        }
      } finally {
        isOver = true
        await Promise.allSettled(writing)
      }
      expect((await pool.query('select from there')).rowCount).toBeGreaterThan(0)
    })
  })
})

describe.each(KINDS)('a copy out of %s', (kind) => {
  test('may be left at any moment, and leaves nothing behind', async () => {
    await withSide('a superuser', async (side) => {
      const [driver, place] = [side.drivers[kind], places(side, kind, 'source')]
      await fill(side, kind, 'source')
      await handle(side, kind, 'source').pool.query(
        `insert into tokens (id, place) select n, repeat('x', 1000) from generate_series(1000, 20000) n`,
      )
      const reading = <T>(work: Parameters<typeof driver.export<T>>[1], signal = never()) =>
        driver.export<T>(place, work, { signal })
      expect(await reading(async () => 'nothing')).toBe('nothing')
      const inTheMiddle = await reading(async (copy) => {
        for await (const { table, csv } of copy.tables()) {
          for await (const chunk of csv) if (table.name === 'tokens') return chunk.length
        }
        return 0
      })
      expect(inTheMiddle).toBeGreaterThan(0)
      const failure = new Error('the disk is full')
      const failing = reading(async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) throw failure
      })
      await expect(failing).rejects.toBe(failure)
      const unread = reading(async (copy) => {
        for await (const { table } of copy.tables()) expect(table.name).toBe('Values')
      })
      await expect(unread).rejects.toThrow('"Values" was not read to its end')
      await expect(reading((copy) => copy.totals())).rejects.toThrow('not all tables')
      const twice = reading(async (copy) => [(await held(copy)).totals, (await held(copy)).totals])
      const [first, second] = await twice
      expect(second).toEqual(first)
      const [controller, reason] = [new AbortController(), new Error('not wanted any more')]
      const aborted = reading(async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) controller.abort(reason)
      }, controller.signal)
      await expect(aborted).rejects.toBe(reason)
      const ended = reading(async (copy) => {
        for await (const { table, csv } of copy.tables()) {
          for await (const _ of csv) if (table.name === 'tokens') await side.reach(place, (client) => client.query(END))
        }
      })
      await expect(ended).rejects.toThrow()
      const [idle, none] = [new AbortController(), new Error('nor this')]
      const waiting = reading(async () => {
        idle.abort(none)
        return 'done'
      }, idle.signal)
      await expect(waiting).rejects.toBe(none)
      await expect(reading(async () => 1, AbortSignal.abort(reason))).rejects.toBe(reason)
      await eventually(async () => expect(await busy(side)).toEqual([]))
      expect((await exported(driver, place)).totals.at(-1)?.rows).toBe(19_101)
    })
  })

  test('guesses how many rows there are', async () => {
    await withSide('an owner like any other', async (side) => {
      await fill(side, kind, 'source')
      await fill(side, kind, 'other')
      await side.reach(places(side, kind, 'source'), (client) => client.query('analyze'))
      const guess = await side.drivers[kind].export(
        places(side, kind, 'source'),
        async ({ estimatedRows }) => estimatedRows,
        { signal: never() },
      )
      expect(guess).toBeGreaterThan(20)
      expect(guess).toBeLessThan(200)
    })
  })
})

describe('a copy is not made', () => {
  test.each(['schema-pg', 'database-pg'] as const)('of storage of %s that is not there', async (kind) => {
    await withSide('a superuser', async (side) => {
      await expect(exported(side.drivers[kind], places(side, kind, 'nobody'))).rejects.toMatchObject({
        code: 'E_BACKUP_INCOMPATIBLE',
        message: 'The storage of the tenant is not there; nothing was read.',
      })
    })
  })

  test('where a table’s own policies would hide rows from its owner', async () => {
    await withSide('an owner like any other', async (side) => {
      await fill(side, 'schema-pg', 'source')
      await side.installation.database.sql(
        'alter table t1_source.tokens enable row level security, force row level security',
      )
      await expect(exported(side.drivers['schema-pg'], places(side, 'schema-pg', 'source'))).rejects.toMatchObject({
        code: '42501',
      })
    })
  })

  test.each(OWNERS)('where a policy of the host’s may hide rows from %s', async (owner) => {
    await withSide(owner, async (side, role) => {
      const [driver, place] = [side.drivers['rowscope-pg'], places(side, 'rowscope-pg', 'source')]
      await fill(side, 'rowscope-pg', 'source')
      const { scopeRole } = await side.installation.prepare()
      const restrict = (who: string) =>
        side.installation.database.sql(`drop policy if exists hides on tenantry_rows.tokens;
          create policy hides on tenantry_rows.tokens as restrictive for select to ${who} using (id > 50)`)
      for (const who of ['public', owner === 'a superuser' ? scopeRole : role]) {
        await restrict(who)
        await expect(exported(driver, place)).rejects.toMatchObject({
          code: 'E_BACKUP_INCOMPATIBLE',
          message: expect.stringContaining('"hides" of the table "tokens" may hide rows'),
        })
      }
      await restrict('pg_monitor')
      expect((await exported(driver, place)).csv.get('tokens')).toBe(CSV.tokens)
    })
  })

  test.each(OWNERS)('by %s with fewer rows because policies were lost: they are made again', async (owner) => {
    await withSide(owner, async (side) => {
      await fill(side, 'rowscope-pg', 'source')
      await side.installation.database.sql(`do $$ declare lost record; begin
        for lost in select polname, polrelid::regclass as of from pg_policy where polname like 'tenantry_%' loop
          execute format('drop policy %I on %s', lost.polname, lost.of); end loop; end $$`)
      const { csv } = await exported(side.drivers['rowscope-pg'], places(side, 'rowscope-pg', 'source'))
      expect(csv.get('tokens')).toBe(CSV.tokens)
    })
  })
})

describe('while tables come and go', () => {
  /** A client of the superuser that has something done just before the transaction of a copy begins. */
  async function withInterruption(side: Side, interruption: () => Promise<unknown>, times = 1) {
    const client = new pg.Client(side.installation.url)
    await client.connect()
    const query = client.query.bind(client) as (...of: unknown[]) => Promise<unknown>
    let left = times
    client.query = (async (...of: unknown[]) => {
      if (typeof of[0] === 'string' && of[0].startsWith('begin isolation') && left-- > 0) await interruption()
      return query(...of)
    }) as never
    const source = {
      isolation: 'schema-pg',
      schema: 't1_source',
      searchPath: 't1_source',
      tenantId: 'source',
      migrator: new PostgresMigrator([]),
    }
    try {
      return await abortable(never(), (hold) =>
        copyOut(client, source, async ({ description }) => description.tables.map(({ name }) => name), hold),
      )
    } finally {
      await client.end()
    }
  }

  test('a copy begins anew, until it has them all', async () => {
    await withSide('a superuser', async (side) => {
      const { database } = side.installation
      await fill(side, 'schema-pg', 'source')
      expect(await withInterruption(side, () => database.sql('create table t1_source.came (id int)'))).toEqual([
        'Values',
        'came',
        'there',
        'tokens',
      ])
      expect(await withInterruption(side, () => database.sql('drop table t1_source.came'))).toEqual([
        'Values',
        'there',
        'tokens',
      ])
      let n = 0
      const always = withInterruption(side, () => database.sql(`create table t1_source.came_${n++} (id int)`), 100)
      await expect(always).rejects.toThrow('no moment for a copy')
    })
  })

  test('nobody empties or alters one that is being read', async () => {
    await withSide('a superuser', async (side) => {
      await fill(side, 'schema-pg', 'source')
      await side.drivers['schema-pg'].export(
        places(side, 'schema-pg', 'source'),
        async (copy) => {
          for (const text of [
            'truncate t1_source.tokens',
            'alter table t1_source.tokens add column more int default 1',
          ]) {
            await expect(side.installation.database.sql(`set lock_timeout = '50ms'; ${text}`)).rejects.toMatchObject({
              code: '55P03',
            })
          }
          const { csv } = await held(copy)
          expect(csv.get('tokens')).toBe(CSV.tokens)
        },
        { signal: never() },
      )
    })
  })
})

test('the catalog is not read from end to end, whatever the planner knows of it', async () => {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`create schema tenantry; create function tenantry.current_tenant() returns text language sql return 'x';
      alter database ${new URL(url).pathname.slice(1)} set jit = off`)
    for (let n = 0; n < 100; n++) {
      await client.query(`create schema t${n}; set search_path = t${n};
        create table a (tenant_id text default tenantry.current_tenant(), id int generated always as identity primary key);
        create table b (tenant_id text default tenantry.current_tenant(), id serial primary key);
        create table c (id int) partition by list (id); create table d partition of c default; create view e as select id from a`)
    }
    for (const before of ['', 'vacuum', 'analyze']) {
      if (before) await client.query(before)
      await client.query('begin')
      const scans = async () =>
        (
          await client.query(`select relname, pg_stat_get_xact_numscans(oid) as scans from pg_class
            where relname in ('pg_class', 'pg_depend', 'pg_attribute', 'pg_attrdef', 'pg_type') order by relname`)
        ).rows
      await scans()
      const first = await scans()
      const stored = await readStored(client, 't50', 't50')
      expect(await scans()).toEqual(first)
      expect(stored?.tables.map(({ name }) => name)).toEqual(['a', 'b', 'c'])
      expect(stored?.sequences.map(({ column }) => column?.table)).toEqual(['a', 'b'])
      await client.query('rollback')
    }
  } finally {
    await client.end()
    await drop()
  }
})
