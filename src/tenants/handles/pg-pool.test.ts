import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import type { Pool } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenant } from './handle.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key, body text)' }

let environment: TestTenancy<[]>
let acme: Tenant
let pool: Pool

beforeAll(async () => {
  environment = await testTenancy(inject('postgresUrl'), {
    migrations: [NOTES],
    placements: { main: { connections: { max: 2, perTenant: 2 } } },
  })
  for (const id of ['acme', 'globex']) await installed(environment.tenancy, { id, name: id })
  acme = await environment.tenancy.tenant('acme')
  pool = acme.pool
})
afterAll(() => environment.end())
beforeEach(() => pool.query('delete from notes'))

const bodies = async () => (await pool.query('select body from notes order by id')).rows.map(({ body }) => body)

describe('a statement', () => {
  test('accepts a text or an object, with a promise or a callback', async () => {
    await pool.query('insert into notes values ($1, $2)', [1, 'text'])
    await pool.query({ text: 'insert into notes values ($1, $2)', values: [2, 'object'] })
    const called = await new Promise<any>((resolve, reject) => {
      pool.query('select body from notes where id = $1', [2], (error, result) =>
        error ? reject(error) : resolve(result),
      )
    })
    expect(called.rows).toEqual([{ body: 'object' }])
    const failed = await new Promise<any>((resolve) => pool.query('selekt', (error: any) => resolve(error)))
    expect(failed).toMatchObject({ code: '42601' })
    expect(await pool.query({ text: 'select id, body from notes', rowMode: 'array' })).toMatchObject({
      rows: [
        [1, 'text'],
        [2, 'object'],
      ],
      rowCount: 2,
      command: 'SELECT',
      fields: [{ name: 'id' }, { name: 'body' }],
    })
  })

  test('rejects a cursor, a stream and a COPY with the reason', async () => {
    const submittable = { submit: () => undefined, text: 'select 1' }
    expect(() => pool.query(submittable as any)).toThrow('not available')
    await expect(pool.query('copy notes from stdin')).rejects.toThrow()
    expect(await bodies()).toEqual([])
  })
})

describe('a client', () => {
  test('has a transaction that others do not see', async () => {
    const client = await pool.connect()
    await client.query('BEGIN')
    await client.query('insert into notes values (1, $1)', ['kept'])
    expect(await bodies()).toEqual([])
    await client.query('savepoint one')
    await expect(client.query('insert into notes values (1)')).rejects.toMatchObject({ code: '23505' })
    await client.query('rollback to savepoint one')
    await client.query('COMMIT')
    expect((await client.query('select body from notes')).rows).toEqual([{ body: 'kept' }])
    client.release()
    expect(await bodies()).toEqual(['kept'])
  })

  test('accepts the modes of a transaction', async () => {
    const client = await pool.connect()
    const modes = `select current_setting('transaction_isolation') as level, current_setting('transaction_read_only') as read_only,
      current_setting('transaction_deferrable') as deferrable`
    await client.query('start transaction isolation level repeatable read, read only')
    expect((await client.query(modes)).rows).toEqual([{ level: 'repeatable read', read_only: 'on', deferrable: 'off' }])
    await client.query('rollback')
    await client.query('begin isolation level serializable read write;')
    expect((await client.query(modes)).rows).toEqual([{ level: 'serializable', read_only: 'off', deferrable: 'off' }])
    await client.query('end')
    await client.query('begin isolation level serializable read only')
    await client.query('set transaction deferrable')
    expect((await client.query(modes)).rows).toEqual([{ level: 'serializable', read_only: 'on', deferrable: 'on' }])
    await client.query('end')
    await expect(client.query(`set transaction snapshot '1-1'`)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    client.release()
  })

  test('released inside a transaction rolls it back', async () => {
    const globex = await environment.tenancy.tenant('globex')
    for (let round = 0; round < 4; round++) {
      const client = await pool.connect()
      await client.query('begin')
      await client.query('insert into notes values (1)')
      client.release()
      client.release()
      expect((await globex.pool.query('select * from notes')).rows).toEqual([])
    }
    expect(await bodies()).toEqual([])
  })

  test('runs each statement after the end of a transaction in a separate scope', async () => {
    const client = await pool.connect()
    await client.query('begin')
    await client.query('insert into notes values (1, $1)', ['kept'])
    await client.query('/* trace 7 */ -- the end\n commit')
    expect((await client.query('select body, current_schema() as schema from notes')).rows).toEqual([
      { body: 'kept', schema: 't1_acme' },
    ])
    await client.query('/* trace 8 */ begin')
    await client.query('delete from notes')
    await client.query('rollback')
    client.release()
    expect(await bodies()).toEqual(['kept'])
  })
})

test('Drizzle reads, writes and runs transactions on the pool', async () => {
  const notes = pgTable('notes', { id: integer().primaryKey(), body: text() })
  const db = drizzle({ client: pool })
  await db.insert(notes).values({ id: 1, body: 'one' })
  const failing = db.transaction(async (tx) => {
    await tx.insert(notes).values({ id: 2, body: 'two' })
    tx.rollback()
  })
  await expect(failing).rejects.toThrow('Rollback')
  await db.transaction((tx) => tx.insert(notes).values({ id: 3, body: 'three' }), { isolationLevel: 'serializable' })
  expect(await db.select().from(notes).orderBy(notes.id)).toEqual([
    { id: 1, body: 'one' },
    { id: 3, body: 'three' },
  ])
})
