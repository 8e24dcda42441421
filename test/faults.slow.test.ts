/**
 * Injects faults at every await on the path to a tenant's rows: connect, scope, statement, commit, reset, eviction.
 *
 * At each message the connection is cut before it arrives, the response is lost, or the server hangs. Afterwards, on
 * every driver:
 * - errors are outage errors, and writes are complete or absent
 * - no connection is lost from the budget, and no tenant sees rows of another tenant
 */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { CONNECTIONS, KINDS } from '../src/drivers/isolation/proof/subject.fixture.ts'
import { isDatabaseUnavailable } from '../src/kernel/database/database.ts'
import type { StorageHandle } from '../src/tenants/handles/handle.ts'
import { locationIn } from '../src/testing/base/subject.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { raw } from '../src/testing/leak/operations.ts'
import { Outside } from '../src/testing/leak/operations-server.ts'
import { type Environment, endSessions, expectRecovered, openEnvironment, rowsOf } from './faults/environment.ts'
import { MESSAGES } from './faults/messages.ts'
import type { FaultKind } from './support/fault-proxy.ts'

const kinds = Object.keys(KINDS).filter((kind) => KINDS[kind]?.engine === 'postgres' && !kind.includes('qualified'))
/**
 * Kinds that meet each fault in each way: one with a shared database, one with separate databases, each with another
 * scope mode. The other kinds differ only in the statements, and meet each fault in one way, by turns.
 */
const COMPLETE = ['schema-pg, batch', 'database-pg, transaction']
const outside = new Outside()
afterAll(() => outside.close())

const bothRows = (id: string) => `insert into items (id, owner) values (1, 'of ${id}'), (2, 'of ${id}')`
/** Ways to send a statement; each writes two rows or none. */
const WAYS: Readonly<Record<string, (handle: StorageHandle) => Promise<unknown>>> = {
  'a single statement': ({ id, db }) => raw(db, bothRows(id)),
  'a statement of the session': ({ db }) => raw(db, `set app.faulty = 'by whom'`),
  'a transaction': ({ id, transaction }) =>
    transaction(async (db) => {
      await raw(db, `insert into items (id, owner) values (1, 'of ${id}')`)
      await raw(db, `insert into items (id, owner) values (2, 'of ${id}')`)
    }),
  'a client': async ({ id, pool }) => {
    const client = await pool.connect()
    try {
      await client.query('begin')
      await client.query(`insert into items (id, owner) values (1, 'of ${id}')`)
      await client.query(`insert into items (id, owner) values (2, 'of ${id}')`)
      await client.query('commit')
    } finally {
      client.release()
    }
  },
}

const ALL_MESSAGES = { ...MESSAGES, 'statement of the session': 'set app.faulty' }
const FAULTS: readonly FaultKind[] = ['cut the line', 'lose the answer', 'hang']

/** Rotates the items. */
const startingAt = <Item>(first: number, items: readonly Item[]): Item[] => {
  const at = first % items.length
  return [...items.slice(at), ...items.slice(0, at)]
}

