import { describe, expect, test } from 'vitest'
import { startFaultProxy } from '../../../../test/support/fault-proxy.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { exported, replayed } from './copy.fixture.ts'
import { livesOfImports } from './copy-in-shared.lifecycle.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import {
  BEFORE,
  everything,
  expectNoTrace,
  fill,
  OWNERS,
  query,
  SLOW_OWNERS,
  take,
  withFixture,
} from './rows.fixture.ts'

livesOfImports(SLOW_OWNERS)

describe.each(OWNERS)('import into shared tables, by %s,', (owner) => {
  test.each(['pg_advisory_xact_lock_shared', 'copy "', 'set constraints all', 'drop schema', 'commit'])(
    'an import whose connection is lost at "%s" changes nothing and can be repeated',
    async (text) => {
      await withFixture(owner, async (fixture) => {
        await fill(fixture, 'rowscope-pg', 'source')
        const copy = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
        const proxy = await startFaultProxy(fixture.installation.url)
        try {
          const placement = await fixture.installation.prepare()
          const cut = await fixture.installation.open(
            { ...placement, url: proxy.through(placement.url) },
            { driver: () => rowscopePg(), migrations: BEFORE },
          )
          await cut.provision(locationFor(fixture, 'rowscope-pg', 'other'))
          const before = await everything(fixture)
          const fault = proxy.at(text, 'cut the line')
          await expect(take(cut, 'taken', replayed(copy))).rejects.toThrow()
          expect(fault.hasHappened).toBe(true)
          await expectNoTrace(fixture)
          expect(await everything(fixture)).toEqual(before)
          await take(cut, 'taken', replayed(copy))
          await cut.stop()
        } finally {
          await proxy.close()
        }
      })
    },
  )
})

test('rows to which imported rows refer cannot be deleted before the commit', async () => {
  await withFixture('a superuser', async (fixture) => {
    await fill(fixture, 'rowscope-pg', 'source')
    const copy = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
    await query(fixture, 'rowscope-pg', 'source', 'delete from notes')
    const proxy = await startFaultProxy(fixture.installation.url)
    try {
      const placement = await fixture.installation.prepare()
      const slow = await fixture.installation.open(
        { ...placement, url: proxy.through(placement.url) },
        { driver: () => rowscopePg(), migrations: BEFORE },
      )
      await slow.provision(locationFor(fixture, 'rowscope-pg', 'other'))
      // At this point all checks are done, and nothing is committed.
      const fault = proxy.at('set constraints all', 'hang')
      const importing = take(slow, 'taken', replayed(copy)).catch((error) => error)
      await fault.happened
      const remove = (code: string) =>
        fixture.installation.database.sql(
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
