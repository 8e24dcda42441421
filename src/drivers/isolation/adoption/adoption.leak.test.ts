/** Runs the leak fuzzer on adopted schemas, among tenants with schemas of their own. */
import { randomBytes, randomUUID } from 'node:crypto'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { locationIn, proofMigrations } from '../../../testing/base/subject.ts'
import { leakFuzz } from '../../../testing/leak/fuzzer.ts'
import { openSubject } from '../proof/subject.fixture.ts'
import { quoted } from './adoption.fixture.ts'

const MIGRATIONS = proofMigrations('postgres')
const ADOPTED: Readonly<Record<string, string>> = { a: 'legacy', b: 'Legacy "B"', c: 'select' }

test('the leak fuzzer finds no violation in adopted schemas', { timeout: 120_000 }, async () => {
  const subject = await openSubject(inject('postgresUrl'), 'schema-pg, batch')
  const role = `legacy_${randomBytes(4).toString('hex')}`
  await asSuperuser(inject('postgresUrl'), `create role ${role}`)
  try {
    const driver = await subject.open(MIGRATIONS)
    const locations = ['d', 'a-b', 'a', 'b', 'c'].map((id) => {
      const location = locationIn(subject, driver, id)
      return { ...location, locator: ADOPTED[id] ?? location.locator }
    })
    for (const location of locations) {
      const { tenantId, locator } = location
      if (!(tenantId in ADOPTED)) {
        await driver.provision(location)
        continue
      }
      await asSuperuser(
        subject.viewOf?.(location).url,
        `grant usage on schema tenantry to ${role}; grant create on database ${databaseOf(subject.viewOf?.(location).url)} to ${role};
         create schema ${quoted(locator)} authorization ${role}; set role ${role}; set search_path = ${quoted(locator)};
         ${MIGRATIONS.map(({ up }) => up).join(';')}`,
      )
      const request = { location, baseline: MIGRATIONS.map(({ name }) => name), acceptDifferences: [] }
      const plan = await driver.adoption?.plan(request)
      expect(plan?.reasons).toEqual([])
      await driver.adoption?.adopt(request, {
        adoptionId: randomUUID(),
        digest: plan?.digest ?? '',
        assertNotAbandoned: async () => undefined,
      })
    }
    const { seed, violations } = await leakFuzz({ ...subject, driver, locations, operations: 150, workers: 8 })
    if (violations.length > 0) expect.fail(`seed ${seed}: ${JSON.stringify(violations)}`)
    const findings = await Array.fromAsync(driver.audit(iterate(locations)))
    expect(findings.filter(({ severity }) => severity === 'error')).toEqual([])
  } finally {
    await subject.close()
    await asSuperuser(inject('postgresUrl'), `drop role ${role}`)
  }
})

async function* iterate<T>(all: readonly T[]): AsyncIterable<T> {
  yield* all
}

const databaseOf = (url = ''): string => new URL(url).pathname.slice(1)

async function asSuperuser(url: string | undefined, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(text).finally(() => client.end())
}
