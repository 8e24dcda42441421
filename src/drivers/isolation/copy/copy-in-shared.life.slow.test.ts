import { describe, expect, test } from 'vitest'
import { startFaultProxy } from '../../../../test/support/fault-proxy.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { exported, replayed } from './copy.fixture.ts'
import { livesOfImports } from './copy-in-shared.life.fixture.ts'
import { BEFORE, everything, expectNoTrace, fill, OWNERS, query, SLOW_OWNERS, take, withSide } from './rows.fixture.ts'
import { locationFor } from './sides.fixture.ts'

livesOfImports(SLOW_OWNERS)

describe.each(OWNERS)('an import into shared tables, by %s,', (owner) => {
  test.each(['pg_advisory_xact_lock_shared', 'copy "', 'set constraints all', 'drop schema', 'commit'])(
    'one whose connection is cut at "%s" changes nothing, and is made anew',
    async (text) => {
      await withSide(owner, async (side) => {
        await fill(side, 'rowscope-pg', 'source')
        const copy = await exported(side.drivers['rowscope-pg'], locationFor(side, 'rowscope-pg', 'source'))
        const proxy = await startFaultProxy(side.installation.url)
        try {
          const placement = await side.installation.prepare()
          const cut = await side.installation.open(
            { ...placement, url: proxy.through(placement.url) },
            { driver: () => rowscopePg(), migrations: BEFORE },
          )
          await cut.provision(locationFor(side, 'rowscope-pg', 'other'))
          const before = await everything(side)
          const fault = proxy.at(text, 'cut the line')
          await expect(take(cut, 'taken', replayed(copy))).rejects.toThrow()
          expect(fault.hasHappened).toBe(true)
          await expectNoTrace(side)
          expect(await everything(side)).toEqual(before)
          await take(cut, 'taken', replayed(copy))
          await cut.stop()
        } finally {
          await proxy.close()
        }
      })
    },
  )
})

test('what rows of a copy refer to stays until they are there', async () => {
  await withSide('a superuser', async (side) => {
    await fill(side, 'rowscope-pg', 'source')
    const copy = await exported(side.drivers['rowscope-pg'], locationFor(side, 'rowscope-pg', 'source'))
    await query(side, 'rowscope-pg', 'source', 'delete from notes')
    const proxy = await startFaultProxy(side.installation.url)
    try {
      const placement = await side.installation.prepare()
      const slow = await side.installation.open(
        { ...placement, url: proxy.through(placement.url) },
        { driver: () => rowscopePg(), migrations: BEFORE },
      )
      await slow.provision(locationFor(side, 'rowscope-pg', 'other'))
      // By then all has been looked at, and nothing is committed.
      const fault = proxy.at('set constraints all', 'hang')
      const importing = take(slow, 'taken', replayed(copy)).catch((error) => error)
      await fault.happened
      const remove = (code: string) =>
        side.installation.database.sql(
          `set lock_timeout = '50ms'; delete from tenantry_rows.countries where code = '${code}'`,
        )
      await expect(remove('de')).rejects.toMatchObject({ code: '55P03' })
      await remove('fr')
      fault.end()
      expect(await importing).toBeInstanceOf(Error)
      await slow.stop()
    } finally {
      await proxy.close()
    }
  })
})
