/**
 * Virtual clients of handles: lazy transactions, context of each statement, settings without a server, stack traces.
 */
import { Kysely, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { inTransaction } from '../../testing/base/in-transaction.ts'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenant } from './handle.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, body text,
    primary key (tenant_id, id))`,
}
const MISMATCH = { code: 'E_TENANT_MISMATCH' }
const BODIES = 'select body from notes order by id'

describe.each([
  ['schema-pg', schemaPg],
  ['rowscope-pg', rowscopePg],
  ['database-pg', databasePg],
])('%s', (_, driver) => {
  let environment: TestTenancy<[]>
  let acme: Tenant
  let globex: Tenant

  beforeAll(async () => {
    environment = await testTenancy(inject('postgresUrl'), { migrations: [NOTES], isolation: [driver()] })
    for (const id of ['acme', 'globex']) await installed(environment.tenancy, { id, name: id })
    acme = await environment.tenancy.tenant('acme')
    globex = await environment.tenancy.tenant('globex')
    // The owner's database, which a library that ignores the handle would connect to.
    const { hostname, port, username, password, pathname } = new URL(environment.url)
    const owner = {
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: username,
      PGPASSWORD: password,
      PGDATABASE: pathname.slice(1),
    }
    Object.assign(process.env, owner)
  })
  afterAll(async () => {
    for (const name of ['PGHOST', 'PGPORT', 'PGUSER', 'PGPASSWORD', 'PGDATABASE']) delete process.env[name]
    await environment.end()
  })
  beforeEach(async () => {
    for (const { id, pool } of [acme, globex]) {
      await pool.query('delete from notes')
      await pool.query('insert into notes (id, body) values (1, $1)', [`of ${id}`])
    }
  })

  const busy = () => environment.tenancy.tenants.storage.connections().reduce((sum, one) => sum + one.busy, 0)
  const bodies = async ({ pool }: Tenant) => (await pool.query(BODIES)).rows.map(({ body }) => body)

  describe('a client', () => {
    test('takes a connection for the first statement of a transaction, and returns it at the end', async () => {
      const client = await acme.pool.connect()
      await client.query('begin')
      expect(busy()).toBe(0)
      expect((await client.query(BODIES)).rows).toEqual([{ body: 'of acme' }])
      expect(busy()).toBe(1)
      await client.query('commit')
      expect(busy()).toBe(0)
      client.release()
    })

    test('adds SET TRANSACTION to BEGIN; after a statement the server rejects it', async () => {
      const client = await acme.pool.connect()
      await client.query('START TRANSACTION')
      await client.query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE')
      await client.query('set transaction read only;')
      const modes = `select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as read_only`
      expect((await client.query(modes)).rows).toEqual([{ level: 'serializable', read_only: 'on' }])
      await expect(client.query('set transaction isolation level repeatable read')).rejects.toMatchObject({
        code: '25001',
      })
      await client.query('rollback')
      client.release()
    })

    test('whose transaction could not start is aborted until the end of the transaction', async () => {
      const client = await acme.pool.connect()
      await client.query('begin')
      await environment.tenancy.tenants.suspend('acme')
      const insert = `insert into notes (id, body) values (2, 'late')`
      await expect(client.query(insert)).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
      await environment.tenancy.tenants.activate('acme')
      await expect(client.query(insert)).rejects.toMatchObject({ code: '25P02' })
      await expect(client.query('commit')).rejects.toThrow('rolled back')
      await expect(client.query('commit')).rejects.toMatchObject({ code: '25P01' })
      expect(await bodies(acme)).toEqual(['of acme'])
      client.release()
    })

    test('compares each statement with the context, inside and outside of a transaction', async () => {
      const { run } = environment.tenancy
      const client = await acme.pool.connect()
      await run('globex', () => expect(client.query(BODIES)).rejects.toMatchObject(MISMATCH))
      await client.query('begin')
      await client.query(`insert into notes (id, body) values (2, 'lost')`)
      await run('globex', () => expect(client.query(BODIES)).rejects.toMatchObject(MISMATCH))
      await expect(client.query('commit')).rejects.toThrow('rolled back')
      await inTransaction(client)
      await run('globex', () => expect(client.query('commit')).rejects.toMatchObject(MISMATCH))
      await inTransaction(client)
      await run('globex', () => client.query('rollback'))
      client.release()
      expect(await bodies(acme)).toEqual(['of acme'])
      expect(busy()).toBe(0)
    })

    test('of Kysely compares each statement of a transaction with the context', async () => {
      const tx = await acme.db.startTransaction().execute()
      const read = () => sql`select body from notes`.execute(tx)
      expect((await read()).rows).toEqual([{ body: 'of acme' }])
      await environment.tenancy.run('globex', () => expect(read()).rejects.toMatchObject(MISMATCH))
      await tx.rollback().execute()
    })

    test('that is ended or released inside a transaction rolls it back', async () => {
      const { Client } = acme.pg
      const client = new Client()
      await client.connect()
      await client.query('begin')
      await client.query(`insert into notes (id, body) values (2, 'lost')`)
      await client.end()
      await expect(client.query(BODIES)).rejects.toThrow('released')
      expect(await bodies(acme)).toEqual(['of acme'])
    })

    test('carries out every form of COMMIT itself, and rejects AND CHAIN', async () => {
      for (const [n, end] of [';commit', '/* /* x */ */ commit', 'commit and/**/no chain;;'].entries()) {
        const client = await acme.pool.connect()
        await inTransaction(client)
        await client.query(`insert into notes (id, body) values ($1, 'kept')`, [10 + n])
        expect(await client.query(end), end).toMatchObject({ command: 'COMMIT' })
        await expect(client.query(end), end).rejects.toMatchObject({ code: '25P01' })
        client.release()
      }
      const client = await acme.pool.connect()
      await inTransaction(client)
      await client.query(`insert into notes (id, body) values (2, 'lost')`)
      await expect(client.query('commit and chain')).rejects.toThrow('AND CHAIN')
      client.release()
      expect(await bodies(acme)).toEqual(['of acme', 'kept', 'kept', 'kept'])
    })

    test('rejects cursors, streams, COPY and LISTEN with the reason', async () => {
      const client = (await acme.pool.connect()) as any
      expect(() => client.setTypeParser(20, Number)).toThrow('types')
      expect(() => client.copyFrom('copy notes from stdin')).toThrow('COPY')
      expect(() => client.query({ submit: () => undefined, text: 'select 1' })).toThrow('cursors')
      await expect(client.query('copy notes from stdin')).rejects.toThrow('COPY')
      for (const listen of ['listen everything', 'listen"x"', 'LISTEN/**/x'])
        await expect(client.query(listen)).rejects.toThrow('LISTEN is not available')
      await expect(client.query('select 1; select 2')).rejects.toMatchObject({ code: '42601' })
      expect(() => acme.pg.types.setTypeParser(20, Number)).toThrow('types')
      client.release()
    })
  })

  describe('tenancy.pg', () => {
    test('sends each statement to the tenant of the context, with any number of concurrent statements', async () => {
      const { run, pg, dialect } = environment.tenancy
      const [pool, db] = [new pg.Pool(), new Kysely<any>({ dialect })]
      const useTenant = (id: string, n: number) =>
        run(id, async () => {
          const rows = n % 2 ? (await pool.query(BODIES)).rows : await db.selectFrom('notes').select('body').execute()
          const client = await pool.connect()
          await client.query('begin')
          const { rows: inside } = await client.query(BODIES)
          await client.query('commit')
          client.release()
          return [...rows, ...inside].map(({ body }) => body)
        })
      const ids = Array.from({ length: 80 }, (_, n) => (n % 3 ? 'acme' : 'globex'))
      const found = await Promise.all(ids.map(useTenant))
      expect(found).toEqual(ids.map((id) => [`of ${id}`, `of ${id}`]))
    })

    test('rejects work without a tenant, and a transaction of another tenant', async () => {
      const { run, pg, dialect } = environment.tenancy
      const [pool, client] = [new pg.Pool(), new pg.Client()]
      await client.connect()
      await expect(pool.query(BODIES)).rejects.toMatchObject(MISMATCH)
      await expect(client.query('begin')).rejects.toMatchObject(MISMATCH)
      await expect(sql`select 1`.execute(new Kysely<any>({ dialect }))).rejects.toMatchObject(MISMATCH)
      await run('acme', () => client.query('begin'))
      await run('globex', () => expect(client.query(BODIES)).rejects.toMatchObject(MISMATCH))
      await run('acme', () => client.query('rollback'))
      expect((await run('globex', () => client.query(BODIES))).rows).toEqual([{ body: 'of globex' }])
    })
  })

  describe('settings', () => {
    const user = (pool: pg.Pool) => pool.query(`select body, current_user = session_user as "isLogin" from notes`)

    test('of a handle create a pool inside the scope, or reach no server', async () => {
      expect(acme.pool).toBeInstanceOf(pg.Pool)
      for (const options of [acme.pool, { ...acme.pool }, acme.pool.options]) {
        const pool = new pg.Pool(options as pg.PoolConfig)
        expect((await user(pool)).rows).toEqual([{ body: 'of acme', isLogin: false }])
        await pool.end()
      }
      const { host, port, user: name, database } = acme.pool.options
      for (const settings of [
        { host, port, user: name, database },
        acme.db,
        new acme.pg.Pool(),
        new environment.tenancy.pg.Pool(),
      ]) {
        const { host, port, user: name, database } = settings as pg.PoolConfig
        const pool = new pg.Pool({ host, port, user: name, database })
        await expect(user(pool)).rejects.toMatchObject({ code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) })
        await pool.end()
      }
      for (const settings of [new acme.pg.Pool(), new environment.tenancy.pg.Pool(), acme.db]) {
        const pool = new pg.Pool(settings as pg.PoolConfig)
        await expect(user(pool)).rejects.toMatchObject({ code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) })
        await pool.end()
      }
    })
  })

  describe('the stack of a failed statement', () => {
    const FAILING = 'select * from missing'
    const handles: Record<string, () => Promise<unknown>> = {
      pool: async () => await acme.pool.query(FAILING),
      client: async () => {
        const client = await acme.pool.connect()
        return await client.query(FAILING).finally(() => client.release())
      },
      db: async () => await acme.db.selectFrom('missing').selectAll().execute(),
      transaction: async () => await acme.transaction((tx) => tx.selectFrom('missing').selectAll().execute()),
      'tenancy.pg': async () =>
        await environment.tenancy.run('acme', () => new environment.tenancy.pg.Pool().query(FAILING)),
      'tenancy.dialect': async () =>
        await environment.tenancy.run('acme', () =>
          new Kysely<any>({ dialect: environment.tenancy.dialect }).selectFrom('missing').selectAll().execute(),
        ),
    }

    test.each(Object.keys(handles))(
      'of %s has the line of the host, and that of the database as its cause',
      async (name) => {
        async function hostLine(): Promise<void> {
          await handles[name]?.()
        }
        const error = await hostLine().catch((failure) => failure)
        expect(error).toMatchObject({ code: '42P01', message: expect.stringContaining('missing') })
        expect(error.stack).toMatch(/at (async )?hostLine \(.*pg-client\.test\.ts/)
        expect(error.cause.stack).toContain('pg-protocol')
      },
    )

    test('is created only for a failed statement', async () => {
      const capture = vi.spyOn(Error, 'captureStackTrace')
      await acme.pool.query(BODIES)
      await acme.db.selectFrom('notes').selectAll().execute()
      expect(capture).not.toHaveBeenCalled()
      await acme.pool.query(FAILING).catch(() => undefined)
      expect(capture).toHaveBeenCalledOnce()
    })
  })
})
