/** Group of `isolationSuite`: single statements, transactions, Kysely and the pool interface. */

import type { Kysely } from 'kysely'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { inTransaction } from '../base/in-transaction.ts'
import { locationIn } from '../base/subject.ts'
import type { Vitest } from '../base/vitest.ts'
import { raw } from '../leak/operations.ts'
import type { Proof } from './proof.ts'

const ITEMS = 'select owner, id, value from items order by id'
const ENDED = /ended the transaction|rolled back|was released/

const items = (db: Kysely<any>) => db.selectFrom('items').select(['owner', 'id', 'value']).orderBy('id').execute()
/** Rows of a tenant before each test. */
const untouched = ({ id }: StorageHandle) => [1, 2].map((key) => ({ owner: `of ${id}`, id: key, value: key }))
const add = (db: Kysely<any>, { id: tenantId }: StorageHandle, id: number, more: object = {}) =>
  db.insertInto('items').values({ id, owner: `of ${tenantId}`, ...more })

export function statementsOfTenants(
  { describe, expect, test }: Vitest,
  proof: () => Proof,
  engine: IsolationDriver['capabilities']['engine'],
): void {
  const isPostgres = engine === 'postgres'
  const expectOthersUntouched = async () => expect(await items(proof().b.db)).toEqual(untouched(proof().b))

  describe('a statement', () => {
    test('a statement reads the rows of its tenant through every interface', async () => {
      for (const handle of [proof().a, proof().b, proof().a]) {
        expect(await items(handle.db)).toEqual(untouched(handle))
        expect((await handle.pool.query(ITEMS)).rows).toEqual(untouched(handle))
        expect(await handle.transaction(items)).toEqual(untouched(handle))
        expect(await raw(handle.db, 'select owner from owners')).toEqual(
          untouched(handle).map(({ owner }) => ({ owner })),
        )
      }
    })

    test('a statement without a condition changes only the rows of its tenant', async () => {
      const { a } = proof()
      expect(await a.db.updateTable('items').set({ value: 9 }).returning('owner').execute()).toEqual([
        { owner: 'of a' },
        { owner: 'of a' },
      ])
      await expectOthersUntouched()
      expect((await a.db.deleteFrom('items').executeTakeFirst()).numDeletedRows).toBe(2n)
      await expectOthersUntouched()
      expect(await items(a.db)).toEqual([])
    })

    test('a key of another tenant causes no conflict, and ON CONFLICT updates only own rows', async () => {
      const { a, b } = proof()
      await expect(add(a.db, a, 1).execute()).rejects.toThrow()
      await add(b.db, b, 3, { slot: 5 }).execute()
      expect(await add(a.db, a, 3, { slot: 5 }).returning(['owner', 'id']).execute()).toEqual([
        { owner: 'of a', id: 3 },
      ])
      const upserted = await add(a.db, a, 3, { value: 7 })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'id']).doUpdateSet({ value: 7 }))
        .returning(['owner', 'value'])
        .execute()
      expect(upserted).toEqual([{ owner: 'of a', value: 7 }])
      expect(await b.db.selectFrom('items').select('value').where('id', '=', 3).execute()).toEqual([{ value: 0 }])
    })

    test('a failed statement changes nothing, and later statements succeed', async () => {
      const { a } = proof()
      for (const text of [
        'selekt',
        'select * from missing',
        `insert into items (id, owner, value) values (9, 'of a', -1)`,
      ]) {
        for (let n = 0; n < 2 * proof().subject.maxConnections; n++) await expect(raw(a.db, text)).rejects.toThrow()
      }
      expect(await items(a.db)).toEqual(untouched(a))
      await expectOthersUntouched()
    })

    test('a text with several statements is rejected, and none of them runs', async () => {
      const { a } = proof()
      for (const text of [
        `update items set value = 9; ${ITEMS}`,
        `commit; update items set value = 9`,
        `select 1; commit; update items set value = 9; begin`,
      ]) {
        await expect(raw(a.db, text)).rejects.toThrow()
        await expect(a.transaction((db) => raw(db, text))).rejects.toThrow()
        await expect(a.pool.query(text)).rejects.toThrow()
      }
      expect(await items(a.db)).toEqual(untouched(a))
    })

    test('concurrent statements over fewer connections run in their own tenant', async () => {
      const { a, b } = proof()
      const queries = Array.from({ length: 60 }, (_, n) => {
        const handle = n % 2 === 0 ? a : b
        const result = n % 3 === 0 ? handle.transaction(items) : items(handle.db)
        return result.then((rows) => expect(rows).toEqual(untouched(handle)))
      })
      await Promise.all(queries)
    })
  })

  describe('a transaction', () => {
    test('a transaction is kept completely on commit, and not at all if its work throws', async () => {
      const { a } = proof()
      await a.transaction(async (db) => {
        await add(db, a, 3).execute()
        await db.deleteFrom('items').where('id', '=', 1).execute()
      })
      expect((await items(a.db)).map(({ id }) => id)).toEqual([2, 3])
      const failing = a.transaction(async (db) => {
        await db.deleteFrom('items').execute()
        expect(await items(db)).toEqual([])
        throw new Error('no')
      })
      await expect(failing).rejects.toThrow('no')
      expect((await items(a.db)).map(({ id }) => id)).toEqual([2, 3])
      await expectOthersUntouched()
    })

    test('a transaction rolls back to a savepoint and continues', async () => {
      const { a } = proof()
      const outer = await a.db.startTransaction().execute()
      await add(outer, a, 3).execute()
      const inner = await outer.savepoint('one').execute()
      await add(inner, a, 4).execute()
      await expect(raw(inner, 'select * from missing')).rejects.toThrow()
      await inner.rollbackToSavepoint('one').execute()
      await add(outer, a, 5).execute()
      await inner.releaseSavepoint('one').execute()
      await outer.commit().execute()
      expect((await items(a.db)).map(({ id }) => id)).toEqual([1, 2, 3, 5])
    })

    test('a retained handle of an ended transaction reads nothing from its former connection', async () => {
      const { a, b } = proof()
      let kept: Kysely<any> | undefined
      await a.transaction(async (db) => {
        kept = db
        await items(db)
      })
      await b.transaction(async (db) => {
        expect(await items(db)).toEqual(untouched(b))
        if (kept) await expect(items(kept)).rejects.toThrow()
      })
    })

    if (isPostgres) {
      test('a transaction with a failed statement does not report a commit', async () => {
        const { a } = proof()
        const careless = a.transaction(async (db) => {
          await add(db, a, 3).execute()
          await raw(db, 'select 1 / 0').catch(() => undefined)
        })
        await expect(careless).rejects.toThrow(ENDED)
        expect(await items(a.db)).toEqual(untouched(a))
      })

      test('a transaction that fails on commit is not reported as committed', async () => {
        const { a } = proof()
        const twice = `insert into items (id, owner, slot) values (8, 'of a', 1), (9, 'of a', 1)`
        await expect(raw(a.db, twice)).rejects.toMatchObject({ code: '23505' })
        await expect(a.transaction((db) => raw(db, twice))).rejects.toMatchObject({ code: '23505' })
        expect(await items(a.db)).toEqual(untouched(a))
      })

      test.each(['commit', 'rollback'])('no statement runs after the host ends a transaction with %s', async (word) => {
        const { a } = proof()
        const careless = a.transaction(async (db) => {
          await add(db, a, 3).execute()
          await raw(db, word)
          await add(db, a, 4).execute()
        })
        await expect(careless).rejects.toThrow(ENDED)
        expect((await items(a.db)).map(({ id }) => id)).toEqual(word === 'commit' ? [1, 2, 3] : [1, 2])
        await expectOthersUntouched()
      })
    }
  })

  describe('a connection', () => {
    const connect = ({ id }: StorageHandle) => {
      const { subject, driver } = proof()
      return driver.connect(locationIn(subject, driver, id))
    }

    test('concurrent calls on one connection run in order', async () => {
      const { a } = proof()
      const connection = await connect(a)
      const insert = (id: number) => connection.query({ text: `insert into items (id, owner) values (${id}, 'of a')` })
      const sent = [connection.begin(), insert(3), connection.end('commit'), insert(4)]
      sent.push(connection.begin(), insert(5), connection.end('rollback'))
      await Promise.all(sent)
      connection.release()
      expect((await items(a.db)).map(({ id }) => id)).toEqual([1, 2, 3, 4])
    })

    test.each(['another tenant', 'another call of its tenant'])(
      'a released connection in use by %s runs nothing, and is released once',
      async (who) => {
        const { a, b, subject } = proof()
        const next = who === 'another tenant' ? b : a
        const former = await connect(a)
        await former.query({ text: ITEMS })
        former.release()
        const others = await Promise.all(Array.from({ length: subject.maxConnections }, () => connect(next)))
        for (const other of others) await other.begin()
        await expect(former.query({ text: ITEMS })).rejects.toThrow(ENDED)
        await expect(former.begin()).rejects.toThrow(ENDED)
        await expect(former.end('rollback')).rejects.toThrow(ENDED)
        former.release()
        for (const other of others) {
          expect((await other.query({ text: ITEMS })).rows).toEqual(untouched(next))
          await other.end('commit')
          other.release()
        }
      },
    )
  })

  describe('pool interface', () => {
    test('the pool accepts texts, objects and callbacks, and returns objects or arrays', async () => {
      const { pool } = proof().a
      const text = 'select owner, id from items order by id'
      expect((await pool.query({ text, rowMode: 'array' })).rows).toEqual([
        ['of a', 1],
        ['of a', 2],
      ])
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      pool.query(text, (error, result) => (error ? reject(error) : resolve(result?.rows)))
      expect(await promise).toEqual([
        { owner: 'of a', id: 1 },
        { owner: 'of a', id: 2 },
      ])
      expect((await pool.query(`update items set value = 5 where id = 1`)).rowCount).toBe(1)
    })

    test('the pool provides clients with separate transactions', async () => {
      const { a } = proof()
      const client = await a.pool.connect()
      await client.query('begin')
      await client.query(`insert into items (id, owner) values (3, 'of a')`)
      await client.query('rollback')
      await client.query('begin')
      await client.query(`insert into items (id, owner) values (4, 'of a')`)
      await client.query('commit')
      client.release()
      expect((await items(a.db)).map(({ id }) => id)).toEqual([1, 2, 4])
    })

    test('the release of a client rolls back its open transaction', async () => {
      const { a, b } = proof()
      for (let n = 0; n < 2 * proof().subject.maxConnections; n++) {
        const client = await a.pool.connect()
        await client.query('begin')
        await client.query(`update items set value = 9`)
        client.release()
        expect(await items(b.db)).toEqual(untouched(b))
      }
      expect(await items(a.db)).toEqual(untouched(a))
    })

    test('a released client is rejected, even if another tenant has its connection', async () => {
      const { a, b } = proof()
      const client = await a.pool.connect()
      await client.query(ITEMS)
      client.release()
      const others = await Promise.all(Array.from({ length: proof().subject.maxConnections }, () => b.pool.connect()))
      for (const other of others) await inTransaction(other)
      await expect(client.query(ITEMS)).rejects.toThrow(ENDED)
      await expect(client.query('rollback')).rejects.toThrow(ENDED)
      await expect(client.query('begin')).rejects.toThrow(ENDED)
      for (const other of others) {
        expect((await other.query(ITEMS)).rows).toEqual(untouched(b))
        await other.query('commit')
        other.release()
        other.release()
      }
      expect(await items(b.db)).toEqual(untouched(b))
    })

    test('concurrent statements on one client run in order', async () => {
      const { a } = proof()
      const client = await a.pool.connect()
      await Promise.all([
        client.query('begin'),
        client.query(`insert into items (id, owner) values (3, 'of a')`),
        client.query('commit'),
        client.query('begin'),
        client.query(`insert into items (id, owner) values (4, 'of a')`),
        client.query('rollback'),
      ])
      expect((await client.query('select id from items order by id')).rows).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }])
      client.release()
    })
  })
}
