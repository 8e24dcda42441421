import { expect, test } from 'vitest'
import { exported, replayed } from './copy.fixture.ts'
import { livesOfImports } from './copy-in-shared.lifecycle.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { AFTER, everything, expectNoTrace, FAST_OWNERS, fill, query, take, withFixture } from './rows.fixture.ts'

livesOfImports(FAST_OWNERS)

test('rejects an import into a placement with migrations that are unknown here', async () => {
  await withFixture('a superuser', async (fixture, newer) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'source')
    const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
    await (await newer('rowscope-pg')).migrate(locationFor(fixture, 'rowscope-pg', 'source'))
    const before = await everything(fixture)
    await expect(take(driver, 'taken', replayed(copy))).rejects.toThrow('0003_later is unknown here')
    expect(await everything(fixture)).toEqual(before)
    expect(AFTER).toHaveLength(3)
    await expectNoTrace(fixture)
  })
})

test('an import into a location behind the fence of an earlier one succeeds, and the location stays fenced until it is opened', async () => {
  await withFixture('a non-superuser owner', async (fixture) => {
    const driver = fixture.drivers['rowscope-pg']
    await fill(fixture, 'rowscope-pg', 'source')
    const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
    await take(driver, 'taken', replayed(copy))
    await driver.drop(locationFor(fixture, 'rowscope-pg', 'taken'))
    await take(driver, 'taken', replayed(copy))
    expect(await driver.isFenced(locationFor(fixture, 'rowscope-pg', 'taken'))).toBe(true)
    await driver.unfence(locationFor(fixture, 'rowscope-pg', 'taken'))
    expect(await query(fixture, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([
      ['one'],
      ['two'],
    ])
  })
})