describe.each(kinds)('faults on the path to %s', (kind) => {
  let environment: Environment
  beforeAll(async () => {
    environment = await openEnvironment(inject('postgresUrl'), kind)
  })
  afterAll(async () => {
    await environment?.subject.close()
    await environment?.proxy.close()
  })

  describe.each(FAULTS)('%s', (fault) => {
    test.each(Object.entries(ALL_MESSAGES))('at the %s', async (message, text) => {
      const { handles, proxy } = environment
      let met = 0
      const first = kinds.indexOf(kind) + FAULTS.indexOf(fault) + Object.keys(ALL_MESSAGES).indexOf(message)
      for (const [way, go] of startingAt(first, Object.entries(WAYS))) {
        if (met > 0 && !COMPLETE.includes(kind)) break
        const [victim, other] = handles
        if (!victim || !other) throw new Error('there are tenants')
        if (text === ALL_MESSAGES.startup) await endSessions(environment, outside)
        const broken = proxy.at(text, fault)
        const going = go(victim).then(
          () => 'done',
          (error: unknown) => error,
        )
        await Promise.race([going, broken.happened])
        if (fault === 'hang') {
          expect((await rowsOf(other.db)).map(({ owner }) => owner)).toEqual(['of b']) // a hanging call must not block others
          broken.end()
        }
        const ended = await going
        if (broken.hasHappened) met++
        broken.end()
        if (ended !== 'done')
          expect(ended, way).toSatisfy((error) => isDatabaseUnavailable(error) || environment.driver.mayBeFence(error))
        await expectRecovered(environment)
      }
      expect(met).toBeGreaterThan(0)
    })
  })

  test('a Terminate message that hangs does not block the closing of a connection for another tenant', async () => {
    const { handles, proxy } = environment
    const terminate = proxy.at('X\0\0\0\x04', 'hang')
    const queries = handles.map(({ id, db }) =>
      raw(db, 'create temporary table scratch as select 1 as one')
        .then(() => rowsOf(db))
        .then((rows) => expect(rows).toEqual([{ owner: `of ${id}`, id: 0 }])),
    )
    await terminate.happened
    terminate.end()
    await Promise.all(queries)
    await expectRecovered(environment)
  })

  test('waiting callers time out while all connections hang, and later calls succeed', async () => {
    const { handles, proxy, driver } = environment
    await endSessions(environment, outside)
    const hanging = handles.slice(0, CONNECTIONS)
    const faults = hanging.map(({ id }) => proxy.at(`/* ${id} hangs */`, 'hang'))
    const stuck = hanging.map(({ id, db }) =>
      raw(db, `select owner /* ${id} hangs */ from items`).catch((error: unknown) => error),
    )
    await Promise.all(faults.map(({ happened }) => happened))
    const refused = handles.map(({ db }) => rowsOf(db).catch((error: unknown) => error))
    for (const error of await Promise.all(refused))
      expect(error).toMatchObject({ code: 'E_TENANT_CONNECTION_LIMIT', status: 503 })
    expect(driver.connections()[0]).toMatchObject({ busy: CONNECTIONS, waiting: 0 })
    for (const fault of faults) fault.end()
    for (const error of await Promise.all(stuck)) expect(error).toSatisfy(isDatabaseUnavailable)
    await expectRecovered(environment)
  })

  test('cancelled statements fail; a transaction with a cancelled statement ends', async () => {
    const { handles, subject, driver } = environment
    for (const { id, db, transaction } of handles.slice(0, 2)) {
      const view = subject.viewOf?.(locationIn(subject, driver, id))
      if (!view) throw new Error('there is a server')
      const sleeping = [
        raw(db, `select pg_sleep(60) /* cancel ${id} */`),
        transaction((tx) => raw(tx, `select pg_sleep(60) /* cancel ${id} */`)),
      ].map((asked) => asked.catch((error: unknown) => error))
      let cancelled = 0
      await eventually(async () => {
        const rows = await outside.all(
          view,
          `select pg_cancel_backend(pid) from pg_stat_activity where query like '%/* cancel ${id} */' and pid <> pg_backend_pid() and state = 'active'`,
        )
        cancelled += rows.length
        expect(cancelled).toBeGreaterThanOrEqual(2)
      })
      for (const error of await Promise.all(sleeping)) expect(error).toMatchObject({ code: '57014' })
      await expectRecovered(environment)
    }
  })

  test('terminated backends, idle, in a statement and in a transaction, fail only their own calls', async () => {
    const { handles, driver } = environment
    const [a, b] = handles
    if (!a || !b) throw new Error('there are tenants')
    for (const { db } of handles) await rowsOf(db)
    await endSessions(environment, outside)
    for (const { id, db } of handles) {
      const [row] = await rowsOf(db).catch((error) => {
        expect(error).toSatisfy(isDatabaseUnavailable) // the loss of an idle connection may be detected late
        return rowsOf(db)
      })
      expect(row?.owner).toBe(`of ${id}`)
    }
    const busy = raw(a.db, 'select pg_sleep(60)').catch((error: unknown) => error)
    let areEnded = false
    const inside = b.transaction(async (db) => {
      await raw(db, bothRows('b'))
      await eventually(() => expect(driver.connections()[0]?.busy).toBeGreaterThanOrEqual(2))
      await endSessions(environment, outside)
      areEnded = true
      await raw(db, 'select 1')
    })
    await expect(inside).rejects.toSatisfy((error) => isDatabaseUnavailable(error) || driver.mayBeFence(error))
    expect(areEnded).toBe(true)
    await endSessions(environment, outside)
    expect(await busy).toSatisfy((error) => isDatabaseUnavailable(error) || driver.mayBeFence(error))
    await expectRecovered(environment)
  })
})
