/** Tests the adoption of existing schemas by schema-pg: three applications, their isolation, and the release. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { type Legacy, locationOf, openLegacy, quoted } from './adoption.fixture.ts'
import { baselineOf, LEGACY_APPLICATIONS } from './legacy-schemas.fixture.ts'

describe.each(LEGACY_APPLICATIONS.map((application) => [application.name, application] as const))(
  'the schema of the application %s',
  (_, application) => {
    const SCHEMA = `Legacy "${application.name}" of ACME`
    let legacy: Legacy
    let before: unknown

    beforeAll(async () => {
      legacy = await openLegacy(application.migrations)
      await legacy.sql(application.dump(quoted(SCHEMA), legacy.role))
      before = await legacy.rights(SCHEMA)
    })
    afterAll(() => legacy.end())

    test('has no difference from the migrations, and the plan changes nothing', async () => {
      const plan = await legacy.plan(SCHEMA)
      expect(plan).toMatchObject({ reasons: [], differences: [] })
      expect(plan.statements.length).toBeGreaterThan(10)
      expect(await legacy.rights(SCHEMA)).toEqual(before)
      expect((await legacy.plan(SCHEMA)).digest).toBe(plan.digest)
    })

    test('becomes isolated storage with its rows, and the application continues to run', async () => {
      const location = await legacy.adopt(SCHEMA)
      expect(await legacy.audit(SCHEMA)).toEqual([])
      expect(await legacy.driver.isFenced(location)).toBe(false)
      expect(await legacy.driver.applied(location)).toEqual(baselineOf(application))
      const { db } = directHandle(legacy.driver, location)
      for (const [table, count] of Object.entries(application.rows)) {
        expect(await raw(db, `select count(*)::int as count from ${quoted(table)}`)).toEqual([{ count }])
      }
      await legacy.asApplication(SCHEMA, application.writes.join('; '))
      for (const text of application.writes) await raw(db, text)
      await expect(legacy.asApplication(SCHEMA, 'create table more (id int)')).rejects.toThrow('permission denied')
    })

    test('is migrated from its baseline, and is fenced and opened', async () => {
      const location = locationOf(SCHEMA)
      expect(await legacy.driver.migrate(location)).toEqual(application.migrations.slice(-1).map(({ name }) => name))
      await legacy.asApplication(SCHEMA, application.writes.join('; '))
      await legacy.driver.fence(location)
      expect(await legacy.driver.isFenced(location)).toBe(true)
      await expect(raw(directHandle(legacy.driver, location).db, application.writes[0] ?? '')).rejects.toMatchObject({
        code: 'E_TENANT_STORAGE_FENCED',
      })
      await legacy.driver.unfence(location)
      expect(await legacy.audit(SCHEMA)).toEqual([])
    })

    test('has its owners and rights of before after the release, and its new rows', async () => {
      await legacy.adoption.release(locationOf(SCHEMA))
      const after = await legacy.rights(SCHEMA)
      expect(withoutNew(after, before)).toEqual(before)
      expect(await legacy.sql(`select from tenantry.migrations where locator = ${pg.escapeLiteral(SCHEMA)}`)).toEqual(
        [],
      )
      expect(await legacy.adoption.release(locationOf(SCHEMA))).toEqual([])
      await legacy.asApplication(
        SCHEMA,
        `${application.writes.join('; ')}; create table more (id int); drop table more`,
      )
    })
  },
)

/** Objects created by migrations after the adoption belong to the owner of the schema. */
const withoutNew = (after: unknown, before: unknown): unknown => {
  const known = new Set((before as { object: string }[]).map(({ object }) => object))
  return (after as { object: string }[]).filter(({ object }) => known.has(object))
}
