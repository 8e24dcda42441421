import fc from 'fast-check'
import { CompiledQuery, type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { createInstallation, type Installation, locationOf, provisioned } from './roles/installation.fixture.ts'
import { schemaPg } from './schema-pg.ts'

/** Fewer than the concurrent callers: connections are reused by different tenants. */
const CONNECTIONS = 2
const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (id int primary key, owner text not null, deferred int unique deferrable initially deferred)`,
}
const ENDED = 'a statement ended the transaction it ran in'
const tenantIds = ['a', 'b', 'c', 'd', 'a-b', 'select', '0', 'z'.repeat(48)]

let installation: Installation
let driver: IsolationDriver
const handles = new Map<string, StorageHandle>()
let a: StorageHandle
let b: StorageHandle

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), {
    connections: { max: CONNECTIONS, perTenant: CONNECTIONS },
    migrations: [NOTES],
    publicRights: ['temporary'],
  })
  driver = await installation.open(await installation.prepare())
  for (const id of tenantIds) handles.set(id, await provisioned(driver, id))
  a = handleOf('a')
  b = handleOf('b')
})
afterAll(() => installation.end())

function handleOf(id: string): StorageHandle {
  const handle = handles.get(id)
  if (!handle) throw new Error(`"${id}" is not provisioned`)
  return handle
}
const raw = async (db: Kysely<any>, text: string) => (await db.executeQuery<any>(CompiledQuery.raw(text))).rows
const owners = async (db: Kysely<any>) =>
  (await db.selectFrom('notes').select('owner').execute()).map(({ owner }) => owner)
/** Role, search path and tenant of a statement: they must be correct on every connection. */
const SCOPE = `select current_user as role, current_setting('search_path') as path,
  current_setting('app.tenant_id') as tenant, pg_my_temp_schema()::int as temporary`
async function expectClean(): Promise<void> {
  const scopes = await Promise.all([b, b, b, b].map(({ db }) => raw(db, SCOPE)))
  for (const [scope] of scopes) {
    expect(scope).toMatchObject({ path: '"t1_b", "pg_temp"', tenant: 'b', temporary: 0 })
    expect(scope.role).toMatch(/^tenantry_tenant.*_scope$/)
  }
}

describe('schema name', () => {
  const id = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,47}$/)
  const epoch = fc.integer({ min: 1, max: 2 ** 31 - 1 })

  test('a schema name has at most 63 bytes and is unique for each id and epoch', () => {
    const { locator } = schemaPg()
    fc.assert(
      fc.property(id, epoch, id, epoch, (id, epoch, otherId, otherEpoch) => {
        const name = locator(id, epoch)
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
        expect(name === locator(otherId, otherEpoch)).toBe(id === otherId && epoch === otherEpoch)
      }),
      { numRuns: 2_000 },
    )
    expect(locator('1_a', 1)).not.toBe(locator('a', 11))
  })
})

describe('rows of a tenant', () => {
  test('concurrent tenants on shared connections see only their own rows, also after failures and rollbacks', async () => {
    const step = fc.record({
      tenant: fc.constantFrom(...tenantIds),
      what: fc.constantFrom('read', 'write', 'fail', 'rolled back', 'aborted', 'savepoint', 'committed'),
    })
    const doing = async ({ tenant, what }: { tenant: string; what: string }): Promise<void> => {
      const { db, transaction } = handleOf(tenant)
      const write = (tx: Kysely<any>) =>
        tx.insertInto('notes').values({ id: sql`(random() * 2e9)::int`, owner: tenant }).returning('owner').execute()
      if (what === 'write') expect(await write(db)).toEqual([{ owner: tenant }])
      if (what === 'fail') await expect(raw(db, 'select 1 / 0')).rejects.toMatchObject({ code: '22012' })
      if (what === 'committed') await transaction(write)
      if (what === 'rolled back') {
        const failing = transaction(async (tx) => {
          await write(tx)
          throw new Error('no')
        })
        await expect(failing).rejects.toThrow('no')
      }
      if (what === 'aborted') {
        await expect(transaction((tx) => raw(tx, 'select * from missing'))).rejects.toMatchObject({ code: '42P01' })
      }
      if (what === 'savepoint') {
        const outer = await db.startTransaction().execute()
        const inner = await outer.savepoint('one').execute()
        await expect(raw(inner, 'select 1 / 0')).rejects.toMatchObject({ code: '22012' })
        await inner.rollbackToSavepoint('one').execute()
        for (const owner of await owners(outer)) expect(owner).toBe(tenant)
        await outer.commit().execute()
      }
      for (const owner of await owners(db)) expect(owner).toBe(tenant)
    }
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 30 }), async (steps) => {
        const worker = async () => {
          for (let next = steps.pop(); next; next = steps.pop()) await doing(next)
        }
        await Promise.all([1, 2, 3, 4, 5, 6].map(worker))
      }),
      { numRuns: 12 },
    )
    await expectClean()
  })

  test('a tenant changes only its own rows by qualified and unqualified names', async () => {
    await a.db.deleteFrom('notes').execute()
    await b.db.deleteFrom('notes').execute()
    await a.db.insertInto('notes').values({ id: 1, owner: 'a' }).execute()
    await b.db.insertInto('notes').values({ id: 1, owner: 'b' }).execute()
    const { numUpdatedRows } = await a.db.updateTable('notes').set({ owner: 'a2' }).executeTakeFirstOrThrow()
    expect(numUpdatedRows).toBe(1n)
    expect([await owners(a.db), await owners(b.db)]).toEqual([['a2'], ['b']])
    expect((await a.db.deleteFrom('notes').executeTakeFirst()).numDeletedRows).toBe(1n)
    expect([await owners(a.db), await owners(b.db)]).toEqual([[], ['b']])
  })
})

describe('released connection', () => {
  test('a released connection is clean after a failed statement, with and without a transaction', async () => {
    await expect(raw(a.db, 'selekt')).rejects.toMatchObject({ code: '42601' })
    await expect(a.transaction((tx) => raw(tx, 'selekt'))).rejects.toMatchObject({ code: '42601' })
    await expectClean()
  })

  test('a released connection is clean after a failed commit', async () => {
    await a.db.deleteFrom('notes').execute()
    const twice = sql`insert into notes values (1, 'a', 7), (2, 'a', 7)`
    await expect(twice.execute(a.db)).rejects.toMatchObject({ code: '23505' })
    await expect(a.transaction((tx) => twice.execute(tx))).rejects.toMatchObject({ code: '23505' })
    expect(await owners(a.db)).toEqual([])
    await expectClean()
  })

  test.each(['commit', 'rollback'])(
    'a released connection is clean after a %s by the host, and no statement runs without the scope',
    async (word) => {
      await a.db.deleteFrom('notes').execute()
      const careless = a.transaction(async (tx) => {
        await tx.insertInto('notes').values({ id: 1, owner: 'a' }).execute()
        await raw(tx, word)
        await tx.selectFrom('notes').selectAll().execute()
      })
      await expect(careless).rejects.toThrow(ENDED)
      await expect(raw(a.db, word)).rejects.toThrow(ENDED)
      await expect(a.transaction((tx) => raw(tx, word))).rejects.toThrow(ENDED)
      expect(await owners(a.db)).toEqual(word === 'commit' ? ['a'] : [])
      await expectClean()
    },
  )

  test('rejects several statements in one text, because one could end the transaction and the next one run without a scope', async () => {
    for (const text of [
      'commit; select * from notes',
      'select 1; select 2',
      `commit; insert into notes values (7); begin`,
    ]) {
      await expect(raw(a.db, text)).rejects.toMatchObject({ code: '42601' })
      await expect(a.transaction((db) => raw(db, text))).rejects.toMatchObject({ code: '42601' })
    }
    await expectClean()
  })

  test('a released connection has no settings, locks, cursors or prepared statements of the last tenant', async () => {
    await raw(a.db, `select set_config('app.left', 'by a', false), pg_advisory_lock(42)`)
    await raw(a.db, `prepare left_by_a as select owner from notes`)
    await a.transaction((db) => raw(db, 'declare left_by_a cursor with hold for select owner from notes'))
    const left = `select current_setting('app.left', true) as setting,
      (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,
      (select count(*)::int from pg_cursors where name = 'left_by_a') as cursors,
      (select count(*)::int from pg_prepared_statements where name = 'left_by_a') as statements`
    const found = (await Promise.all([b, b, b, b].map(({ db }) => raw(db, left)))).flat()
    expect(found.map(({ setting }) => setting || null)).toEqual([null, null, null, null])
    expect(found).toMatchObject(Array(4).fill({ locks: 0, cursors: 0, statements: 0 }))
  })

  test('a released connection has no temporary tables of the last tenant', async () => {
    await a.transaction(async (tx) => {
      await raw(tx, 'create temporary table scratch as select 1 as secret')
      expect(await raw(tx, 'select * from scratch')).toEqual([{ secret: 1 }])
    })
    for (let n = 0; n < 2 * CONNECTIONS; n++) {
      await expect(raw(b.db, 'select * from scratch')).rejects.toMatchObject({ code: '42P01' })
    }
    await expectClean()
  })

  test('no statement is sent and the connection is destroyed if the scope cannot be set', async () => {
    const { tenantUrl, scopeRole } = await installation.prepare()
    const login = new URL(tenantUrl).username
    await installation.database.sql(`revoke ${scopeRole} from ${login}`)
    for (let n = 0; n < 2 * CONNECTIONS; n++) {
      await expect(raw(a.db, 'select 1 / 0')).rejects.toMatchObject({ code: '42501' })
      await expect(a.transaction((tx) => raw(tx, 'select 1 / 0'))).rejects.toMatchObject({ code: '42501' })
    }
    await installation.database.sql(`grant ${scopeRole} to ${login}`)
    await expectClean()
  })

  test('a connection that the server ends during a transaction is destroyed', async () => {
    const lost = a.transaction(async (tx) => {
      const [{ pid }] = await raw(tx, 'select pg_backend_pid() as pid')
      await installation.database.sql('select pg_terminate_backend($1)', [pid])
      await eventually(() => expect(raw(tx, 'select 1')).rejects.toSatisfy(isDatabaseUnavailable))
      await raw(tx, 'select 1')
    })
    await expect(lost).rejects.toSatisfy(isDatabaseUnavailable)
    const alone = expect(raw(a.db, 'select pg_sleep(60)')).rejects.toSatisfy(isDatabaseUnavailable)
    await eventually(async () => {
      const { rows } = await installation.database.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event = 'PgSleep'`,
      )
      expect(rows).toHaveLength(1)
    })
    await alone
    await expectClean()
  })
})

