import { expect, test } from 'vitest'
import { exported, replayed } from './copy.fixture.ts'
import { livesOfImports } from './copy-in-shared.life.fixture.ts'
import { AFTER, everything, expectNoTrace, FAST_OWNERS, fill, query, take, withSide } from './rows.fixture.ts'
import { locationFor } from './sides.fixture.ts'

livesOfImports(FAST_OWNERS)

test('a placement that has had migrations which are not known here takes no copy', async () => {
  await withSide('a superuser', async (side, newer) => {
    const driver = side.drivers['rowscope-pg']
    await fill(side, 'rowscope-pg', 'source')
    const copy = await exported(driver, locationFor(side, 'rowscope-pg', 'source'))
    await (await newer('rowscope-pg')).migrate(locationFor(side, 'rowscope-pg', 'source'))
    const before = await everything(side)
    await expect(take(driver, 'taken', replayed(copy))).rejects.toThrow('0003_later is not known here')
    expect(await everything(side)).toEqual(before)
    expect(AFTER).toHaveLength(3)
    await expectNoTrace(side)
  })
})

test('a location behind the fence of an earlier one takes a copy, and stays closed until it is opened', async () => {
  await withSide('an owner like any other', async (side) => {
    const driver = side.drivers['rowscope-pg']
    await fill(side, 'rowscope-pg', 'source')
    const copy = await exported(driver, locationFor(side, 'rowscope-pg', 'source'))
    await take(driver, 'taken', replayed(copy))
    await driver.drop(locationFor(side, 'rowscope-pg', 'taken'))
    await take(driver, 'taken', replayed(copy))
    expect(await driver.isFenced(locationFor(side, 'rowscope-pg', 'taken'))).toBe(true)
    await driver.unfence(locationFor(side, 'rowscope-pg', 'taken'))
    expect(await query(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([['one'], ['two']])
  })
})
