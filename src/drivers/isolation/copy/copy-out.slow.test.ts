import { describe, expect, test } from 'vitest'
import { eventually } from '../../../testing/base/tenancy.ts'
import { exported, held, never } from './copy.fixture.ts'
import { busy, END, fill, handle, readings, sharedSide, withFixture } from './copy-out.fixture.ts'
import { KINDS, locationFor } from './copy-storage.fixture.ts'

const OWNER = 'a non-superuser owner'
readings(OWNER, sharedSide(OWNER, KINDS))

test.each(KINDS)(`a copy of %s by ${OWNER} is consistent during concurrent writes`, async (kind) => {
  await withFixture(OWNER, async (fixture) => {
    await fill(fixture, kind, 'source')
    const { transaction, pool } = handle(fixture, kind, 'source')
    let isFinished = false
    const write = async () => {
      while (!isFinished) {
        const id = 1 + Math.floor(Math.random() * 100)
        await transaction(async (db) => {
          const moved = await db.deleteFrom('tokens').where('id', '=', id).returning('id').executeTakeFirst()
          if (moved) await db.insertInto('there').values({ id }).execute()
          else {
            await db.deleteFrom('there').where('id', '=', id).execute()
            await db
              .insertInto('tokens')
              .values({ id, place: 'back' })
              .onConflict((it) => it.doNothing())
              .execute()
          }
        })
      }
    }
    const writing = [write(), write()]
    const ids = (csv: string | undefined) =>
      (csv ?? '')
        .split('\n')
        .slice(1, -1)
        .map((line) => Number.parseInt(line, 10))
    try {
      for (let n = 0; n < 10; n++) {
        const { csv } = await exported(fixture.drivers[kind], locationFor(fixture, kind, 'source'))
        const all = [...ids(csv.get('tokens')), ...ids(csv.get('there'))].sort((a, b) => a - b)
        expect(all).toEqual(Array.from({ length: 100 }, (_, index) => index + 1))
      }
    } finally {
      isFinished = true
      await Promise.allSettled(writing)
    }
    expect((await pool.query('select from there')).rowCount).toBeGreaterThan(0)
  })
})

describe.each(KINDS)('copy out of %s', (kind) => {
  test('a copy can be abandoned at any moment and leaves no session or lock', async () => {
    await withFixture('a superuser', async (fixture) => {
      const [driver, location] = [fixture.drivers[kind], locationFor(fixture, kind, 'source')]
      await fill(fixture, kind, 'source')
      await handle(fixture, kind, 'source').pool.query(
        `insert into tokens (id, place) select n, repeat('x', 1000) from generate_series(1000, 20000) n`,
      )
      const reading = <T>(work: Parameters<typeof driver.export<T>>[1], signal = never()) =>
        driver.export<T>(location, work, { signal })
      expect(await reading(async () => 'nothing')).toBe('nothing')
      const inTheMiddle = await reading(async (copy) => {
        for await (const { table, csv } of copy.tables()) {
          for await (const chunk of csv) if (table.name === 'tokens') return chunk.length
        }
        return 0
      })
      expect(inTheMiddle).toBeGreaterThan(0)
      const failure = new Error('the disk is full')
      const failing = reading(async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) throw failure
      })
      await expect(failing).rejects.toBe(failure)
      const unread = reading(async (copy) => {
        for await (const { table } of copy.tables()) expect(table.name).toBe('Values')
      })
      await expect(unread).rejects.toThrow('"Values" was not read to its end')
      await expect(reading((copy) => copy.totals())).rejects.toThrow('Not all tables')
      const twice = reading(async (copy) => [(await held(copy)).totals, (await held(copy)).totals])
      const [first, second] = await twice
      expect(second).toEqual(first)
      const [controller, reason] = [new AbortController(), new Error('no longer required')]
      const aborted = reading(async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) controller.abort(reason)
      }, controller.signal)
      await expect(aborted).rejects.toBe(reason)
      const ended = reading(async (copy) => {
        for await (const { table, csv } of copy.tables()) {
          for await (const _ of csv)
            if (table.name === 'tokens') await fixture.reach(location, (client) => client.query(END))
        }
      })
      await expect(ended).rejects.toThrow()
      const [idle, none] = [new AbortController(), new Error('nor this')]
      const waiting = reading(async () => {
        idle.abort(none)
        return 'done'
      }, idle.signal)
      await expect(waiting).rejects.toBe(none)
      await expect(reading(async () => 1, AbortSignal.abort(reason))).rejects.toBe(reason)
      await eventually(async () => expect(await busy(fixture)).toEqual([]))
      expect((await exported(driver, location)).totals.at(-1)?.rows).toBe(19_101)
    })
  })
})
