/** An import into shared tables among others: who waits for whom, and what is left of one that ends early. */
import { describe, expect, test } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { type BufferedCopy, exported, never, replayed } from './copy.fixture.ts'
import { BEFORE, everything, expectNoTrace, fill, type Owner, query, take, withSide } from './rows.fixture.ts'
import { locationFor } from './sides.fixture.ts'

/** Comes to the rows of a table, and goes on when it is told. */
function halting(held: BufferedCopy, table: string) {
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const copy: TenantCopy = {
    ...replayed(held),
    async *tables() {
      for await (const one of replayed(held).tables()) {
        const csv = async function* () {
          yield* one.csv
          if (one.table.name !== table) return
          reached.resolve()
          await released.promise
        }
        yield { table: one.table, csv: csv() }
      }
    },
  }
  return { copy, reached: reached.promise, goOn: () => released.resolve() }
}

export function livesOfImports(owners: readonly Owner[]): void {
  describe.each(owners)('an import into shared tables, by %s,', (owner) => {
    test('others go on meanwhile, and migrations wait', async () => {
      await withSide(owner, async (side, newer) => {
        const driver = side.drivers['rowscope-pg']
        await fill(side, 'rowscope-pg', 'source')
        await fill(side, 'rowscope-pg', 'other')
        const { copy, reached, goOn } = halting(
          await exported(driver, locationFor(side, 'rowscope-pg', 'source')),
          'hens',
        )
        const importing = take(driver, 'taken', copy)
        await reached
        await query(side, 'rowscope-pg', 'other', `insert into notes (body) values ('meanwhile')`)
        await query(side, 'rowscope-pg', 'other', `update notes set body = 'changed' where body = 'one'`)
        await fill(side, 'rowscope-pg', 'newcomer')
        await take(driver, 'faster', replayed(await exported(driver, locationFor(side, 'rowscope-pg', 'other'))))
        let isMigrated = false
        const migrating = newer('rowscope-pg')
          .then((later) => later.migrate(locationFor(side, 'rowscope-pg', 'other')))
          .then(() => {
            isMigrated = true
          })
        await eventually(async () => {
          const { rows } = await side.installation.database.sql(
            `select from ${WAITING_LOCKS} where locktype = 'advisory'`,
          )
          expect(rows).toHaveLength(1)
        })
        await query(side, 'rowscope-pg', 'other', `select body from notes`)
        expect(isMigrated).toBe(false)
        goOn()
        await importing
        await migrating
        expect(await query(side, 'rowscope-pg', 'taken', 'select text, shout from notes order by id')).toEqual([
          ['one', 'ONE'],
          ['two', 'TWO'],
        ])
        expect(await query(side, 'rowscope-pg', 'faster', 'select shout from notes order by id')).toEqual([
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
        const copy = await exported(driver, locationFor(side, 'rowscope-pg', 'source'))
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
        expect(await query(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([
          ['one'],
          ['two'],
        ])
      })
    })

    test('straight from where it is read, between tables that are the same ones', async () => {
      await withSide(owner, async (side) => {
        const driver = side.drivers['rowscope-pg']
        await fill(side, 'rowscope-pg', 'source')
        await driver.fence(locationFor(side, 'rowscope-pg', 'source'))
        await driver.export(locationFor(side, 'rowscope-pg', 'source'), (copy) => take(driver, 'taken', copy), {
          signal: never(),
        })
        await driver.unfence(locationFor(side, 'rowscope-pg', 'source'))
        await query(side, 'rowscope-pg', 'source', 'delete from notes')
        expect(await query(side, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([
          ['one'],
          ['two'],
        ])
        await expectNoTrace(side)
      })
    })

    test('one that nobody wants any more ends at once, wherever it is, and changes nothing', async () => {
      await withSide(owner, async (side, newer) => {
        const location = locationFor(side, 'rowscope-pg', 'taken')
        await fill(side, 'rowscope-pg', 'source')
        const copy = await exported(side.drivers['rowscope-pg'], locationFor(side, 'rowscope-pg', 'source'))
        const later = await newer('rowscope-pg')
        for (const driver of [side.drivers['rowscope-pg'], later]) {
          if (driver === later) await later.migrate(location)
          const before = await everything(side)
          for (const phase of ['making', 'loading', 'indexing', 'migrating']) {
            const controller = new AbortController()
            const reason = new Error('not wanted any more')
            let hasCome = false
            const onPhase = (started: string) => {
              if (started !== phase) return
              hasCome = true
              controller.abort(reason)
            }
            const importing = driver.import(location, replayed(copy), { signal: controller.signal, onPhase })
            const error = await importing.then(
              () => undefined,
              (error) => error,
            )
            expect(error).toBe(hasCome ? reason : undefined)
            await expectNoTrace(side)
            if (!hasCome) await driver.drop(location)
            expect(await everything(side)).toEqual(before)
          }
        }
      })
    })
  })
}
