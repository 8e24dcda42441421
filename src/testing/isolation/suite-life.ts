/** The part of the isolation suite about storage itself: made, migrated, closed, opened, and dropped, any of it more than once. */
import type { IsolationDriver, Place } from '../../tenants/isolation/driver.ts'
import { directHandle } from '../base/direct-handle.ts'
import { placeIn, proofMigrations, provisionedIn } from '../base/subject.ts'
import type { Vitest } from '../base/vitest.ts'
import { raw } from '../leak/operations.ts'
import { itemsOf, Outside } from '../leak/operations-server.ts'
import type { Proof } from './proof.ts'

const OWNERS = 'select owner from items'

/** As a switch does it. */
async function change(driver: IsolationDriver, from: Place, to: Place): Promise<void> {
  await driver.fence(from)
  await driver.enter?.(to, { signal: new AbortController().signal })
  await driver.unfence(to)
}

export function lifeOfStorage(
  { afterAll, describe, expect, test }: Vitest,
  proof: () => Proof,
  engine: IsolationDriver['capabilities']['engine'],
): void {
  const names = proofMigrations(engine).map(({ name }) => name)
  const place = (id: string, epoch = 1): Place => placeIn(proof().subject, proof().driver, id, epoch)
  const fresh = async (id: string) => {
    const handle = await provisionedIn(proof().subject, proof().driver, id)
    await handle.db
      .insertInto('items')
      .values({ id: 1, owner: `of ${id}` })
      .execute()
    return handle
  }
  const expectTwo = async () => {
    for (const { id, pool } of [proof().a, proof().b]) {
      expect((await pool.query(OWNERS)).rows).toEqual([{ owner: `of ${id}` }, { owner: `of ${id}` }])
    }
  }

  describe('provisioning', () => {
    test('runs all migrations, says so, and may be repeated: the rows stay', async () => {
      const { driver } = proof()
      expect(await driver.provision(place('made'))).toEqual(names)
      const { pool } = await fresh('made')
      expect(await driver.provision(place('made'))).toEqual(names)
      expect(await driver.applied(place('made'))).toEqual(names)
      expect((await pool.query(OWNERS)).rows).toEqual([{ owner: 'of made' }])
      await driver.drop(place('made'))
    })

    test('by many at once makes it once', async () => {
      const { driver } = proof()
      const made = await Promise.all(Array.from({ length: 5 }, () => driver.provision(place('at-once'))))
      expect(made).toEqual(Array(5).fill(names))
      expect((await directHandle(driver, place('at-once')).pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(place('at-once'))
    })

    test('of the next epoch makes other storage, and keeps what is left until it is dropped', async () => {
      const { driver } = proof()
      await fresh('moved')
      const next = place('moved', 2)
      await driver.provision(next)
      await change(driver, place('moved'), next)
      const { pool } = directHandle(driver, next)
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await pool.query(`insert into items (id, owner) values (1, 'of the next')`)
      const former = { ...place('moved'), epoch: 3 }
      await change(driver, next, former)
      expect((await directHandle(driver, former).pool.query(OWNERS)).rows).toEqual([{ owner: 'of moved' }])
      const again = { ...next, epoch: 4 }
      await change(driver, former, again)
      await driver.drop(former)
      expect((await directHandle(driver, again).pool.query(OWNERS)).rows).toEqual([{ owner: 'of the next' }])
      await driver.drop(again)
    })
  })

  describe('a migration', () => {
    test('is taken back and run again, each as often as it is asked for and done once', async () => {
      const { driver, a } = proof()
      await fresh('migrated')
      expect(await driver.rollback(place('migrated'), 1)).toEqual(['0002_tags'])
      expect(await driver.applied(place('migrated'))).toEqual(['0001_items'])
      expect((await directHandle(driver, place('migrated')).pool.query(OWNERS)).rows).toEqual([
        { owner: 'of migrated' },
      ])
      expect(await driver.migrate(place('migrated'))).toEqual(['0002_tags'])
      expect(await driver.migrate(place('migrated'))).toEqual([])
      expect(await driver.applied(place('migrated'))).toEqual(names)
      await raw(a.db, 'select note from items')
      expect(await driver.rollback(place('migrated'), 9)).toEqual([...names].reverse())
      expect(await driver.rollback(place('migrated'), 1)).toEqual([])
      expect(await driver.migrate(place('migrated'))).toEqual(names)
      await driver.drop(place('migrated'))
    })

    test('that fails leaves everything as it was, and says which it is', async () => {
      const { subject, driver, a } = proof()
      if (!driver.capabilities.durable) return // its storage is not another driver's
      const broken = {
        name: '0003_broken',
        checksum: '3',
        up: 'create table half (tenant_id text not null default tenantry.current_tenant(), primary key (tenant_id)); select * from missing',
      }
      const other = await subject.open([...proofMigrations(engine), broken])
      await expect(other.migrate(place('a'))).rejects.toMatchObject({
        code: 'E_MIGRATION_FAILED',
        message: expect.stringContaining('0003_broken'),
      })
      expect(await driver.applied(place('a'))).toEqual(names)
      await expect(raw(a.db, 'select * from half')).rejects.toMatchObject({ code: '42P01' })
      await expectTwo()
    })
  })

  describe('a fence', () => {
    test('refuses every statement of its tenant and of no other, and is lifted again', async () => {
      const { driver } = proof()
      const { db, pool, transaction } = await fresh('closed')
      expect(await driver.isFenced(place('closed'))).toBe(false)
      await driver.fence(place('closed'))
      await driver.fence(place('closed'))
      expect(await driver.isFenced(place('closed'))).toBe(true)
      expect(await driver.isFenced(place('a'))).toBe(false)
      for (let n = 0; n < 2; n++) {
        for (const refused of [
          () => db.selectFrom('items').selectAll().execute(),
          () => raw(db, OWNERS),
          () => raw(db, `update items set value = 5`),
          () => raw(db, `delete from items`),
          () => raw(db, `insert into items (id, owner) values (7, 'of closed')`),
          () => pool.query(OWNERS),
          () => transaction((tx) => raw(tx, OWNERS)),
          () => transaction((tx) => raw(tx, `update items set value = 5`)),
        ]) {
          const failure = await refused().then(
            () => undefined,
            (error: unknown) => error,
          )
          expect(failure).toBeInstanceOf(Error)
          expect(driver.mayBeFence(failure)).toBe(true)
        }
        await expectTwo()
      }
      await driver.unfence(place('closed'))
      await driver.unfence(place('closed'))
      expect(await driver.isFenced(place('closed'))).toBe(false)
      expect((await pool.query('select owner, value from items')).rows).toEqual([{ owner: 'of closed', value: 0 }])
      await driver.drop(place('closed'))
    })

    test('holds for other processes, and what was open before it is soon refused', async () => {
      const { subject, driver } = proof()
      if (!driver.capabilities.durable) return // its storage is not another driver's
      await fresh('closed-for-all')
      const other = await subject.open(proofMigrations(engine))
      const there = directHandle(other, place('closed-for-all'))
      expect((await there.pool.query(OWNERS)).rows).toEqual([{ owner: 'of closed-for-all' }])
      await driver.fence(place('closed-for-all'))
      await expect(there.pool.query(OWNERS)).rejects.toSatisfy(other.mayBeFence)
      await expect(there.transaction((tx) => raw(tx, OWNERS))).rejects.toSatisfy(other.mayBeFence)
      await driver.drop(place('closed-for-all'))
    })

    test('of one epoch does not close the next', async () => {
      const { driver } = proof()
      await fresh('turned')
      const next = place('turned', 2)
      await driver.provision(next)
      await change(driver, place('turned'), next)
      const { pool } = directHandle(driver, next)
      await pool.query(`insert into items (id, owner) values (1, 'of the next')`)
      expect((await pool.query(OWNERS)).rows).toEqual([{ owner: 'of the next' }])
      expect([await driver.isFenced(place('turned')), await driver.isFenced(next)]).toEqual([true, false])
      await driver.drop(place('turned'))
      await driver.drop(next)
    })

    test('is not what an ordinary failure looks like', async () => {
      const { driver, a } = proof()
      for (const text of ['selekt', 'select * from missing', `insert into items (id, owner) values (1, null)`]) {
        await expect(raw(a.db, text)).rejects.toSatisfy((error) => !driver.mayBeFence(error))
      }
    })
  })

  describe('a drain', () => {
    const outside = new Outside()
    afterAll(() => outside.close())
    const insert = (id: number, tenant: string) => ({
      text: `insert into items (id, owner) values (${id}, 'of ${tenant}')`,
    })
    const ids = async (at: Place) =>
      (await proof().driver.execute(at, { text: 'select id from items order by id' })).rows.map(({ id }) => id)

    test('ends what was begun before the fence: nothing of it comes later, and others go on', async () => {
      const { driver } = proof()
      const [drained, beside] = [place('drained'), place('a')]
      await fresh('drained')
      const [written, begun, other] = [
        await driver.connect(drained),
        await driver.connect(drained),
        await driver.connect(beside),
      ]
      await begun.begin()
      await written.begin()
      await written.query(insert(2, 'drained'))
      await other.begin()
      await other.query(insert(7, 'a'))
      await driver.fence(drained)
      await driver.drain(drained, { graceMs: 0 })
      for (const [id, connection] of [written, begun].entries()) {
        await expect(connection.query(insert(3 + id, 'drained'))).rejects.toThrow()
        await expect(connection.end('commit')).rejects.toThrow()
        connection.release(true)
      }
      await other.query(insert(8, 'a'))
      await other.end('commit')
      other.release()
      await driver.unfence(drained)
      expect([await ids(drained), await ids(beside)]).toEqual([[1], [1, 2, 7, 8]])
      await driver.drop(drained)
    })

    test('lets what is under way come to its end: what was acknowledged is there, all of it and no more', async () => {
      const { driver } = proof()
      const hammered = place('hammered')
      await driver.provision(hammered)
      const { pool, transaction } = directHandle(driver, hammered)
      const acknowledged: number[] = []
      const enough = Promise.withResolvers<void>()
      const worker = async (first: number) => {
        for (let id = first; ; id += 4) {
          const { text } = insert(id, 'hammered')
          try {
            await (first % 2 ? pool.query(text) : transaction((db) => raw(db, text)))
          } catch {
            return
          }
          if (acknowledged.push(id) > 20) enough.resolve()
        }
      }
      const workers = [0, 1, 2, 3].map(worker)
      await enough.promise
      await driver.fence(hammered)
      await driver.drain(hammered)
      const view = proof().subject.viewOf?.(hammered)
      const seen =
        view && (await outside.all(view, `select id from ${itemsOf(view)} where owner = 'of hammered' order by id`))
      await Promise.all(workers)
      await driver.unfence(hammered)
      const there = await ids(hammered)
      if (seen) expect(there).toEqual(seen.map(({ id }) => id))
      expect(acknowledged.filter((id) => !there.includes(id))).toEqual([])
      await driver.drop(hammered)
    })

    test('of what was never there is no failure', async () => {
      await proof().driver.drain(place('never'))
    })
  })

  describe('a drop', () => {
    test('takes everything of its tenant and nothing of others, and may be repeated', async () => {
      const { driver } = proof()
      const { pool } = await fresh('dropped')
      await driver.drop(place('dropped'))
      await driver.drop(place('dropped'))
      await expect(pool.query(OWNERS)).rejects.toThrow()
      await expectTwo()
      expect(await driver.provision(place('dropped'))).toEqual(names)
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(place('dropped'))
    })

    test('of what was never there, or is fenced, is no failure', async () => {
      const { driver } = proof()
      await driver.drop(place('never'))
      const { pool } = await fresh('fenced')
      await driver.fence(place('fenced'))
      await driver.drop(place('fenced'))
      await driver.provision(place('fenced'))
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(place('fenced'))
    })
  })
}
