/** The one suite of all isolation drivers, on each driver and in each of its manners; then the leak fuzzer, for a short while. */
import { describe, expect, inject, test } from 'vitest'
import { placeIn, proofMigrations } from '../../testing/isolation-subject.ts'
import { isolationSuite } from '../../testing/isolation-suite.ts'
import { leakFuzz } from '../../testing/leak-fuzzer.ts'
import { KINDS, openSubject } from './subject.fixture.ts'

const OPERATIONS = 3_000
const TENANTS = ['a', 'b', 'c', 'a-b', 'select']
const kinds = Object.entries(KINDS)

for (const [kind, { engine }] of kinds)
  await isolationSuite(kind, () => openSubject(inject('postgresUrl'), kind), engine)

describe('the leak fuzzer', () => {
  test.each(kinds)('finds nothing with %s', { timeout: 120_000 }, async (kind, { engine }) => {
    const subject = await openSubject(inject('postgresUrl'), kind)
    try {
      const driver = await subject.open(proofMigrations(engine))
      const places = TENANTS.map((id) => placeIn(subject, driver, id))
      for (const place of places) await driver.provision(place)
      const { seed, violations } = await leakFuzz({ ...subject, driver, places, operations: OPERATIONS, workers: 8 })
      expect({ seed, violations }).toEqual({ seed, violations: [] })
    } finally {
      await subject.close()
    }
  })
})
