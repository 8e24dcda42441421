/**
 * Faults at every await of the way to a tenant's rows: connect, scope, statement, commit, cleaning, eviction; each of them cut off
 * before it arrives, or before its answer does, or hanging. After each, on every driver: the errors are those of an outage, what
 * was written is whole or not there at all, no connection is lost from the budget, and no tenant sees another one's rows.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { CONNECTIONS, KINDS, openSubject } from '../src/drivers/isolation/subject.fixture.ts'
import { isDatabaseUnavailable } from '../src/kernel/database.ts'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { commandOf, stopPostmaster } from '../src/service/postmaster.ts'
import type { IsolationDriver, TenantHandle } from '../src/tenants/isolation.ts'
import { type FaultKind, type FaultProxy, startFaultProxy } from '../src/testing/fault-proxy.ts'
import { placeIn, proofMigrations, provisionedIn, type Subject } from '../src/testing/isolation-subject.ts'
import { raw } from '../src/testing/leak-operations.ts'
import { Outside } from '../src/testing/leak-operations-server.ts'
import { eventually } from '../src/testing/tenancy.ts'

const TENANTS = ['a', 'b', 'c', 'd', 'e']
const WAIT_MS = 1_000
const kinds = Object.keys(KINDS).filter((kind) => KINDS[kind]?.engine === 'postgres' && !kind.includes('qualified'))
const outside = new Outside()
afterAll(() => outside.close())

interface Ground {
  readonly subject: Subject
  readonly driver: IsolationDriver
  readonly proxy: FaultProxy
  readonly handles: readonly TenantHandle[]
}

async function open(serverUrl: string, kind: string): Promise<Ground> {
  const proxy = await startFaultProxy(serverUrl)
  const subject = await openSubject(serverUrl, kind, { way: (url) => proxy.through(url), limits: { waitMs: WAIT_MS } })
  const driver = await subject.open(proofMigrations('postgres'))
  const handles: TenantHandle[] = []
  for (const id of TENANTS) handles.push(await provisionedIn(subject, driver, id))
  for (const { id, db } of handles)
    await db
      .insertInto('items')
      .values({ id: 0, owner: `of ${id}` })
      .execute()
  return { subject, driver, proxy, handles }
}

const rowsOf = (db: Kysely<any>) => db.selectFrom('items').select(['owner', 'id']).orderBy('id').execute()

/** As it has to be again after whatever went wrong: nobody is in use, the budget is whole, and rows are whose they are. */
async function expectRecovered({ driver, handles, proxy }: Ground): Promise<void> {
  await eventually(() => {
    for (const { busy, waiting } of driver.connections()) expect({ busy, waiting }).toEqual({ busy: 0, waiting: 0 })
  })
  await eventually(async () => {
    let arrived = 0
    const { promise: everybody, resolve } = Promise.withResolvers<void>()
    const asked = handles.slice(0, CONNECTIONS).map(({ db }) =>
      db.transaction().execute(async (tx) => {
        await rowsOf(tx)
        if (++arrived === CONNECTIONS) resolve()
        await everybody
      }),
    )
    await Promise.all(asked).catch((error) => {
      resolve()
      throw error
    })
  })
  expect(proxy.open).toBeLessThanOrEqual(CONNECTIONS)
  for (const { id, db } of handles) {
    const rows = await rowsOf(db)
    expect(rows.map(({ owner }) => owner)).toEqual(rows.map(() => `of ${id}`))
    const ids = rows.map(({ id }) => id)
    expect(ids.includes(1)).toBe(ids.includes(2)) // one transaction wrote both
    await db.deleteFrom('items').where('id', '>', 0).execute()
  }
}

