/** Group of `isolationSuite`: storage is provisioned, migrated, fenced, drained and dropped, each step repeatedly. */
import type { IsolationDriver, StorageLocation } from '../../tenants/isolation/driver.ts'
import { directHandle } from '../base/direct-handle.ts'
import { locationIn, proofMigrations, provisionedIn } from '../base/subject.ts'
import type { Vitest } from '../base/vitest.ts'
import { raw } from '../leak/operations.ts'
import { itemsOf, Outside } from '../leak/operations-server.ts'
import type { Proof } from './proof.ts'

const OWNERS = 'select owner from items'

/** Changes the schema version the way a transfer does. */
async function change(driver: IsolationDriver, from: StorageLocation, to: StorageLocation): Promise<void> {
  await driver.fence(from)
  await driver.enter?.(to, { signal: new AbortController().signal })
  await driver.unfence(to)
}

export function storageLifecycle(
  { afterAll, describe, expect, test }: Vitest,
  proof: () => Proof,
  engine: IsolationDriver['capabilities']['engine'],
): void {
  const names = proofMigrations(engine).map(({ name }) => name)
  const locationOf = (id: string, epoch = 1): StorageLocation => locationIn(proof().subject, proof().driver, id, epoch)
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
    test('provisioning runs and reports all migrations, and a repeated call keeps the rows', async () => {
      const { driver } = proof()
      expect(await driver.provision(locationOf('made'))).toEqual(names)
      const { pool } = await fresh('made')
      expect(await driver.provision(locationOf('made'))).toEqual(names)
      expect(await driver.applied(locationOf('made'))).toEqual(names)
      expect((await pool.query(OWNERS)).rows).toEqual([{ owner: 'of made' }])
      await driver.drop(locationOf('made'))
    })

    test('concurrent provisioning creates the storage once', async () => {
      const { driver } = proof()
      const made = await Promise.all(Array.from({ length: 5 }, () => driver.provision(locationOf('at-once'))))
      expect(made).toEqual(Array(5).fill(names))
      expect((await directHandle(driver, locationOf('at-once')).pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(locationOf('at-once'))
    })

    test('provisioning the next epoch creates other storage and keeps the old one until it is dropped', async () => {
      const { driver } = proof()
      await fresh('moved')
      const next = locationOf('moved', 2)
      await driver.provision(next)
      await change(driver, locationOf('moved'), next)
      const { pool } = directHandle(driver, next)
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await pool.query(`insert into items (id, owner) values (1, 'of the next')`)
      const former = { ...locationOf('moved'), epoch: 3 }
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
    test('a migration is rolled back and run again, and repeated requests have no effect', async () => {
      const { driver, a } = proof()
      await fresh('migrated')
      expect(await driver.rollback(locationOf('migrated'), 1)).toEqual(['0002_tags'])
      expect(await driver.applied(locationOf('migrated'))).toEqual(['0001_items'])
      expect((await directHandle(driver, locationOf('migrated')).pool.query(OWNERS)).rows).toEqual([
        { owner: 'of migrated' },
      ])
      expect(await driver.migrate(locationOf('migrated'))).toEqual(['0002_tags'])
      expect(await driver.migrate(locationOf('migrated'))).toEqual([])
      expect(await driver.applied(locationOf('migrated'))).toEqual(names)
      await raw(a.db, 'select note from items')
      expect(await driver.rollback(locationOf('migrated'), 9)).toEqual([...names].reverse())
      expect(await driver.rollback(locationOf('migrated'), 1)).toEqual([])
      expect(await driver.migrate(locationOf('migrated'))).toEqual(names)
      await driver.drop(locationOf('migrated'))
    })

    test('a failed migration changes nothing, and its error names the migration', async () => {
      const { subject, driver, a } = proof()
      if (!driver.capabilities.durable) return // another driver does not share its storage
      const broken = {
        name: '0003_broken',
        checksum: '3',
        up: 'create table half (tenant_id text not null default tenantry.current_tenant(), primary key (tenant_id)); select * from missing',
      }
      const other = await subject.open([...proofMigrations(engine), broken])
      await expect(other.migrate(locationOf('a'))).rejects.toMatchObject({
        code: 'E_MIGRATION_FAILED',
        message: expect.stringContaining('0003_broken'),
      })
      expect(await driver.applied(locationOf('a'))).toEqual(names)
      await expect(raw(a.db, 'select * from half')).rejects.toMatchObject({ code: '42P01' })
      await expectTwo()
    })
  })

  describe('a fence', () => {
    test('a fence rejects every statement of its tenant only, and can be lifted', async () => {
      const { driver } = proof()
      const { db, pool, transaction } = await fresh('closed')
      expect(await driver.isFenced(locationOf('closed'))).toBe(false)
      await driver.fence(locationOf('closed'))
      await driver.fence(locationOf('closed'))
      expect(await driver.isFenced(locationOf('closed'))).toBe(true)
      expect(await driver.isFenced(locationOf('a'))).toBe(false)
      for (let n = 0; n < 2; n++) {
        for (const rejected of [
          () => db.selectFrom('items').selectAll().execute(),
          () => raw(db, OWNERS),
          () => raw(db, `update items set value = 5`),
          () => raw(db, `delete from items`),
          () => raw(db, `insert into items (id, owner) values (7, 'of closed')`),
          () => pool.query(OWNERS),
          () => transaction((tx) => raw(tx, OWNERS)),
          () => transaction((tx) => raw(tx, `update items set value = 5`)),
        ]) {
          const failure = await rejected().then(
            () => undefined,
            (error: unknown) => error,
          )
          expect(failure).toBeInstanceOf(Error)
          expect(driver.mayBeFence(failure)).toBe(true)
        }
        await expectTwo()
      }
      await driver.unfence(locationOf('closed'))
      await driver.unfence(locationOf('closed'))
      expect(await driver.isFenced(locationOf('closed'))).toBe(false)
      expect((await pool.query('select owner, value from items')).rows).toEqual([{ owner: 'of closed', value: 0 }])
      await driver.drop(locationOf('closed'))
    })

    test('a fence also applies to other processes, and soon to their open connections', async () => {
      const { subject, driver } = proof()
      if (!driver.capabilities.durable) return // another driver does not share its storage
      await fresh('closed-for-all')
      const other = await subject.open(proofMigrations(engine))
      const there = directHandle(other, locationOf('closed-for-all'))
      expect((await there.pool.query(OWNERS)).rows).toEqual([{ owner: 'of closed-for-all' }])
      await driver.fence(locationOf('closed-for-all'))
      await expect(there.pool.query(OWNERS)).rejects.toSatisfy(other.mayBeFence)
      await expect(there.transaction((tx) => raw(tx, OWNERS))).rejects.toSatisfy(other.mayBeFence)
      await driver.drop(locationOf('closed-for-all'))
    })

    test('a fence of one epoch does not apply to the next epoch', async () => {
      const { driver } = proof()
      await fresh('turned')
      const next = locationOf('turned', 2)
      await driver.provision(next)
      await change(driver, locationOf('turned'), next)
      const { pool } = directHandle(driver, next)
      await pool.query(`insert into items (id, owner) values (1, 'of the next')`)
      expect((await pool.query(OWNERS)).rows).toEqual([{ owner: 'of the next' }])
      expect([await driver.isFenced(locationOf('turned')), await driver.isFenced(next)]).toEqual([true, false])
      await driver.drop(locationOf('turned'))
      await driver.drop(next)
    })

    test('an ordinary failure is not reported as a fence', async () => {
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
    const ids = async (at: StorageLocation) =>
      (await proof().driver.execute(at, { text: 'select id from items order by id' })).rows.map(({ id }) => id)

    test('a drain ends statements that started before the fence, and other tenants continue', async () => {
      const { driver } = proof()
      const [drained, beside] = [locationOf('drained'), locationOf('a')]
      await fresh('drained')
      const [written, started, other] = [
        await driver.connect(drained),
        await driver.connect(drained),
        await driver.connect(beside),
      ]
      await started.begin()
      await written.begin()
      await written.query(insert(2, 'drained'))
      await other.begin()
      await other.query(insert(7, 'a'))
      await driver.fence(drained)
      await driver.drain(drained, { graceMs: 0 })
      for (const [id, connection] of [written, started].entries()) {
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

    test('a drain waits for statements in flight: exactly the acknowledged rows are present', async () => {
      const { driver } = proof()
      const hammered = locationOf('hammered')
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

    test('a drain of missing storage succeeds', async () => {
      await proof().driver.drain(locationOf('never'))
    })
  })

  describe('a drop', () => {
    test('a drop removes everything of its tenant only, and a repeated drop succeeds', async () => {
      const { driver } = proof()
      const { pool } = await fresh('dropped')
      await driver.drop(locationOf('dropped'))
      await driver.drop(locationOf('dropped'))
      await expect(pool.query(OWNERS)).rejects.toThrow()
      await expectTwo()
      expect(await driver.provision(locationOf('dropped'))).toEqual(names)
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(locationOf('dropped'))
    })

    test('a drop of missing or fenced storage succeeds', async () => {
      const { driver } = proof()
      await driver.drop(locationOf('never'))
      const { pool } = await fresh('fenced')
      await driver.fence(locationOf('fenced'))
      await driver.drop(locationOf('fenced'))
      await driver.provision(locationOf('fenced'))
      expect((await pool.query(OWNERS)).rows).toEqual([])
      await driver.drop(locationOf('fenced'))
    })
  })
}
