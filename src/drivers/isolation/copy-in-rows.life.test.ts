/** An import into shared tables among others: who waits for whom, and what is left of one that ends early. */
import { describe, expect, test } from 'vitest'
import type { TenantCopy } from '../../tenants/copy.ts'
import { startFaultProxy } from '../../testing/fault-proxy.ts'
import { eventually } from '../../testing/tenancy.ts'
import { exported, type HeldCopy, never, replayed } from './copy.fixture.ts'
import { AFTER, ask, BEFORE, everything, expectNoTrace, fill, OWNERS, take, withSide } from './copy-rows.fixture.ts'
import { places } from './copy-sides.fixture.ts'
import { rowscopePg } from './rowscope-pg.ts'

/** Comes to the rows of a table, and goes on when it is told. */
function halting(held: HeldCopy, table: string) {
  const [reached, told] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const copy: TenantCopy = {
    ...replayed(held),
    async *tables() {
      for await (const one of replayed(held).tables()) {
        const csv = async function* () {
          yield* one.csv
          if (one.table.name !== table) return
          reached.resolve()
          await told.promise
        }
        yield { table: one.table, csv: csv() }
      }
    },
  }
  return { copy, reached: reached.promise, goOn: () => told.resolve() }
}

describe.each(OWNERS)('by %s,', (owner) => {
  test('others go on meanwhile, and migrations wait', async () => {
    await withSide(owner, async (side, newer) => {
      const driver = side.drivers['rowscope-pg']
      await fill(side, 'rowscope-pg', 'source')
      await fill(side, 'rowscope-pg', 'other')
      const { copy, reached, goOn } = halting(await exported(driver, places(side, 'rowscope-pg', 'source')), 'hens')
      const importing = take(driver, 'taken', copy)
      await reached
      await ask(side, 'rowscope-pg', 'other', `insert into notes (body) values ('meanwhile')`)
      await ask(side, 'rowscope-pg', 'other', `update notes set body = 'changed' where body = 'one'`)
      await fill(side, 'rowscope-pg', 'newcomer')
      await take(driver, 'faster', replayed(await exported(driver, places(side, 'rowscope-pg', 'other'))))
      let isMigrated = false
      const migrating = newer('rowscope-pg')
        .then((later) => later.migrate(places(side, 'rowscope-pg', 'other')))
        .then(() => {
          isMigrated = true
        })
      await eventually(async () => {
        const { rows } = await side.installation.database.sql(
          `select from pg_locks where locktype = 'advisory' and not granted
            and database = (select oid from pg_database where datname = current_database())`,
        )
        expect(rows).toHaveLength(1)
      })
      await ask(side, 'rowscope-pg', 'other', `select body from notes`)
      expect(isMigrated).toBe(false)
      goOn()
      await importing
      await migrating
      expect(await ask(side, 'rowscope-pg', 'taken', 'select text, shout from notes order by id')).toEqual([
        ['one', 'ONE'],
        ['two', 'TWO'],
      ])
      expect(await ask(side, 'rowscope-pg', 'faster', 'select shout from notes order by id')).toEqual([
        ['CHANGED'],
        ['TWO'],
        ['MEANWHILE'],
      ])
      await expectNoTrace(side)
    })
  })

  test('of two imports of one copy one is taken', async () => {
    await withSide(owner, async (side) => {
      const driver = side.drivers['rowscope-pg']
      await fill(side, 'rowscope-pg', 'source')
      const copy = await exported(driver, places(side, 'rowscope-pg', 'source'))
      const placement = await side.installation.prepare()
      const other = await side.installation.open(placement, { driver: () => rowscopePg(), migrations: BEFORE })
      const outcomes = await Promise.allSettled([
        take(driver, 'taken', replayed(copy)),
        take(other, 'taken', replayed(copy)),
      ])
      expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
      expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
        reason: { code: 'E_STORAGE_EXISTS' },
      })
      expect(await ask(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([['one'], ['two']])
    })
  })

  test('straight from where it is read, between tables that are the same ones', async () => {
    await withSide(owner, async (side) => {
      const driver = side.drivers['rowscope-pg']
      await fill(side, 'rowscope-pg', 'source')
      await driver.fence(places(side, 'rowscope-pg', 'source'))
      await driver.export(places(side, 'rowscope-pg', 'source'), (copy) => take(driver, 'taken', copy), {
        signal: never(),
      })
      await driver.unfence(places(side, 'rowscope-pg', 'source'))
      await ask(side, 'rowscope-pg', 'source', 'delete from notes')
      expect(await ask(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([['one'], ['two']])
      await expectNoTrace(side)
    })
  })

  test('one that nobody wants any more ends at once, wherever it is, and changes nothing', async () => {
    await withSide(owner, async (side, newer) => {
      const place = places(side, 'rowscope-pg', 'taken')
      await fill(side, 'rowscope-pg', 'source')
      const copy = await exported(side.drivers['rowscope-pg'], places(side, 'rowscope-pg', 'source'))
      const later = await newer('rowscope-pg')
      for (const driver of [side.drivers['rowscope-pg'], later]) {
        if (driver === later) await later.migrate(place)
        const before = await everything(side)
        for (const phase of ['making', 'loading', 'indexing', 'migrating']) {
          const controller = new AbortController()
          const reason = new Error('not wanted any more')
          let hasCome = false
          const onPhase = (begun: string) => {
            if (begun !== phase) return
            hasCome = true
            controller.abort(reason)
          }
          const importing = driver.import(place, replayed(copy), { signal: controller.signal, onPhase })
          if (
            !(await importing.then(
              () => undefined,
              (error) => error === reason,
            ))
          )
            expect(hasCome).toBe(false)
          await expectNoTrace(side)
          if (!hasCome) await driver.drop(place)
          expect(await everything(side)).toEqual(before)
        }
      }
    })
  })

  test.each(['pg_advisory_xact_lock_shared', 'copy "', 'set constraints all', 'drop schema', 'commit'])(
    'one whose connection is cut at "%s" changes nothing, and is made anew',
    async (text) => {
      await withSide(owner, async (side) => {
        await fill(side, 'rowscope-pg', 'source')
        const copy = await exported(side.drivers['rowscope-pg'], places(side, 'rowscope-pg', 'source'))
        const proxy = await startFaultProxy(side.installation.url)
        try {
          const placement = await side.installation.prepare()
          const cut = await side.installation.open(
            { ...placement, url: proxy.through(placement.url) },
            { driver: () => rowscopePg(), migrations: BEFORE },
          )
          await cut.provision(places(side, 'rowscope-pg', 'other'))
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
    const copy = await exported(side.drivers['rowscope-pg'], places(side, 'rowscope-pg', 'source'))
    await ask(side, 'rowscope-pg', 'source', 'delete from notes')
    const proxy = await startFaultProxy(side.installation.url)
    try {
      const placement = await side.installation.prepare()
      const slow = await side.installation.open(
        { ...placement, url: proxy.through(placement.url) },
        { driver: () => rowscopePg(), migrations: BEFORE },
      )
      await slow.provision(places(side, 'rowscope-pg', 'other'))
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

test('a placement that has had migrations which are not known here takes no copy', async () => {
  await withSide('a superuser', async (side, newer) => {
    const driver = side.drivers['rowscope-pg']
    await fill(side, 'rowscope-pg', 'source')
    const copy = await exported(driver, places(side, 'rowscope-pg', 'source'))
    await (await newer('rowscope-pg')).migrate(places(side, 'rowscope-pg', 'source'))
    const before = await everything(side)
    await expect(take(driver, 'taken', replayed(copy))).rejects.toThrow('0003_later is not known here')
    expect(await everything(side)).toEqual(before)
    expect(AFTER).toHaveLength(3)
    await expectNoTrace(side)
  })
})

test('a place whose fence is left of one before is open when the copy is in it', async () => {
  await withSide('an owner like any other', async (side) => {
    const driver = side.drivers['rowscope-pg']
    await fill(side, 'rowscope-pg', 'source')
    const copy = await exported(driver, places(side, 'rowscope-pg', 'source'))
    await take(driver, 'taken', replayed(copy))
    await driver.drop(places(side, 'rowscope-pg', 'taken'))
    await take(driver, 'taken', replayed(copy))
    expect(await ask(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([['one'], ['two']])
  })
})