describe('a transaction', () => {
  test('the commit of a transaction with a failed statement is rejected', async () => {
    await a.db.deleteFrom('notes').execute()
    const careless = a.transaction(async (tx) => {
      await tx.insertInto('notes').values({ id: 1, owner: 'a' }).execute()
      await raw(tx, 'select 1 / 0').catch(() => undefined)
    })
    await expect(careless).rejects.toThrow('The transaction was rolled back')
    expect(await owners(a.db)).toEqual([])
  })

  test('a transaction has the requested isolation level and access mode, and the next one on its connection the defaults', async () => {
    const modes = `select current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as readonly`
    const strict = a.db.transaction().setIsolationLevel('serializable').setAccessMode('read only')
    expect(await strict.execute((tx) => raw(tx, modes))).toEqual([{ isolation: 'serializable', readonly: 'on' }])
    expect(await raw(a.db, modes)).toEqual([{ isolation: 'read committed', readonly: 'off' }])
  })

  test('rejects streaming of rows and names the alternative', async () => {
    const stream = async () => {
      for await (const _ of a.db.selectFrom('notes').selectAll().stream()) break
    }
    await expect(stream()).rejects.toThrow('page through the rows by key')
  })
})

describe('a drop', () => {
  test('a drop waits for running work in the storage, removes all of it and is idempotent', async () => {
    const leaving = await provisioned(driver, 'leaving')
    await leaving.db.insertInto('notes').values({ id: 1, owner: 'leaving' }).execute()
    const working = await leaving.db.startTransaction().execute()
    expect(await owners(working)).toEqual(['leaving'])
    const dropped = driver.drop(locationOf(driver, 'leaving'))
    await eventually(async () => {
      const { rows } = await installation.database.sql(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      expect(rows).toHaveLength(1)
    })
    expect(await owners(working)).toEqual(['leaving'])
    await working.commit().execute()
    await dropped
    await driver.drop(locationOf(driver, 'leaving'))
    await expect(owners(leaving.db)).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
    const { rows } = await installation.database.sql(`select from tenantry.migrations where locator = 't1_leaving'`)
    expect(rows).toEqual([])
    expect(await owners((await provisioned(driver, 'leaving')).db)).toEqual([])
  })
})

describe('a migration', () => {
  test('a migration of missing storage runs nothing, also not in the next schema of the search path', async () => {
    await driver.drop(locationOf(driver, 'gone'))
    await expect(driver.migrate(locationOf(driver, 'gone'))).rejects.toMatchObject({ code: 'E_MIGRATION_FAILED' })
  })

  test('rejects a migration that changed after it was run', async () => {
    const edited = await installation.open(await installation.prepare(), {
      migrations: [{ ...NOTES, checksum: 'edited' }],
    })
    await expect(edited.migrate(locationOf(edited, 'a'))).rejects.toThrow('0001_notes was changed after it was run')
  })

  test('a column can default to the current tenant, and this default is rejected without a tenant', async () => {
    expect(await raw(a.db, 'select tenantry.current_tenant() as tenant')).toEqual([{ tenant: 'a' }])
  })
})

test('types of extensions are found in the configured schema', async () => {
  await installation.database.sql(`create schema ext; grant usage on schema ext to public;
    create domain ext.email as text check (value like '%@%')`)
  const extended = await installation.open(await installation.prepare(), {
    extensionsSchema: 'ext',
    migrations: [{ name: '0001_people', checksum: '', up: 'create table people (address email)' }],
  })
  const { db } = await provisioned(extended, 'extended')
  await db.insertInto('people').values({ address: 'a@b' }).execute()
  await expect(db.insertInto('people').values({ address: 'ab' }).execute()).rejects.toMatchObject({ code: '23514' })
})

test('a connection whose commit failed keeps no lock of its tenant', async () => {
  await a.db.deleteFrom('notes').execute()
  const connection = await driver.connect(locationOf(driver, 'a'))
  await connection.begin()
  await connection.query({ text: 'select pg_advisory_lock(42)' })
  await connection.query({ text: `insert into notes values (1, 'a', 7), (2, 'a', 7)` })
  await expect(connection.end('commit')).rejects.toMatchObject({ code: '23505' })
  await eventually(() => expect(connection.inTransaction).toBe(false)) // An unprepared connection is always destroyed.
  connection.release()
  const look = `select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`
  const all = await Promise.all(Array.from({ length: CONNECTIONS }, () => driver.connect(locationOf(driver, 'b'))))
  const found = await Promise.all(all.map((client) => client.query({ text: look })))
  for (const client of all) client.release()
  expect(found.map(({ rowCount }) => rowCount)).toEqual(Array(CONNECTIONS).fill(0))
  await expectClean()
})

test('a connection released during its replacement by a clean one occupies no capacity', async () => {
  for (let turns = 0; turns < 30; turns++) {
    const connection = await driver.connect(locationOf(driver, 'a'))
    await connection.query({ text: 'create temporary table leftover (id int)' })
    const asked = connection.query({ text: 'select 1' }).catch((error: Error) => error.message)
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    connection.release()
    expect([expect.objectContaining({ rowCount: 1 }), expect.any(String)]).toContainEqual(await asked)
  }
  await eventually(() => expect(driver.connections()).toMatchObject([{ busy: 0, waiting: 0 }]))
  await expectClean()
})

test('rejects a nested BEGIN, because it would commit the earlier statements', async () => {
  const client = await a.pool.connect()
  await client.query('begin')
  await expect(client.query('begin')).rejects.toMatchObject({ code: '25001' })
  await expect(client.query('select 1 / 0')).rejects.toMatchObject({ code: '22012' })
  await expect(client.query('begin')).rejects.toMatchObject({ code: '25001' })
  client.release()
})

test.each([`select setseed(0.5)`, `set seed = 0.5`, `select set_config('seed', '0.5', false)`])(
  'a tenant cannot determine the results of random() for other tenants: %s',
  async (text) => {
    const random = async ({ db }: StorageHandle) => (await raw(db, 'select random() as value'))[0].value
    const results = []
    for (let turn = 0; turn < 2; turn++) {
      await Promise.all(Array.from({ length: 2 * CONNECTIONS }, () => raw(a.db, text)))
      results.push(await random(b))
    }
    expect(results[0]).not.toBe(results[1])
  },
)

test('a fence fails with the remedy if another grant leaves the schema open', async () => {
  await installation.database.sql('grant usage on schema t1_b to public')
  try {
    await expect(driver.fence(locationOf(driver, 'b'))).rejects.toThrow('Revoke USAGE from PUBLIC')
  } finally {
    await installation.database.sql('revoke usage on schema t1_b from public')
    await driver.unfence(locationOf(driver, 'b'))
  }
  expect(await driver.isFenced(locationOf(driver, 'b'))).toBe(false)
})

test('values that cannot be sent fail only their own statement', async () => {
  const circular: Record<string, unknown> = {}
  circular.self = circular
  for (let turn = 0; turn < 3; turn++) {
    await expect(a.pool.query('select $1::jsonb as value', [circular])).rejects.toThrow('circular')
    expect((await a.pool.query('select $1::jsonb as value', [{ turn }])).rows).toEqual([{ value: { turn } }])
  }
})