const bothRows = (id: string) => `insert into items (id, owner) values (1, 'of ${id}'), (2, 'of ${id}')`
/** Each sends its statement in another way; two rows are written, or none. */
const WAYS: Readonly<Record<string, (handle: TenantHandle) => Promise<unknown>>> = {
  'a statement alone': ({ id, db }) => raw(db, bothRows(id)),
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

/** Where on the way: a text in the message. A way that does not send it is not stopped by it. */
const MESSAGES = {
  startup: 'tenantry tenants',
  scope: 'tenantry_scope',
  statement: 'insert into',
  'statement of the session': 'set app.faulty',
  commit: 'commit',
  cleaning: 'pg_advisory_unlock_all',
}
const FAULTS: readonly FaultKind[] = ['cut the line', 'lose the answer', 'hang']

describe.each(kinds)('faults on the way to %s', (kind) => {
  let ground: Ground
  beforeAll(async () => {
    ground = await open(inject('postgresUrl'), kind)
  })
  afterAll(async () => {
    await ground?.subject.close()
    await ground?.proxy.close()
  })

  describe.each(FAULTS)('%s', (fault) => {
    test.each(Object.entries(MESSAGES))('at the %s', async (_, text) => {
      const { handles, proxy } = ground
      for (const [way, go] of Object.entries(WAYS)) {
        const [victim, other] = handles
        if (!victim || !other) throw new Error('there are tenants')
        if (text === MESSAGES.startup) await endIdle(ground)
        const broken = proxy.at(text, fault)
        const going = go(victim).then(
          () => 'done',
          (error: unknown) => error,
        )
        await Promise.race([going, broken.happened])
        if (fault === 'hang') {
          expect((await rowsOf(other.db)).map(({ owner }) => owner)).toEqual(['of b']) // who hangs keeps nobody else waiting
          broken.end()
        }
        const ended = await going
        broken.end()
        if (ended !== 'done')
          expect(ended, way).toSatisfy((error) => isDatabaseUnavailable(error) || ground.driver.mayBeFence(error))
        await expectRecovered(ground)
      }
    })
  })

  test('the goodbye hangs when a connection is closed to make room', async () => {
    const { handles, proxy } = ground
    const goodbye = proxy.at('X\0\0\0\x04', 'hang')
    const asked = handles.map(({ id, db }) =>
      raw(db, 'create temporary table scratch as select 1 as one')
        .then(() => rowsOf(db))
        .then((rows) => expect(rows).toEqual([{ owner: `of ${id}`, id: 0 }])),
    )
    await goodbye.happened
    goodbye.end()
    await Promise.all(asked)
    await expectRecovered(ground)
  })

  test('all connections hang: who waits is told so in time, and is served when they are back', async () => {
    const { handles, proxy, driver } = ground
    await endIdle(ground)
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
    await expectRecovered(ground)
  })

  test('statements are cancelled: alone, and in a transaction that goes on to its end', async () => {
    const { handles, subject, driver } = ground
    for (const { id, db, transaction } of handles.slice(0, 2)) {
      const view = subject.viewOf?.(placeIn(subject, driver, id))
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
      await expectRecovered(ground)
    }
  })

  test('all backends are terminated: idle, in a statement, and in a transaction', async () => {
    const { handles, driver } = ground
    const [a, b] = handles
    if (!a || !b) throw new Error('there are tenants')
    for (const { db } of handles) await rowsOf(db)
    await endIdle(ground)
    for (const { id, db } of handles) {
      const [row] = await rowsOf(db).catch((error) => {
        expect(error).toSatisfy(isDatabaseUnavailable) // the loss of a connection that was idle may be heard late
        return rowsOf(db)
      })
      expect(row?.owner).toBe(`of ${id}`)
    }
    const busy = raw(a.db, 'select pg_sleep(60)').catch((error: unknown) => error)
    const inside = b.transaction(async (db) => {
      await raw(db, bothRows('b'))
      await eventually(() => expect(driver.connections()[0]?.busy).toBeGreaterThanOrEqual(2))
      await endIdle(ground)
      await raw(db, 'select 1')
    })
    await expect(inside).rejects.toSatisfy((error) => isDatabaseUnavailable(error) || driver.mayBeFence(error))
    await endIdle(ground)
    expect(await busy).toSatisfy((error) => isDatabaseUnavailable(error) || driver.mayBeFence(error))
    await expectRecovered(ground)
  })
})

/** Ends every session of the tenants' login, whatever it does. */
async function endIdle({ subject, driver }: Ground): Promise<void> {
  const view = subject.viewOf?.(placeIn(subject, driver, 'a'))
  if (!view) throw new Error('there is a server')
  const login = decodeURIComponent(new URL(view.tenantUrl).username)
  await outside.all(view, 'select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1', [login])
}

describe('another database than was asked for', () => {
  test('is noticed before a statement is sent to it', async () => {
    let other: string | undefined
    const proxy = await startFaultProxy(inject('postgresUrl'), {
      startup: (message) => (other === undefined ? message : withDatabaseOf(message, other)),
    })
    const subject = await openSubject(inject('postgresUrl'), 'database-pg, batch', { way: (url) => proxy.through(url) })
    try {
      const driver = await subject.open(proofMigrations('postgres'))
      const [a, b] = [await provisionedIn(subject, driver, 'a'), await provisionedIn(subject, driver, 'b')]
      await raw(b.db, `insert into items (id, owner) values (1, 'of b')`)
      other = placeIn(subject, driver, 'b').locator
      await expect(rowsOf(a.db)).rejects.toThrow('the server gave')
      other = undefined
      expect(await rowsOf(a.db)).toEqual([])
    } finally {
      await subject.close()
      await proxy.close()
    }
  })
})

/** The startup message is its length, the version, and names with values, each ended by a zero. */
function withDatabaseOf(message: Buffer, database: string): Buffer {
  const words = message.subarray(8).toString('latin1').split('\0')
  const at = words.indexOf('database')
  if (at < 0) return message
  words[at + 1] = database
  const body = Buffer.from(words.join('\0'), 'latin1')
  const head = Buffer.from(message.subarray(0, 8))
  head.writeInt32BE(body.length + 8)
  return Buffer.concat([head, body])
}

describe('the server is restarted', () => {
  test('under load: statements fail as in an outage, and go on when it is back', async () => {
    const directory = join(await mkdtemp(join(tmpdir(), 'tenantry-faults-')), 'postgres')
    const options = { directory, password: 'p', settings: { fsync: 'off' } }
    const postgres = await startEmbeddedPostgres(options)
    const command = commandOf(postgres.pid).split(' ')
    const grounds: Ground[] = []
    try {
      for (const kind of ['schema-pg, batch', 'rowscope-pg, batch', 'database-pg, batch'])
        grounds.push(await open(postgres.url, kind))
      let isOver = false
      let failures = 0
      const load = grounds.flatMap(({ handles, driver }) =>
        handles.map(async ({ id, db }) => {
          while (!isOver) {
            await rowsOf(db).then(
              (rows) => expect(rows).toEqual([{ owner: `of ${id}`, id: 0 }]),
              (error) => {
                failures++
                expect(error).toSatisfy(
                  (error) =>
                    isDatabaseUnavailable(error) ||
                    driver.mayBeFence(error) ||
                    error.code === 'E_TENANT_CONNECTION_LIMIT',
                )
              },
            )
          }
        }),
      )
      await stopPostmaster(directory, postgres.pid, () => undefined)
      await eventually(() => expect(failures).toBeGreaterThan(10))
      const [program = '', ...args] = command
      const programs = await findPostgresPrograms(directory)
      programs.spawn(program, args, { detached: true, stdio: 'ignore' }).unref()
      for (const { handles } of grounds) for (const { db } of handles) await eventually(() => rowsOf(db))
      isOver = true
      await Promise.all(load)
      for (const ground of grounds) await expectRecovered(ground)
    } finally {
      const last = await startEmbeddedPostgres(options)
      for (const { subject, proxy } of grounds) {
        await subject.close()
        await proxy.close()
      }
      await last.stop()
      await rm(join(directory, '..'), { recursive: true })
    }
  }, 120_000)
})
