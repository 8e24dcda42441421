/** Creates tenants whose rows a copy reads, by owners of the tables of each kind. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { exported, never } from './copy.fixture.ts'
import {
  type CopyFixture,
  createOwner,
  KINDS,
  type Kind,
  locationFor,
  openCopyFixture,
} from './copy-storage.fixture.ts'
import { TENANT } from './rows.fixture.ts'

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

/** Owners of the tables. */
export const OWNERS = ['a superuser', 'a non-superuser owner'] as const
export type Owner = (typeof OWNERS)[number]

export interface OwnedSide {
  readonly fixture: CopyFixture
  /** The role of the owner; empty for the superuser. */
  readonly role: string
  end(): Promise<void>
}

async function openOwned(kind: Owner): Promise<OwnedSide> {
  const migrations = [MIGRATION, SECOND]
  if (kind === 'a superuser') {
    const fixture = await openCopyFixture(inject('postgresUrl'), { migrations })
    return { fixture, role: '', end: () => fixture.end() }
  }
  const owner = await createOwner(inject('postgresUrl'))
  const fixture = await openCopyFixture(inject('postgresUrl'), { migrations, ownerUrl: owner.ownerUrl })
  return {
    fixture,
    role: owner.name,
    async end() {
      await fixture.end()
      await owner.drop()
    },
  }
}

export async function withFixture(
  owner: Owner,
  work: (fixture: CopyFixture, role: string) => Promise<void>,
): Promise<void> {
  const { fixture, role, end } = await openOwned(owner)
  try {
    await work(fixture, role)
  } finally {
    await end()
  }
}

/**
 * One storage for all tests of a block, with the tenants `source` and `other` in storage of these kinds. Tests leave
 * them unchanged.
 */
export function sharedSide(owner: Owner, kinds: readonly Kind[]): () => OwnedSide {
  let owned: OwnedSide
  beforeAll(async () => {
    owned = await openOwned(owner)
    for (const kind of kinds) for (const tenantId of ['source', 'other']) await fill(owned.fixture, kind, tenantId)
  })
  afterAll(() => owned?.end())
  return () => owned
}

export const handle = (fixture: CopyFixture, kind: Kind, tenantId: string): StorageHandle =>
  directHandle(fixture.drivers[kind], locationFor(fixture, kind, tenantId))

export async function fill(fixture: CopyFixture, kind: Kind, tenantId: string): Promise<void> {
  await fixture.drivers[kind].provision(locationFor(fixture, kind, tenantId))
  for (const text of FILL) await handle(fixture, kind, tenantId).pool.query(text)
}

/** Sessions of the owner that are not idle, in the databases of this installation. */
export const busy = async (fixture: CopyFixture) =>
  (
    await fixture.installation.database.sql(
      `select state, query from pg_stat_activity where application_name = 'tenantry ddl' and state <> 'idle'
        and datname in (current_database(), $1, $2)`,
      ['source', 'other'].map((tenant) => locationFor(fixture, 'database-pg', tenant).locator),
    )
  ).rows

/** Ends a session that copies, as an administrator may do. */
export const END = `select pg_terminate_backend(pid) from pg_stat_activity
  where application_name = 'tenantry ddl' and datname = current_database() and query like 'copy %' and state = 'active'`

export const CSV = {
  tokens: `id,place\n${Array.from({ length: 100 }, (_, n) => `${n + 1},here\n`).join('')}`,
  there: 'id\n',
  Values: `id,mood,moods,price,at,day,span,bytes,x,name
41,sad,"{sad,happy}",12.50,2024-05-06 05:08:09.1+00,2024-05-06,-1 days +02:00:00,\\xdead,0.30000000000000004,"a ""name"","
42,,,,,,,,NaN,""
`,
}

