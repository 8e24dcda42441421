/** Tests drains of drivers whose tenants share a database. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../../../testing/base/subject.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { itemsOf, Outside } from '../../../testing/leak/operations-server.ts'
import { openSubject } from '../proof/subject.fixture.ts'
import { behindTheFence, insert } from './drain.fenced.fixture.ts'

/** Its plan is cached in the session that has called it. */
const PUT: TenantMigration = {
  name: '0003_put',
  checksum: '3',
  up: `create function put(n int, mark text) returns void language plpgsql as $$
    begin insert into items (id, owner) values (n, mark); end $$`,
  down: 'drop function put(int, text)',
}
const ROUNDS = 10
export const LONG = { graceMs: 60_000, maxMs: 60_000 }
const BLOCKER = 77_001

export function watched<T>(promise: Promise<T>): { readonly promise: Promise<T>; isFinished: boolean } {
  const watching = { promise, isFinished: false }
  const over = () => {
    watching.isFinished = true
  }
  promise.then(over, over)
  return watching
}

/** @param kinds of drivers whose tenants share a database */
export function drains(kinds: readonly string[]): void {
  describe.each(kinds)('a drain of %s', (kind) => {
    const outside = new Outside()
    let subject: Subject
    let driver: IsolationDriver
    let numbered = 0

    beforeAll(async () => {
      subject = await openSubject(inject('postgresUrl'), kind, { limits: { max: 12, perTenant: 10 } })
      driver = await subject.open([...proofMigrations('postgres'), PUT])
    })
    afterAll(async () => {
      await outside.close()
      await subject.close()
    })

    interface Environment {
      readonly id: string
      readonly location: StorageLocation
      readonly handle: StorageHandle
      /** Ids of the stored rows, also those of fenced storage. */
      readonly rows: () => Promise<number[]>
    }
    const fresh = async (): Promise<Environment> => {
      const id = `t${++numbered}`
      const location = locationIn(subject, driver, id)
      const view = subject.viewOf?.(location)
      if (!view) throw new Error('no server')
      const [where, values] = view.tenantColumn === undefined ? ['', []] : ['where tenant_id = $1', [view.tenantColumn]]
      const text = `select id from ${itemsOf(view)} ${where} order by id`
      return {
        id,
        location,
        handle: await provisionedIn(subject, driver, id),
        rows: async () => (await outside.all(view, text, values)).map((row) => row.id),
      }
    }
    const viewOf = ({ location }: Environment) => subject.viewOf?.(location) ?? expect.fail('no server')
    const atServer = (environment: Environment, text: string, values: unknown[] = []) =>
      outside.all(viewOf(environment), text, values)

    /** Runs a statement that ends after the blocker. */
    const blocked = ({ id, handle }: Environment) =>
      watched(
        handle.pool.query(
          `insert into items (id, owner) select 5, 'of ${id}' from (select pg_advisory_xact_lock(${BLOCKER})) s`,
        ),
      )
    const blocker = async (environment: Environment): Promise<pg.Client> => {
      const client = new pg.Client({ connectionString: viewOf(environment).url })
      await client.connect()
      await client.query('select pg_advisory_lock($1)', [BLOCKER])
      return client
    }
    const areBlocked = (environment: Environment, count: number) =>
      eventually(async () => {
        const text = `select from ${WAITING_LOCKS} where locktype = 'advisory' and objid = ${BLOCKER}`
        expect(await atServer(environment, text)).toHaveLength(count)
      })

    describe.each(['read committed', 'repeatable read', 'serializable'])(
      'waits for a transaction, %s,',
      (isolationLevel) => {
        test.each([
          ['that has written', 'writes', ['write']],
          ['that has not touched a table', 'writes', []],
          ['that has only read', 'writes', ['read']],
          ['by a function with its plan', 'calls', []],
        ])('%s and continues', async (_, how, first) => {
          const environment = await fresh()
          const { id, location } = environment
          const connection = await driver.connect(location)
          const call = (n: number) => ({ text: 'select put($1, $2)', values: [n, `of ${id}`] })
          await connection.begin()
          await connection.query(call(1_000))
          await connection.end('commit')

          await connection.begin({ isolationLevel })
          for (const what of first) {
            await connection.query(what === 'write' ? insert(1, id) : { text: 'select count(*) from items' })
          }
          await driver.fence(location)
          const draining = watched(driver.drain(location, LONG))
          const written = first.includes('write') ? [1, 1_000] : [1_000]
          for (let n = 2; n < ROUNDS; n++) {
            await connection.query({ text: 'savepoint before' })
            await connection.query(how === 'calls' ? call(n) : insert(n, id)).then(
              () => written.push(n),
              () => connection.query({ text: 'rollback to before' }),
            )
            await environment.rows()
            expect(draining.isFinished).toBe(false)
          }
          const seesNoFence = kind.startsWith('rowscope') && isolationLevel !== 'read committed'
          if (seesNoFence) expect(written).toContain(ROUNDS - 1)
          await connection.end('commit')
          await draining.promise
          const there = await environment.rows()
          connection.release()
          expect(there).toEqual(written.sort((one, other) => one - other))
          await expect(environment.handle.pool.query(insert(99, id))).rejects.toSatisfy(driver.mayBeFence)
          expect(await environment.rows()).toEqual(there)
        })
      },
    )

    test('waits for single statements of all tenants, because their tenant is unknown', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      const block = await blocker(environment)
      const [own, others] = [blocked(environment), blocked(other)]
      await areBlocked(environment, 2)
      await driver.fence(environment.location)
      const draining = watched(driver.drain(environment.location, LONG))
      for (let round = 0; round < ROUNDS; round++) await environment.rows()
      expect([draining.isFinished, own.isFinished, others.isFinished]).toEqual([false, false, false])
      await block.end()
      await draining.promise
      const there = await environment.rows()
      await Promise.allSettled([own.promise, others.promise])
      expect(await environment.rows()).toEqual(there)
      expect(await other.rows()).toEqual([5])
      expect(there).toEqual(
        await own.promise.then(
          () => [5],
          () => [],
        ),
      )
    })

    test('neither waits for transactions of other tenants nor affects them', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      const busy = await driver.connect(other.location)
      await busy.begin()
      await busy.query(insert(1, other.id))
      await driver.fence(environment.location)
      await driver.drain(environment.location, { graceMs: 0, maxMs: 0 })
      await busy.query(insert(2, other.id))
      await busy.end('commit')
      busy.release()
      expect(await other.rows()).toEqual([1, 2])
    })

    test('does not wait for parallel workers of other tenants', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      await other.handle.pool.query(insert(1, other.id))
      const busy = await other.handle.pool.connect()
      await busy.query('begin')
      await busy.query(
        `select set_config(name, 'on', true) from pg_settings where name in ('debug_parallel_query', 'force_parallel_mode')`,
      )
      const working = watched(busy.query('select pg_sleep(60) from items'))
      const [worker] = await eventually(async () => {
        const text = `select leader_pid as pid from pg_stat_activity where leader_pid <> pid and wait_event = 'PgSleep' and datname = current_database()`
        const found = await atServer(environment, text)
        expect(found).toHaveLength(1)
        return found
      })
      await driver.fence(environment.location)
      await driver.drain(environment.location, { graceMs: 0, maxMs: 0 })
      expect(working.isFinished).toBe(false)
      await atServer(environment, 'select pg_cancel_backend($1)', [worker.pid])
      await expect(working.promise).rejects.toMatchObject({ code: '57014' })
      await busy.query('rollback')
      busy.release()
    })

    test('does not wait for statements that started after the fence', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      const connection = await driver.connect(environment.location)
      await connection.begin()
      await driver.fence(environment.location)
      const [{ at }] = await atServer(environment, 'select clock_timestamp()::text as at')
      const draining = driver.drain(environment.location, LONG)
      await eventually(async () => {
        const looked = `select from pg_stat_activity where query like '%with locks as%' and query_start > $1::timestamptz
        and pid <> pg_backend_pid() and datname = current_database()`
        expect(await atServer(environment, looked, [at])).not.toEqual([])
      })
      const block = await blocker(environment)
      const late = blocked(other)
      await areBlocked(environment, 1)
      await connection.end('commit')
      connection.release()
      await draining
      expect(late.isFinished).toBe(false)
      await block.end()
      await late.promise
    })

    test('does not wait for a failed transaction, which cannot commit', async () => {
      const environment = await fresh()
      const connection = await driver.connect(environment.location)
      await connection.begin()
      await connection.query(insert(1, environment.id))
      await driver.fence(environment.location)
      await expect(connection.query({ text: 'select 1 / 0' })).rejects.toThrow()
      await driver.drain(environment.location, { graceMs: 0, maxMs: 0 })
      await expect(connection.end('commit')).rejects.toThrow('was rolled back')
      connection.release()
      expect(await environment.rows()).toEqual([])
    })

    test('ends open transactions of its tenant, whose writes are rolled back', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      const [idle, busy] = [await driver.connect(environment.location), await driver.connect(other.location)]
      for (const [connection, { id }] of [
        [idle, environment],
        [busy, other],
      ] as const) {
        await connection.begin()
        await connection.query(insert(1, id))
      }
      await driver.fence(environment.location)
      await driver.drain(environment.location, { graceMs: 0 })
      expect(await environment.rows()).toEqual([])
      await expect(idle.end('commit')).rejects.toThrow()
      idle.release(true)
      await busy.end('commit')
      busy.release()
      expect([await environment.rows(), await other.rows()]).toEqual([[], [1]])
      await driver.unfence(environment.location)
      await environment.handle.pool.query(insert(2, environment.id))
      expect(await environment.rows()).toEqual([2])
    })

    test('fails for a transaction of an unknown tenant, with its process id and without its statement', async () => {
      const [environment, other] = [await fresh(), await fresh()]
      const held = new pg.Client({ connectionString: viewOf(other).tenantUrl })
      await held.connect() // another program with the tenants' login: it has no mark
      await held.query('begin')
      const [{ pid }] = (await held.query('select pg_backend_pid() as pid')).rows
      await driver.fence(environment.location)
      const failure = await driver.drain(environment.location, { graceMs: 0, maxMs: 20 }).catch((error) => error)
      expect(failure).toMatchObject({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        message: expect.stringMatching(
          /^A statement or transaction of the tenants' login, .* has been open since \d{4}-/,
        ),
        cause: { message: `still open: in process ${pid}` },
      })
      await held.query('commit')
      await driver.drain(environment.location, { maxMs: 0 })
      await held.end()
    })

    test('can be aborted and repeated', async () => {
      const environment = await fresh()
      const connection = await driver.connect(environment.location)
      await connection.begin()
      await driver.fence(environment.location)
      const abort = new AbortController()
      const draining = driver.drain(environment.location, { ...LONG, signal: abort.signal })
      abort.abort()
      await expect(draining).rejects.toThrow('aborted')
      await expect(driver.drain(environment.location, { graceMs: 0, signal: abort.signal })).rejects.toThrow('aborted')
      await connection.end('rollback')
      connection.release()
      await driver.drain(environment.location)
    })

    behindTheFence(() => ({ subject, driver, outside }))
  })
}
