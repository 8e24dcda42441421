/**
 * Test suite of all isolation drivers. Tests of capabilities that a driver does not have are not registered.
 *
 * Vitest is loaded by the call, not by the import: `tenantry/testing` also serves projects with another test runner.
 */
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../base/subject.ts'
import type { Proof } from './proof.ts'
import { copiesOfTenants } from './suite-copies.ts'
import { storageLifecycle } from './suite-lifecycle.ts'
import { serverView } from './suite-server.ts'
import { statementsOfTenants } from './suite-statements.ts'

/** Ids that an incorrect driver could merge, quote incorrectly or truncate. */
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
 * Registers the tests of isolation drivers in a Vitest file. Call it at the top level.
 *
 * @param open creates a subject for this suite; the suite closes it.
 * @param engine engine of the driver, which decides the tests before the driver is open.
 * @param trickyIds ids of tenants that get storage; all ids are tested as names of storage.
 * @example await isolationSuite('schema-pg', () => openSubject('postgres://postgres@localhost/postgres'))
 */
export async function isolationSuite(
  name: string,
  open: () => Promise<Subject>,
  engine: IsolationDriver['capabilities']['engine'] = 'postgres',
  trickyIds: readonly string[] = TRICKY_IDS,
): Promise<void> {
  const vitest = await import('vitest')
  const { afterAll, beforeAll, beforeEach, describe, expect, test } = vitest

  describe(`isolation driver ${name}`, () => {
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

    test('the driver reports its capabilities', () => {
      expect(proof.driver.capabilities.engine).toBe(engine)
      if (proof.subject.viewOf) expect(proof.driver.capabilities.durable).toBe(true)
    })

    describe('names of storage', () => {
      test('names of storage differ by id and by epoch, and have at most 63 bytes', () => {
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

      test('rows of tenants with unusual ids stay separate', async () => {
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
    if (engine === 'postgres') serverView(vitest, () => proof)

    test('an idle driver holds no connection', () => {
      for (const { busy, waiting } of proof.driver.connections())
        expect({ busy, waiting }).toEqual({ busy: 0, waiting: 0 })
    })

    test('a stopped driver rejects statements', async () => {
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