/** @param shared the storage of this owner, with storage of all kinds */
export function readings(owner: Owner, shared: () => OwnedSide): void {
  describe(`what ${owner} reads`, () => {
    test.each(KINDS)('a copy of %s has all rows of the tenant and none of another', async (kind) => {
      const { fixture } = shared()
      const [{ next }] = (await handle(fixture, kind, 'source').pool.query(`select nextval('free') as next`)).rows
      const [rows] = (await handle(fixture, kind, 'source').pool.query('select id from "Values" order by id')).rows
      const [{ last }] = (
        await fixture.reach(locationFor(fixture, kind, 'source'), (client, schema) =>
          client.query(`select last_value as last from ${schema}."Values_id_seq"`),
        )
      ).rows
      const { description, csv, totals } = await exported(fixture.drivers[kind], locationFor(fixture, kind, 'source'))
      // In shared tables, other tenants have taken values in between.
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
          { name: 'Values_id_seq', lastValue: kind === 'rowscope-pg' ? last : '42', isCalled: true },
          { name: 'free', lastValue: kind === 'rowscope-pg' ? next : '7', isCalled: true },
        ],
      })
      expect(totals).toEqual(
        [...csv].map(([name, text]) => ({
          name,
          rows: text.split('\n').length - 2,
          bytes: Buffer.byteLength(text),
        })),
      )
      expect(await busy(fixture)).toEqual([])
    })

    test.each(KINDS)('a copy of %s does not depend on settings of the server', async (kind) => {
      const { fixture } = shared()
      const [source, taken] = [locationFor(fixture, kind, 'source'), locationFor(fixture, kind, 'taken')]
      const before = await exported(fixture.drivers[kind], source)
      const database = pg.escapeIdentifier(
        kind === 'database-pg' ? source.locator : new URL(fixture.installation.url).pathname.slice(1),
      )
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
      const settings = Object.entries(odd).map(([name, value]) => `alter database ${database} set ${name} = '${value}'`)
      await fixture.installation.database.sql(settings.join('; '))
      const again = await fixture.installation.open(await fixture.installation.prepare(), {
        driver: () => fixture.makers[kind](),
        migrations: [MIGRATION, SECOND],
      })
      try {
        const after = await exported(again, source)
        expect(after).toEqual(before)
        const { rows } = await again.export(source, (copy) => again.import(taken, copy, { signal: never() }), {
          signal: never(),
        })
        expect(rows.get('tokens')).toBe(100)
        expect((await exported(again, taken)).csv).toEqual(before.csv)
      } finally {
        await again.stop()
        await fixture.installation.database.sql(`alter database ${database} reset all`)
        await fixture.drivers[kind].drop(taken)
      }
    })

    test.each(KINDS)('a copy of %s can be read behind a fence', async (kind) => {
      const { fixture } = shared()
      const [driver, source] = [fixture.drivers[kind], locationFor(fixture, kind, 'source')]
      await driver.fence(source)
      try {
        const { csv } = await exported(driver, source)
        expect(csv.get('tokens')).toBe(CSV.tokens)
        expect(await driver.isFenced(source)).toBe(true)
      } finally {
        await driver.unfence(source)
      }
    })

    test.each(KINDS)('a copy of %s has the state at its start', async (kind) => {
      const { fixture } = shared()
      const { pool } = handle(fixture, kind, 'other')
      const [driver, other] = [fixture.drivers[kind], locationFor(fixture, kind, 'other')]
      try {
        const read: Record<string, string> = {}
        const reading = driver.export(
          other,
          async (copy) => {
            for await (const { table, csv } of copy.tables()) {
              read[table.name] = Buffer.concat(await Array.fromAsync(csv)).toString()
              if (table.name !== 'Values') continue
              await pool.query(`with moved as (delete from tokens where id <= 50 returning id)
                insert into there (id) select id from moved`)
            }
          },
          { signal: never() },
        )
        await reading
        expect(read).toMatchObject({ there: CSV.there, tokens: CSV.tokens })
        expect((await pool.query('select from there')).rowCount).toBe(50)
      } finally {
        await pool.query(`with moved as (delete from there returning id)
          insert into tokens (id, place) select id, 'here' from moved`)
      }
    })

    test.each(KINDS)('a copy of %s has an estimated number of rows', async (kind) => {
      const { fixture } = shared()
      const source = locationFor(fixture, kind, 'source')
      await fixture.reach(source, (client, schema) =>
        client.query(`analyze ${schema}.tokens, ${schema}.there, ${schema}."Values"`),
      )
      const guess = await fixture.drivers[kind].export(source, async ({ estimatedRows }) => estimatedRows, {
        signal: never(),
      })
      expect(guess).toBeGreaterThan(20)
      expect(guess).toBeLessThan(200)
    })
  })
}
