import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import { createTestDatabase } from '../../../testing/base/database.ts'
import { readStored } from '../catalog/tables.ts'
import { PostgresMigrator } from '../migrations/postgres-migrator.ts'
import { abortable } from '../transactions/copy-session.ts'
import { exported, held, never } from './copy.fixture.ts'
import { CSV, fill, OWNERS, readings, sharedSide } from './copy-out.fixture.ts'
import { copyOut } from './copy-out.ts'
import { type CopyFixture, KINDS, locationFor } from './copy-storage.fixture.ts'

const owned = {
  'a superuser': sharedSide('a superuser', KINDS),
  'a non-superuser owner': sharedSide('a non-superuser owner', ['rowscope-pg', 'schema-pg']),
}

readings('a superuser', owned['a superuser'])

describe('rejected copy', () => {
  test.each(['schema-pg', 'database-pg'] as const)('rejects a copy of missing storage of %s', async (kind) => {
    const { fixture } = owned['a superuser']()
    await expect(exported(fixture.drivers[kind], locationFor(fixture, kind, 'unknown'))).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
      message: 'Storage of the tenant not found; nothing was read.',
    })
  })

  test('rejects a copy if policies of a table would hide rows from its owner', async () => {
    const { fixture } = owned['a non-superuser owner']()
    const alter = (text: string) => fixture.installation.database.sql(`alter table t1_source.tokens ${text}`)
    await alter('enable row level security, force row level security')
    try {
      await expect(
        exported(fixture.drivers['schema-pg'], locationFor(fixture, 'schema-pg', 'source')),
      ).rejects.toMatchObject({
        code: '42501',
      })
    } finally {
      await alter('disable row level security, no force row level security')
    }
  })

  test.each(OWNERS)('rejects a copy if a policy of the host may hide rows from %s', async (owner) => {
    const { fixture, role } = owned[owner]()
    const [driver, location] = [fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source')]
    const { scopeRole } = await fixture.installation.prepare()
    const drop = 'drop policy if exists hides on tenantry_rows.tokens'
    const restrict = (who: string) =>
      fixture.installation.database.sql(`${drop};
        create policy hides on tenantry_rows.tokens as restrictive for select to ${who} using (id > 50)`)
    try {
      for (const who of ['public', owner === 'a superuser' ? scopeRole : role]) {
        await restrict(who)
        await expect(exported(driver, location)).rejects.toMatchObject({
          code: 'E_BACKUP_INCOMPATIBLE',
          message: expect.stringContaining('"hides" of the table "tokens" may hide rows'),
        })
      }
      await restrict('pg_monitor')
      expect((await exported(driver, location)).csv.get('tokens')).toBe(CSV.tokens)
    } finally {
      await fixture.installation.database.sql(drop)
    }
  })

  test.each(OWNERS)('a copy by %s restores lost policies and has all rows', async (owner) => {
    const { fixture } = owned[owner]()
    await fixture.installation.database.sql(`do $$ declare lost record; begin
      for lost in select polname, polrelid::regclass as of from pg_policy where polname like 'tenantry_%' loop
        execute format('drop policy %I on %s', lost.polname, lost.of); end loop; end $$`)
    const { csv } = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
    expect(csv.get('tokens')).toBe(CSV.tokens)
  })
})

describe('while tables are created and dropped', () => {
  /** A client of the superuser that runs an action immediately before the transaction of a copy begins. */
  async function withInterruption(fixture: CopyFixture, interruption: () => Promise<unknown>, times = 1) {
    const client = new pg.Client(fixture.installation.url)
    await client.connect()
    const query = client.query.bind(client) as (...of: unknown[]) => Promise<unknown>
    let left = times
    client.query = (async (...of: unknown[]) => {
      if (typeof of[0] === 'string' && of[0].startsWith('begin isolation') && left-- > 0) await interruption()
      return query(...of)
    }) as never
    const source = {
      isolation: 'schema-pg',
      schema: 't1_changing',
      searchPath: 't1_changing',
      tenantId: 'changing',
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

  test('a copy starts again until it has all tables', async () => {
    const { fixture } = owned['a superuser']()
    const { database } = fixture.installation
    await fill(fixture, 'schema-pg', 'changing')
    expect(await withInterruption(fixture, () => database.sql('create table t1_changing.came (id int)'))).toEqual([
      'Values',
      'came',
      'there',
      'tokens',
    ])
    expect(await withInterruption(fixture, () => database.sql('drop table t1_changing.came'))).toEqual([
      'Values',
      'there',
      'tokens',
    ])
    let n = 0
    const always = withInterruption(fixture, () => database.sql(`create table t1_changing.came_${n++} (id int)`), 100)
    await expect(always).rejects.toThrow('during each attempt to copy')
  })

  test('no other session can truncate or alter a table that is being copied', async () => {
    const { fixture } = owned['a superuser']()
    await fixture.drivers['schema-pg'].export(
      locationFor(fixture, 'schema-pg', 'source'),
      async (copy) => {
        for (const text of [
          'truncate t1_source.tokens',
          'alter table t1_source.tokens add column more int default 1',
        ]) {
          await expect(fixture.installation.database.sql(`set lock_timeout = '1ms'; ${text}`)).rejects.toMatchObject({
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

test('a copy reads the catalog by indexes, regardless of the planner’s statistics', async () => {
  const { url, drop } = await createTestDatabase(inject('postgresUrl'))
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`create schema tenantry; create function tenantry.current_tenant() returns text language sql return 'x';
      alter database ${new URL(url).pathname.slice(1)} set jit = off`)
    // The planner may read a smaller catalog completely.
    await client.query(`do $$ begin for n in 0..99 loop
      execute format('create schema t%s; set search_path = t%s', n, n);
      create table a (tenant_id text default tenantry.current_tenant(), id int generated always as identity primary key);
      create table b (tenant_id text default tenantry.current_tenant(), id serial primary key);
      create table c (id int) partition by list (id); create table d partition of c default; create view e as select id from a;
      end loop; end $$`)
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
