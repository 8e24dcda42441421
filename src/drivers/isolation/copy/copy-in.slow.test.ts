/** Tests of imports into separate storage: other owners, lost connections, and cancellation at the server. */
import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import { startFaultProxy } from '../../../../test/support/fault-proxy.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { provisioned } from '../roles/installation.fixture.ts'
import { schemaPg } from '../schema-pg.ts'
import { catalogOf, exported, replayed } from './copy.fixture.ts'
import { OWN, rowsIn, useImports } from './copy-in.fixture.ts'
import { locationFor, openCopyFixture, withOwner } from './copy-storage.fixture.ts'
import { RICH } from './rich.fixture.ts'

const here = useImports()
const { locationOf, take, isThere, busy } = here

describe('storage created by an import', () => {
  test('an import by a non-superuser owner creates the same catalog entries as provisioning', async () => {
    await withOwner(inject('postgresUrl'), async (ownerUrl) => {
      const theirs = await openCopyFixture(inject('postgresUrl'), { migrations: RICH, ownerUrl })
      try {
        for (const kind of OWN) {
          const [fresh, made] = [locationFor(theirs, kind, 'fresh'), locationFor(theirs, kind, 'made')]
          if (kind === 'schema-pg') await theirs.installation.database.sql('grant create on schema public to public')
          await theirs.drivers[kind].provision(fresh)
          await take(made, replayed(here.copy, 100), theirs.drivers[kind])
          const catalogs = await Promise.all(
            [fresh, made].map((one) => theirs.reach(one, (reader, schema) => catalogOf(reader, schema))),
          )
          expect(catalogs[1]).toEqual(catalogs[0])
          expect(await rowsIn(theirs, made)).toMatchObject({ hens: ['(1,1)'], eggs: ['(1,1)'] })
        }
      } finally {
        await theirs.end()
      }
    })
  })
})

describe('import whose connection is lost', () => {
  test.each(['create schema', 'copy "t1_cut"."people"', 'create unique index', 'analyze', 'commit'])(
    'an import whose connection is lost at "%s" creates nothing and can be repeated',
    async (text) => {
      const proxy = await startFaultProxy(here.fixture.installation.url)
      try {
        const placement = await here.fixture.installation.prepare()
        const cut = await here.fixture.installation.open(
          { ...placement, url: proxy.through(placement.url) },
          { driver: () => schemaPg(), migrations: RICH },
        )
        const at = { ...locationOf('cut'), locator: 't1_cut' }
        await cut.applied(at)
        const fault = proxy.at(text, 'cut the line')
        await expect(take(at, replayed(here.copy), cut)).rejects.toThrow()
        expect(fault.hasHappened).toBe(true)
        await eventually(async () => expect(await busy()).toEqual([]))
        expect(await isThere('t1_cut')).toBe(false)
        await take(at, replayed(here.copy), cut)
        await cut.drop(at)
        await cut.stop()
      } finally {
        await proxy.close()
      }
    },
  )
})

describe('cancelled import into database-pg', () => {
  test.each(['making', 'loading', 'indexing', 'migrating'] as const)(
    'an import into database-pg that is cancelled while it is %s ends and leaves only objects that drop removes',
    async (phase) => {
      const at = locationOf('unwanted', 'database-pg')
      const controller = new AbortController()
      const reason = new Error('no longer required')
      const onPhase = (started: string) => started === phase && controller.abort(reason)
      const importing = here.fixture.drivers['database-pg'].import(at, replayed(here.copy), {
        signal: controller.signal,
        onPhase,
      })
      await expect(importing).rejects.toBe(reason)
      await eventually(async () => expect(await busy()).toEqual([]))
      await here.fixture.drivers['database-pg'].drop(at)
      const { rows } = await here.client.query(`select from pg_locks
        where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
      expect(rows).toEqual([])
    },
  )
})

test('the server ends the statement of a cancelled import', async () => {
  const { database } = here.fixture.installation
  const name = pg.escapeIdentifier(new URL(here.fixture.installation.url).pathname.slice(1))
  await database.sql(`alter database ${name} set client_connection_check_interval = 0`)
  const slow = {
    name: '0001_slow',
    checksum: '',
    up: `create table few (id int); create materialized view slow as select pg_sleep(300)::text from few`,
  }
  const by = await here.fixture.installation.open(await here.fixture.installation.prepare(), {
    driver: () => schemaPg(),
    migrations: [slow],
  })
  await provisioned(by, 'slow')
  await by.execute(locationOf('slow'), { text: 'insert into few values (1)' })
  const controller = new AbortController()
  const taking = by.import(locationOf('slower'), replayed(await exported(by, locationOf('slow'))), {
    signal: controller.signal,
  })
  await eventually(async () =>
    expect((await busy()).map(({ query }) => query)).toEqual([expect.stringMatching(/^refresh/)]),
  )
  controller.abort()
  await expect(taking).rejects.toMatchObject({ name: 'AbortError' })
  await eventually(async () => expect(await busy()).toEqual([]))
  await database.sql(`alter database ${name} reset client_connection_check_interval`)
})
