import { expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { exported, never, replayed } from '../copy/copy.fixture.ts'
import { locationFor } from '../copy/copy-storage.fixture.ts'
import { fill, query, withFixture } from '../copy/rows.fixture.ts'

test('a delayed process neither enters nor opens a location that is older than the current one', async () => {
  await withFixture('a non-superuser owner', async (fixture) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'gamma')
    const first = locationFor(fixture, 'rowscope-pg', 'gamma')
    const [second, third] = [2, 3].map((epoch) => ({ ...first, locator: driver.locator('gamma', epoch), epoch }))
    const copy = await exported(driver, first)
    if (!second || !third) throw new Error('two locations')
    for (const next of [second, third]) await driver.import(next, replayed(copy), { signal: never() })
    await query(fixture, 'rowscope-pg', 'gamma', 'delete from notes')
    await driver.fence(first)
    await driver.enter?.(third, { signal: never() })
    await driver.unfence(third)
    await expect(driver.enter?.(second, { signal: never() })).rejects.toThrow('A newer location of the tenant "gamma"')
    for (const late of [first, second]) {
      await driver.fence(late)
      await driver.unfence(late)
    }
    expect(await query(fixture, 'rowscope-pg', 'gamma', 'select body from notes order by id')).toEqual([
      ['one'],
      ['two'],
    ])
    expect(await Promise.all([first, second, third].map((location) => driver.isFenced(location)))).toEqual([
      true,
      true,
      false,
    ])
  })
})

test('an import into a placement without rows of the tenant immediately uses the tenant’s id', async () => {
  await withFixture('a non-superuser owner', async (fixture) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'source')
    const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
    const moved = { ...locationFor(fixture, 'rowscope-pg', 'gamma'), locator: driver.locator('gamma', 2), epoch: 2 }
    await driver.import(moved, replayed(copy), { signal: never() })
    const { rows } = await fixture.installation.database.sql(
      'select distinct tenant_id from tenantry_rows.notes order by tenant_id',
    )
    expect(rows.map(({ tenant_id }) => tenant_id)).toEqual(['gamma', 'source'])
  })
})

test('several processes that enter a location enter it once', async () => {
  await withFixture('a non-superuser owner', async (fixture) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'gamma')
    const first = locationFor(fixture, 'rowscope-pg', 'gamma')
    const next = { ...first, locator: driver.locator('gamma', 2), epoch: 2 }
    await driver.import(next, replayed(await exported(driver, first)), { signal: never() })
    await driver.fence(first)
    await Promise.all(Array.from({ length: 5 }, () => driver.enter?.(next, { signal: never() })))
    await Promise.all(Array.from({ length: 5 }, () => driver.unfence(next)))
    expect(await query(fixture, 'rowscope-pg', 'gamma', 'select count(*)::int from notes')).toEqual([[2]])
  })
})

test('an export rejects rows whose label changes before its snapshot', async () => {
  await withFixture('a non-superuser owner', async (fixture) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'gamma')
    const first = locationFor(fixture, 'rowscope-pg', 'gamma')
    await fixture.reach(first, async (other) => {
      await other.query('begin; lock table tenantry_rows.notes in access exclusive mode')
      const exporting = exported(driver, first)
      exporting.catch(() => undefined) // asserted below
      const waiting = `select from pg_locks where not granted and relation = 'tenantry_rows.notes'::regclass
        and database = (select oid from pg_database where datname = current_database())`
      await eventually(async () => expect((await other.query(waiting)).rowCount).toBe(1))
      await other.query(`update tenantry.row_locations set locator = 'gamma~2' where tenant = 'gamma'; commit`)
      await expect(exporting).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
    })
  })
})
