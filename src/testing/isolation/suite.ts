/**
 * What every isolation driver does, whatever it keeps rows in. `await isolationSuite('schema-pg', open)` at the top level of a
 * Vitest file registers it; what the driver's capabilities leave out is not registered.
 *
 * Vitest is loaded by the call and not by the import: `tenantry/testing` is also for those who test with something else.
 */
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../base/subject.ts'
import type { Proof } from './proof.ts'
import { copiesOfTenants } from './suite-copies.ts'
import { storageLifecycle } from './suite-lifecycle.ts'
import { whatTheServerSees } from './suite-server.ts'
import { statementsOfTenants } from './suite-statements.ts'

/** Ids that a careless driver would fold into one, quote wrongly, or cut off. */
export const TRICKY_IDS = [
  'select',
  'a-b',
  'a_b',
  '0',
  '007',
  '7',
  'public',
  'pg_temp',
  'z'.repeat(48),
  'x--drop',
  'a-',
]

/**
 * @param engine what the driver says of itself: it decides which tests there are, before the driver is open.
 * @param open a subject for this suite alone; the suite closes it.
 * @param trickyIds of tenants that get storage; names of storage are made of all.
 */
export async function isolationSuite(
  name: string,
  open: () => Promise<Subject>,
  engine: IsolationDriver['capabilities']['engine'] = 'postgres',
  trickyIds: readonly string[] = TRICKY_IDS,
): Promise<void> {
  const vitest = await import('vitest')
  const { afterAll, beforeAll, beforeEach, describe, expect, test } = vitest

  describe(`the isolation driver ${name}`, () => {
    let proof: Proof

    beforeAll(async () => {
      const subject = await open()
      const driver = await subject.open(proofMigrations(engine))
      const [a, b] = [await provisionedIn(subject, driver, 'a'), await provisionedIn(subject, driver, 'b')]
      proof = { subject, driver, a, b }
    })
    beforeEach(async () => {
      for (const { id, db } of [proof.a, proof.b]) {
        await db.deleteFrom('items').execute()
        const rows = [1, 2].map((key) => ({ id: key, owner: `of ${id}`, value: key }))
        await db.insertInto('items').values(rows).execute()
      }
    })
    afterAll(async () => {
      await proof?.subject.close()
    })

    test('says truthfully what it is', () => {
      expect(proof.driver.capabilities.engine).toBe(engine)
      if (proof.subject.viewOf) expect(proof.driver.capabilities.durable).toBe(true)
    })

    describe('names of storage', () => {
      test('are never shared by two ids or two epochs, and have at most 63 bytes', () => {
        const { driver } = proof
        const names = new Map<string, string>()
        for (const id of [...TRICKY_IDS, 'a', 'b', '1_a', 'a_1', 'a-1', '1', '11', 't1_a']) {
          for (const epoch of [1, 2, 3, 10, 11, 12, 21, 111, 2 ** 31 - 1]) {
            const name = driver.locator(id, epoch)
            expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
            expect(name).not.toMatch(/[\0"]/)
            expect([name, names.get(name)]).toEqual([name, undefined])
            names.set(name, `${id} ${epoch}`)
            expect(driver.locator(id, epoch)).toBe(name)
          }
        }
      })

      test('may be those of tricky ids, whose rows stay apart', async () => {
        const { subject, driver } = proof
        const handles = await Promise.all(trickyIds.map((id) => provisionedIn(subject, driver, id)))
        await Promise.all(
          handles.map(({ id, db }) =>
            db
              .insertInto('items')
              .values({ id: 1, owner: `of ${id}` })
              .execute(),
          ),
        )
        for (const { id, db, pool } of handles) {
          expect(await db.selectFrom('items').select('owner').execute()).toEqual([{ owner: `of ${id}` }])
          expect((await pool.query('select owner from items')).rows).toEqual([{ owner: `of ${id}` }])
        }
        await Promise.all(trickyIds.map((id) => driver.drop(locationIn(subject, driver, id))))
      })
    })

    statementsOfTenants(vitest, () => proof, engine)
    storageLifecycle(vitest, () => proof, engine)
    copiesOfTenants(vitest, () => proof)
    if (engine === 'postgres') whatTheServerSees(vitest, () => proof)

    test('holds no connection when nobody works', () => {
      for (const { busy, waiting } of proof.driver.connections())
        expect({ busy, waiting }).toEqual({ busy: 0, waiting: 0 })
    })

    test('takes no more statements once it has stopped', async () => {
      const stopped = await proof.subject.open(proofMigrations(engine))
      const location = locationIn(proof.subject, stopped, 'stopped')
      await stopped.provision(location)
      await stopped.execute(location, { text: 'select owner from items' })
      await stopped.drop(location)
      await stopped.stop()
      await expect(async () => stopped.execute(location, { text: 'select owner from items' })).rejects.toThrow()
    })
  })
}
