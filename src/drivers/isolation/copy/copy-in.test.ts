/**
 * Tests that an import into separate storage creates the same objects as provisioning. copy-in.rejected.test.ts tests
 * rejected imports.
 */
import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { StorageLocation } from '../../../tenants/isolation/driver.ts'
import { schemaPg } from '../schema-pg.ts'
import { catalogOf, changed, exported, never, replayed } from './copy.fixture.ts'
import { OWN, rowsIn, useImports } from './copy-in.fixture.ts'
import { locationFor, openCopyFixture } from './copy-storage.fixture.ts'
import { RICH } from './rich.fixture.ts'

const here = useImports()
const { locationOf, take } = here

describe('storage created by an import', () => {
  test('an import writes exactly the copied rows, without effects of triggers', async () => {
    const phases: string[] = []
    const options = { signal: never(), onPhase: (phase: string) => phases.push(phase) }
    const { rows, migrations } = await here.fixture.drivers['schema-pg'].import(
      locationOf('again'),
      replayed(here.copy, 7),
      options,
    )
    expect(migrations).toEqual(RICH.map(({ name }) => name))
    expect([...rows]).toEqual(here.copy.totals.map(({ name, rows }) => [name, rows]))
    expect(phases).toEqual(['making', 'loading', 'indexing', 'migrating'])
    const before = await rowsIn(here.fixture, locationOf('full'))
    expect(Object.keys(before).filter((name) => before[name]?.length === 0)).toEqual([])
    // The views of the source were never refreshed.
    const { a_first, '0 second': second, over_forced, ...after } = await rowsIn(here.fixture, locationOf('again'))
    expect([a_first, second, over_forced]).toEqual([['(3)'], ['(4)'], ['(1)']])
    const { a_first: _, '0 second': __, over_forced: ___, ...expected } = before
    expect(after).toEqual({ ...expected, owned: ['(again,1)', '(again,2)'] })
    await here.fixture.drivers['schema-pg'].drop(locationOf('again'))
  })

  test.each(OWN)('an import into %s creates the same catalog entries as provisioning', async (kind) => {
    const [fresh, made] = [locationOf('fresh', kind), locationOf('made', kind)]
    await here.fixture.drivers[kind].provision(fresh)
    await take(made, replayed(here.copy))
    const catalogs = await Promise.all(
      [fresh, made].map((one) => here.fixture.reach(one, (reader, schema) => catalogOf(reader, schema))),
    )
    expect(catalogs[0]?.length).toBeGreaterThan(900)
    expect(catalogs[1]).toEqual(catalogs[0])
    await here.fixture.drivers[kind].fence(made)
    await here.fixture.drivers[kind].unfence(made)
    const { rows } = await here.fixture.drivers[kind].execute(made, { text: 'select name from people order by id' })
    expect(rows).toEqual([{ name: 'Ada Lovelace' }, { name: 'two\nlines, "quoted"\t\\.' }, { name: 'ž 🦄' }])
  })

  test('indexes of imported tables are in their original tablespaces', async () => {
    const name = `elsewhere_${Math.random().toString(36).slice(2, 10)}`
    await here.client.query('set allow_in_place_tablespaces = on')
    await here.client.query(`create tablespace ${name} location ''`)
    const spread = {
      name: '0001_spread',
      checksum: '',
      up: `create table spread (id int, a int, b int); create index on spread (b) tablespace pg_default;
        create index on spread (a) tablespace ${name}; alter table spread add primary key (id) using index tablespace ${name}`,
    }
    const there = await openCopyFixture(inject('postgresUrl'), { migrations: [spread] })
    try {
      const by = there.drivers['schema-pg']
      const [fresh, made] = [locationFor(there, 'schema-pg', 'fresh'), locationFor(there, 'schema-pg', 'made')]
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
      await here.client.query(`drop tablespace ${name}`)
    }
  })

  test('sequences continue from their copied values, not from the last row', async () => {
    await take(locationOf('going'), replayed(here.copy))
    const next = async (at: StorageLocation) =>
      (
        await here.fixture.reach(
          at,
          (reader, schema) =>
            reader.query(`set search_path = ${schema}; select nextval('"free ""seq"""') as free, nextval('people_id_seq') as serial,
            nextval('measures_id_seq') as identity`) as unknown as Promise<pg.QueryResult[]>,
        )
      )[1]?.rows[0]
    expect(await next(locationOf('going'))).toEqual({ free: '95', serial: '4', identity: '14' })
    const insert = `insert into people (name, email) values ('x', 'x') returning id, stamped`
    const { rows } = await here.fixture.drivers['schema-pg'].execute(locationOf('going'), { text: insert })
    expect(rows).toEqual([{ id: 5, stamped: 1 }])
    await here.fixture.drivers['schema-pg'].drop(locationOf('going'))
  })

  test('an import runs pending migrations, and its constraints are deferrable again', async () => {
    const later = {
      name: '0004_new',
      checksum: 'd',
      up: `insert into outside values (7); insert into public.shared_by_all values (7) on conflict do nothing;
        alter table people rename column later to last; update people set last = upper(last); create table new (id int)`,
    }
    const newer = await here.fixture.installation.open(await here.fixture.installation.prepare(), {
      driver: () => schemaPg(),
      migrations: [...RICH, later],
    })
    const { migrations, rows } = await take(locationOf('newer'), replayed(here.copy), newer)
    expect(migrations).toEqual([...RICH, later].map(({ name }) => name))
    expect(rows.has('new')).toBe(false)
    const after = await rowsIn(here.fixture, locationOf('newer'))
    expect(after).toMatchObject({ outside: ['(1)', '(1)', '(7)'], new: [] })
    expect(after.people?.join()).toContain('LATER')
    expect(await newer.applied(locationOf('newer'))).toEqual(migrations)
    await newer.drop(locationOf('newer'))
  })

  test('an import keeps rows of tables that the copy does not have', async () => {
    await take(locationOf('kept'), replayed(changed(here.copy, 'rented', undefined)))
    expect((await rowsIn(here.fixture, locationOf('kept'))).rented).toEqual([
      '(9,"[""2000-01-01 00:00:00"",""2000-02-01 00:00:00"")")',
    ])
    await here.fixture.drivers['schema-pg'].drop(locationOf('kept'))
  })

  test('an import without possible statistics is complete', async () => {
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
      installation: here.fixture.installation.id,
      placements: new Map([['main', await here.fixture.installation.prepare()]]),
      migrations: [...RICH, stubborn],
      generation: () => 0,
      log: createLogger({ write: (line) => lines.push(line) }),
    })
    await source.provision(locationOf('stubborn'))
    await source.execute(locationOf('stubborn'), {
      text: `insert into people (name, email) values ('a', 'a'), ('b', 'b')`,
    })
    await take(locationOf('moved'), replayed(await exported(source, locationOf('stubborn'))), source)
    const { people } = await rowsIn(here.fixture, locationOf('moved'))
    expect(people).toHaveLength(2)
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual([
      expect.stringMatching(/^could not analyze imported tables/),
    ])
    await source.drop(locationOf('stubborn'))
    await source.drop(locationOf('moved'))
    await source.stop()
  })
})
