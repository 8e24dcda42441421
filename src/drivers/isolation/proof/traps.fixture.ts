/** Tests known ways of losing isolation without an error, on every driver that they concern. */
import type { Kysely } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { isDatabaseUnavailable } from '../../../kernel/database/database.ts'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import {
  locationIn,
  proofMigrations,
  provisionedIn,
  type StorageView,
  type Subject,
} from '../../../testing/base/subject.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { itemsOf, Outside } from '../../../testing/leak/operations-server.ts'
import { MARKS } from '../scope/scoped-query.ts'
import { CONNECTIONS, openSubject } from './subject.fixture.ts'

/** Bodies whose names PostgreSQL resolves at their creation. */
const BOUND: TenantMigration = {
  name: '0003_bound',
  checksum: '3',
  up: `create function owners_of_all() returns setof text language sql begin atomic select owner from items; end;
    create view bound with (security_invoker = true) as select owner from items`,
  down: 'drop view bound; drop function owners_of_all()',
}

/** @param kinds of drivers on PostgreSQL */
export function traps(kinds: readonly string[]): void {
  describe.each(kinds)('traps of isolation, %s', (kind) => {
    const outside = new Outside()
    let subject: Subject
    let driver: IsolationDriver
    let a: StorageHandle
    let b: StorageHandle

    beforeAll(async () => {
      subject = await openSubject(inject('postgresUrl'), kind)
      driver = await subject.open([...proofMigrations('postgres'), BOUND])
      a = await withRow('a')
      b = await withRow('b')
    })
    afterAll(async () => {
      await outside.close()
      await subject?.close()
    })

    async function withRow(id: string): Promise<StorageHandle> {
      const handle = await provisionedIn(subject, driver, id)
      await handle.db
        .insertInto('items')
        .values({ id: 1, owner: `of ${id}` })
        .execute()
      return handle
    }
    const locationOf = (id: string): StorageLocation => locationIn(subject, driver, id)
    const viewOf = (id: string): StorageView => {
      const view = subject.viewOf?.(locationOf(id))
      if (!view) throw new Error(`${kind} has no server`)
      return view
    }
    const owners = async (db: Kysely<any>) => (await raw(db, 'select owner from items')).map(({ owner }) => owner)
    /** Runs work concurrently on all connections. */
    const everywhere = (work: (db: Kysely<any>) => Promise<void>, handle = b): Promise<unknown> => {
      let arrived = 0
      const { promise: everybody, resolve } = Promise.withResolvers<void>()
      const one = () =>
        handle.transaction(async (db) => {
          if (++arrived === CONNECTIONS) resolve()
          await everybody
          await work(db)
        })
      return Promise.all(Array.from({ length: CONNECTIONS }, one))
    }

    const expectNoScope = async (connections: readonly pg.Client[]) => {
      const text = `select current_user = session_user as "isLogin", current_setting('search_path') as path,
        coalesce(current_setting('app.tenant_id', true), '') as tenant`
      const found = await Promise.all(connections.map(async (one) => (await one.query(text)).rows))
      expect(found).toEqual(Array(CONNECTIONS).fill([{ isLogin: true, path: 'pg_catalog', tenant: '' }]))
    }

    test('SET LOCAL outside of a transaction only warns: it neither sets nor leaves anything', async () => {
      await raw(a.db, `set local search_path = 'pg_catalog'`)
      await raw(a.db, `set local app.tenant_id = 'b'`)
      expect(await owners(a.db)).toEqual(['of a'])
      await everywhere(async (db) => expect(await owners(db)).toEqual(['of b']))
    })

    test('session settings that survive a rollback or an error do not reach the next tenant', async () => {
      const view = viewOf('a')
      for (const text of [
        `set search_path = "${view.schema}"`,
        `set app.tenant_id = '${locationOf('a').locator}'`,
        `set role none`,
        `set statement_timeout = 1`,
      ]) {
        await raw(a.db, text).catch(() => undefined)
        await a.transaction((db) => raw(db, text)).catch(() => undefined)
        const client = await a.pool.connect()
        await client.query('begin')
        await client.query(text)
        await expect(client.query('select * from missing')).rejects.toThrow()
        await client.query('rollback')
        client.release()
      }
      await everywhere(async (db) => {
        expect(await owners(db)).toEqual(['of b'])
        expect(await raw(db, `select current_setting('statement_timeout') as t`)).toEqual([{ t: '0' }])
      })
    })

    test('the scope, and settings that a tenant has changed, end with the transaction', async () => {
      const all = () => Promise.all(Array.from({ length: CONNECTIONS }, () => driver.connect(locationOf('a'))))
      for (const client of await all()) client.release(true)
      const connect = vi.spyOn(pg.Client.prototype, 'connect')
      const clients = await all()
      const opened = connect.mock.contexts as pg.Client[]
      const own = (name: string) => `set_config('${name}', current_setting('${name}'), false)`
      for (const set of ['owner', own('role'), own('app.tenant_id'), own('search_path')]) {
        for (const client of clients) await client.query({ text: `select ${set} from items` })
        await expectNoScope(opened) // before the end of a transaction cleans the session
      }
      for (const client of clients) {
        await client.begin()
        await client.query({ text: 'select owner from items' })
        await client.end('commit')
        client.release()
      }
      await expectNoScope(opened)
    })

    test.each(['commit and chain', '/* to */ end work and chain', 'rollback and chain', 'abort transaction and chain'])(
      '%s is rejected, so that no later statement runs without a scope',
      async (ending) => {
        const isDone = /commit|end/.test(ending)
        const careless = a.transaction(async (db) => {
          await raw(db, 'update items set value = value + 1')
          await raw(db, ending)
          await raw(db, 'create temporary table left_by_a as select 1 as one')
        })
        await expect(careless).rejects.toThrow('ended the transaction')
        await expect(raw(a.db, ending)).rejects.toThrow('ended the transaction')
        const client = await a.pool.connect()
        await client.query('begin')
        await client.query('savepoint one')
        await client.query('rollback to one')
        const refusal = await client.query(ending).catch(({ message }) => message)
        const { rows } = await client.query('select owner from items')
        client.release() // before anything can fail: other tests wait for the connection
        expect([refusal, rows]).toEqual([expect.stringContaining('AND CHAIN is not available'), [{ owner: 'of a' }]])
        expect(await raw(a.db, 'select value from items')).toEqual([{ value: isDone ? 1 : 0 }])
        await raw(a.db, 'update items set value = 0')
        await everywhere(async (db) => {
          expect(await raw(db, `select to_regclass('pg_temp.left_by_a') as left`)).toEqual([{ left: null }])
        })
      },
    )

    test('a table that a tenant does not have is not found in the schema public', async () => {
      const { url, tenantUrl } = viewOf('a')
      const environment = { url, tenantUrl, schema: 'public' }
      await outside.all(environment, `create table public.strays as select 'of unknown' as owner`)
      await outside.all(environment, 'grant all on public.strays to public; grant usage on schema public to public')
      await expect(raw(a.db, 'select * from strays')).rejects.toMatchObject({ code: '42P01' })
      await expect(a.transaction((db) => raw(db, 'select * from strays'))).rejects.toMatchObject({ code: '42P01' })
      await outside.all(environment, 'drop table public.strays')
    })

    test('bodies and views whose names are resolved at their creation refer to the tables of their tenant', async () => {
      for (const { id, db } of [a, b, a]) {
        expect(await raw(db, 'select * from owners_of_all() as owner')).toEqual([{ owner: `of ${id}` }])
        expect(await raw(db, 'select * from bound')).toEqual([{ owner: `of ${id}` }])
      }
    })

    test('a prepared statement uses the tables of its tenant, even if their columns differ', async () => {
      const changing = await withRow('changing')
      const all = async ({ db }: StorageHandle) =>
        (await db.selectFrom('items').selectAll().execute()).map(({ owner }) => owner)
      for (let n = 0; n < 3 * CONNECTIONS; n++)
        for (const one of [a, b, changing]) expect(await all(one)).toEqual([`of ${one.id}`])
      await driver.rollback(locationOf('changing'), 2)
      for (let n = 0; n < 3 * CONNECTIONS; n++)
        for (const one of [a, b, changing]) expect(await all(one)).toEqual([`of ${one.id}`])
      expect(Object.keys((await changing.db.selectFrom('items').selectAll().execute())[0] ?? {})).not.toContain('note')
      await driver.migrate(locationOf('changing'))
      for (let n = 0; n < 3 * CONNECTIONS; n++)
        for (const one of [a, b, changing]) expect(await all(one)).toEqual([`of ${one.id}`])
      await driver.drop(locationOf('changing'))
    })

    test('an INSERT without a tenant is rejected, even on a connection that has served a tenant', async () => {
      const view = viewOf('a')
      const items = itemsOf(view)
      for (let n = 0; n < 3; n++) {
        await expect(
          outside.unscoped(view, `insert into ${items} (id, owner) values (99, 'unknown')`),
        ).rejects.toMatchObject({
          code: '42501',
        })
        await expect(outside.unscoped(view, `select owner from ${items}`)).rejects.toMatchObject({ code: '42501' })
      }
      await expect(outside.all(view, `insert into ${items} (id, owner) values (99, 'unknown')`)).rejects.toMatchObject({
        code: '42501',
        message: expect.stringContaining('no tenant is set'),
      })
    })

    test('dropped storage is rejected, and its tables are not found in the next schema of the search path', async () => {
      const { url, tenantUrl } = viewOf('a')
      const environment = { url, tenantUrl, schema: 'public' }
      await outside.all(environment, `create table public.items (owner text, id int, value int)`)
      await outside.all(environment, `insert into public.items values ('of unknown', 1, 1)`)
      await outside.all(environment, 'grant all on public.items to public; grant usage on schema public to public')
      const gone = await withRow('gone')
      expect(await owners(gone.db)).toEqual(['of gone'])
      await driver.drop(locationOf('gone'))
      await expect(owners(gone.db)).rejects.toSatisfy(driver.mayBeFence)
      await expect(gone.transaction(owners)).rejects.toSatisfy(driver.mayBeFence)
      if (driver.capabilities.separateStorage) {
        await expect(owners(directHandle(driver, locationOf('never')).db)).rejects.toSatisfy(driver.mayBeFence)
      }
      for (const { id, db } of [a, b]) expect(await owners(db)).toEqual([`of ${id}`])
      await outside.all(environment, 'drop table public.items')
    })

    test('a connection that is lost in a transaction rolls it back, and the next connection is clean', async () => {
      const view = viewOf('a')
      const lost = a.transaction(async (db) => {
        const [{ pid }] = await raw(db, 'select pg_backend_pid() as pid')
        await raw(db, 'update items set value = 9')
        await outside.all(view, 'select pg_terminate_backend($1, 5000)', [pid])
        await raw(db, 'select 1')
      })
      await expect(lost).rejects.toSatisfy(isDatabaseUnavailable)
      expect(await raw(a.db, 'select owner, value from items')).toEqual([{ owner: 'of a', value: 0 }])
      await everywhere(async (db) => expect(await owners(db)).toEqual(['of b']))
    })

    test('a drop neither waits forever for open connections nor fails their reads', async () => {
      const leaving = await withRow('leaving')
      const reading = leaving.transaction(async (db) => {
        await owners(db)
        const dropped = driver.drop(locationOf('leaving'))
        await raw(db, 'select pg_sleep(0.05)').catch(() => undefined) // some drivers wait for it, some end it
        return { dropped }
      })
      const { dropped } = await reading.catch(() => ({ dropped: driver.drop(locationOf('leaving')) }))
      await dropped
      await eventually(() => expect(owners(leaving.db)).rejects.toSatisfy(driver.mayBeFence))
    })

    test.each([
      ['lock', 'select pg_advisory_lock(7)'],
      ['cursor', 'declare left_by_a cursor with hold for select owner from items'],
      ['prepared statement', 'prepare left_by_a as select owner from items'],
      ['channel', 'listen left_by_a'],
    ])('a session has no %s of an earlier transaction of any tenant', async (_, text) => {
      for (const handle of [a, b]) {
        await raw(a.db, text)
        await everywhere(async (db) => {
          expect(
            await raw(
              db,
              `select (select count(*)::int from pg_cursors where name = 'left_by_a') as cursors,
               (select count(*)::int from pg_prepared_statements where name = 'left_by_a') as statements,
               (select count(*)::int from pg_listening_channels()) as channels,
               (select count(*)::int from pg_locks where locktype = 'advisory' and classid <> ${MARKS}
                  and pid = pg_backend_pid()) as locks`,
            ),
          ).toEqual([{ cursors: 0, statements: 0, channels: 0, locks: 0 }])
        }, handle)
      }
    })

    test('an empty result of one tenant is not replaced by a cached result of another tenant', async () => {
      const ask = (handle: StorageHandle) =>
        handle.db.selectFrom('items').select('owner').where('id', '=', 77).execute()
      await b.db.insertInto('items').values({ id: 77, owner: 'of b' }).execute()
      for (let n = 0; n < 12; n++) expect([await ask(a), await ask(b)]).toEqual([[], [{ owner: 'of b' }]])
      await b.db.deleteFrom('items').where('id', '=', 77).execute()
    })

    test('a noisy tenant leaves connections for other tenants', async () => {
      const noisy = Array.from({ length: 40 }, () => raw(a.db, 'select pg_sleep(0.01)'))
      let isFinished = false
      const over = Promise.all(noisy).finally(() => {
        isFinished = true
      })
      expect(await owners(b.db)).toEqual(['of b'])
      expect(isFinished).toBe(false)
      await over
    })
  })
}
