import { describe, expect, test } from 'vitest'
import { eventually } from '../../testing/tenancy.ts'
import { exported, held, never } from './copy.fixture.ts'
import { busy, END, fill, handle, readings, readingsMeanwhile, sharedSide, withSide } from './copy-out.fixture.ts'
import { KINDS, places } from './copy-sides.fixture.ts'

const OWNER = 'an owner like any other'
readings(OWNER, sharedSide(OWNER, KINDS))
readingsMeanwhile(OWNER)

describe.each(KINDS)('a copy out of %s', (kind) => {
  test('may be left at any moment, and leaves nothing behind', async () => {
    await withSide('a superuser', async (side) => {
      const [driver, place] = [side.drivers[kind], places(side, kind, 'source')]
      await fill(side, kind, 'source')
      await handle(side, kind, 'source').pool.query(
        `insert into tokens (id, place) select n, repeat('x', 1000) from generate_series(1000, 20000) n`,
      )
      const reading = <T>(work: Parameters<typeof driver.export<T>>[1], signal = never()) =>
        driver.export<T>(place, work, { signal })
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
      await expect(reading((copy) => copy.totals())).rejects.toThrow('not all tables')
      const twice = reading(async (copy) => [(await held(copy)).totals, (await held(copy)).totals])
      const [first, second] = await twice
      expect(second).toEqual(first)
      const [controller, reason] = [new AbortController(), new Error('not wanted any more')]
      const aborted = reading(async (copy) => {
        for await (const { csv } of copy.tables()) for await (const _ of csv) controller.abort(reason)
      }, controller.signal)
      await expect(aborted).rejects.toBe(reason)
      const ended = reading(async (copy) => {
        for await (const { table, csv } of copy.tables()) {
          for await (const _ of csv) if (table.name === 'tokens') await side.reach(place, (client) => client.query(END))
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
      await eventually(async () => expect(await busy(side)).toEqual([]))
      expect((await exported(driver, place)).totals.at(-1)?.rows).toBe(19_101)
    })
  })
})
