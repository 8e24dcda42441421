/** Tests of imports into shared tables: locks, concurrent work and interrupted imports. */
import { describe, expect, test } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import { WAITING_LOCKS } from '../../../testing/base/database.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { rowscopePg } from '../rowscope-pg.ts'
import { type BufferedCopy, exported, never, replayed } from './copy.fixture.ts'
import { locationFor } from './copy-storage.fixture.ts'
import { BEFORE, everything, expectNoTrace, fill, type Owner, query, take, withFixture } from './rows.fixture.ts'

/** Stops before the rows of a table and continues when it is released. */
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
  describe.each(owners)('import into shared tables, by %s,', (owner) => {
    test('an import does not block other work, and migrations wait for it', async () => {
      await withFixture(owner, async (fixture, newer) => {
        const driver = fixture.drivers['rowscope-pg']
        await fill(fixture, 'rowscope-pg', 'source')
        await fill(fixture, 'rowscope-pg', 'other')
        const { copy, reached, goOn } = halting(
          await exported(driver, locationFor(fixture, 'rowscope-pg', 'source')),
          'hens',
        )
        const importing = take(driver, 'taken', copy)
        await reached
        await query(fixture, 'rowscope-pg', 'other', `insert into notes (body) values ('meanwhile')`)
        await query(fixture, 'rowscope-pg', 'other', `update notes set body = 'changed' where body = 'one'`)
        await fill(fixture, 'rowscope-pg', 'newcomer')
        await take(driver, 'faster', replayed(await exported(driver, locationFor(fixture, 'rowscope-pg', 'other'))))
        let isMigrated = false
        const migrating = newer('rowscope-pg')
          .then((later) => later.migrate(locationFor(fixture, 'rowscope-pg', 'other')))
          .then(() => {
            isMigrated = true
          })
        await eventually(async () => {
          const { rows } = await fixture.installation.database.sql(
            `select from ${WAITING_LOCKS} where locktype = 'advisory'`,
          )
          expect(rows).toHaveLength(1)
        })
        await query(fixture, 'rowscope-pg', 'other', `select body from notes`)
        expect(isMigrated).toBe(false)
        goOn()
        await importing
        await migrating
        expect(await query(fixture, 'rowscope-pg', 'taken', 'select text, shout from notes order by id')).toEqual([
          ['one', 'ONE'],
          ['two', 'TWO'],
        ])
        expect(await query(fixture, 'rowscope-pg', 'faster', 'select shout from notes order by id')).toEqual([
          ['CHANGED'],
          ['TWO'],
          ['MEANWHILE'],
        ])
        await expectNoTrace(fixture)
      })
    })

    test('of two concurrent imports of one copy, one succeeds', async () => {
      await withFixture(owner, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        await fill(fixture, 'rowscope-pg', 'source')
        const copy = await exported(driver, locationFor(fixture, 'rowscope-pg', 'source'))
        const placement = await fixture.installation.prepare()
        const other = await fixture.installation.open(placement, { driver: () => rowscopePg(), migrations: BEFORE })
        const outcomes = await Promise.allSettled([
          take(driver, 'taken', replayed(copy)),
          take(other, 'taken', replayed(copy)),
        ])
        expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
        expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
          reason: { code: 'E_STORAGE_EXISTS' },
        })
        expect(await query(fixture, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([
          ['one'],
          ['two'],
        ])
      })
    })

    test('a copy is imported directly from an export between tables of the same versions', async () => {
      await withFixture(owner, async (fixture) => {
        const driver = fixture.drivers['rowscope-pg']
        await fill(fixture, 'rowscope-pg', 'source')
        await driver.fence(locationFor(fixture, 'rowscope-pg', 'source'))
        await driver.export(locationFor(fixture, 'rowscope-pg', 'source'), (copy) => take(driver, 'taken', copy), {
          signal: never(),
        })
        await driver.unfence(locationFor(fixture, 'rowscope-pg', 'source'))
        await query(fixture, 'rowscope-pg', 'source', 'delete from notes')
        expect(await query(fixture, 'rowscope-pg', 'taken', 'select body from notes order by id')).toEqual([
          ['one'],
          ['two'],
        ])
        await expectNoTrace(fixture)
      })
    })

    test('a cancelled import ends immediately at any step and changes nothing', async () => {
      await withFixture(owner, async (fixture, newer) => {
        const location = locationFor(fixture, 'rowscope-pg', 'taken')
        await fill(fixture, 'rowscope-pg', 'source')
        const copy = await exported(fixture.drivers['rowscope-pg'], locationFor(fixture, 'rowscope-pg', 'source'))
        const later = await newer('rowscope-pg')
        for (const driver of [fixture.drivers['rowscope-pg'], later]) {
          if (driver === later) await later.migrate(location)
          const before = await everything(fixture)
          for (const phase of ['making', 'loading', 'indexing', 'migrating']) {
            const controller = new AbortController()
            const reason = new Error('no longer required')
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
            await expectNoTrace(fixture)
            if (!hasCome) await driver.drop(location)
            expect(await everything(fixture)).toEqual(before)
          }
        }
      })
    })
  })
}
