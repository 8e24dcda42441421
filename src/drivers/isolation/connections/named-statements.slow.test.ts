import { describe, expect, inject, test } from 'vitest'
import { proofMigrations, provisionedIn } from '../../../testing/base/subject.ts'
import { KINDS, openSubject } from '../proof/subject.fixture.ts'

/** More texts than a connection keeps prepared. */
const TEXTS = 250
const kinds = Object.keys(KINDS).filter((kind) => KINDS[kind]?.engine === 'postgres')

describe.each(kinds)('statements on %s', (kind) => {
  test('with more texts than a connection keeps prepared each return their own result', {
    timeout: 120_000,
  }, async () => {
    const subject = await openSubject(inject('postgresUrl'), kind)
    try {
      const driver = await subject.open(proofMigrations('postgres'))
      const tenants = [await provisionedIn(subject, driver, 'a'), await provisionedIn(subject, driver, 'b')]
      for (const { id, db } of tenants)
        await db
          .insertInto('items')
          .values({ id: 1, owner: `of ${id}` })
          .execute()
      const ask = async (n: number) => {
        for (const { id, pool } of tenants) {
          const { rows } = await pool.query(`select owner, ${n} as n from items where id = $1`, [1])
          expect(rows).toEqual([{ owner: `of ${id}`, n }])
        }
      }
      for (let n = 0; n < TEXTS; n++) await ask(n)
      for (let n = 0; n < TEXTS; n += 25) await ask(n)
    } finally {
      await subject.close()
    }
  })
})
