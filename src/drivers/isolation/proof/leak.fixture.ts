/** Runs the leak fuzzer for a short time, as a test of drivers. */
import { describe, expect, inject, test } from 'vitest'
import { locationIn, proofMigrations } from '../../../testing/base/subject.ts'
import { leakFuzz } from '../../../testing/leak/fuzzer.ts'
import { KINDS, openSubject } from './subject.fixture.ts'

const TENANTS = ['a', 'b', 'c', 'a-b', 'select']

export function leakTests(kinds: readonly string[], operations: number, tenants: readonly string[] = TENANTS): void {
  describe('the leak fuzzer', () => {
    test.each(kinds)('finds no violation with %s', { timeout: 120_000 }, async (kind) => {
      const subject = await openSubject(inject('postgresUrl'), kind)
      try {
        const driver = await subject.open(proofMigrations(KINDS[kind]?.engine ?? 'postgres'))
        const locations = tenants.map((id) => locationIn(subject, driver, id))
        for (const location of locations) await driver.provision(location)
        const { seed, violations } = await leakFuzz({ ...subject, driver, locations, operations, workers: 8 })
        if (violations.length > 0) expect.fail(`seed ${seed}: ${JSON.stringify(violations)}`)
      } finally {
        await subject.close()
      }
    })
  })
}
