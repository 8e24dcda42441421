import { randomBytes } from 'node:crypto'
import { Gzip } from 'node:zlib'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { TenantCopy } from '../../isolation/copy.ts'
import { archiveOf, bytesOf, copyOf, openSpools, SMALL, SUBJECT, table, totalsOf } from './archive.fixture.ts'
import { archived } from './writer.ts'

const MEBIBYTE = 1024 * 1024

test('the totals are returned', async () => {
  const writing = archived(copyOf(SMALL), SUBJECT)
  let step = await writing.next()
  while (!step.done) step = await writing.next()
  expect(step.value).toEqual(totalsOf(SMALL))
})

test('one tenant, one time: one archive', async () => {
  expect(await archiveOf(SMALL)).toEqual(await archiveOf(SMALL))
})

describe('a copy that is not what it says', () => {
  const [first, second, third] = totalsOf(SMALL) as [MadeUpTotals, MadeUpTotals, MadeUpTotals]
  type MadeUpTotals = ReturnType<typeof totalsOf>[number]
  const write = (changed: Partial<TenantCopy>) => bytesOf(archived({ ...copyOf(SMALL), ...changed }, SUBJECT))

  test.each([
    ['other bytes', [first, { ...second, bytes: 1 }, third]],
    ['another order', [second, first, third]],
    ['another name', [first, { ...second, name: 'orders' }, third]],
    ['a table less', [first, second]],
    ['a table more', [first, second, third, third]],
  ])('by %s in its totals is not made an archive of', async (_, totals) => {
    await expect(write({ totals: async () => totals })).rejects.toThrow(/not what the copy says|are totals of/)
  })

  test.each([
    ['one less', SMALL.slice(0, 2), 'there are totals'],
    ['one more', [...SMALL, table('more')], '"more" is not the one that was announced'],
    ['another order', SMALL.toReversed(), '"orders" is not the one that was announced'],
  ])('by %s among its tables is not, either', async (_, tables, message) => {
    await expect(write({ tables: copyOf(tables).tables })).rejects.toThrow(message)
  })

  test('is not begun when one could not read what it says of itself', async () => {
    let isStarted = false
    const sequences = Array.from({ length: 150_000 }, (_, number) => ({
      name: `a_sequence_with_quite_a_long_name_${number}`,
      lastValue: '1',
      isCalled: true,
    }))
    const copy = copyOf([], { sequences })
    const writing = archived({ ...copy, tables: () => startWriting() }, SUBJECT)
    async function* startWriting() {
      isStarted = true
      yield* copy.tables()
    }
    await expect(bytesOf(writing)).rejects.toThrow('too large')
    expect(isStarted).toBe(false)
  })
})

describe('one that is given up', () => {
  const noise = Array.from({ length: 64 }, () => randomBytes(MEBIBYTE / 8))
  let compressing: Gzip[] = []
  let open = 0

  beforeEach(() => {
    compressing = []
    open = 0
    const transform = Gzip.prototype._transform
    vi.spyOn(Gzip.prototype, '_transform').mockImplementation(function (this: Gzip, ...given) {
      if (!compressing.includes(this)) compressing.push(this)
      return transform.apply(this, given)
    })
  })

  /** A table of 8 MiB that cannot be compressed, so that it is in a file; `after` so many pieces it fails. */
  function large(failure?: Error, after = noise.length): TenantCopy {
    const copy = copyOf([
      { name: 'large', csv: noise },
      { name: 'another', csv: noise },
    ])
    async function* opened<T>(items: Iterable<T> | AsyncIterable<T>, until = Infinity) {
      open++
      try {
        let count = 0
        for await (const item of items) {
          if (count++ === until && failure) throw failure
          yield item
        }
      } finally {
        open--
      }
    }
    async function* tables() {
      for await (const { table, csv } of copy.tables()) yield { table, csv: opened(csv, after) }
    }
    return { ...copy, tables: () => opened(tables()) }
  }

  const leftOver = () => ({
    open,
    files: openSpools().length,
    compressing: compressing.filter((one) => !one.destroyed).length,
  })
  const NOTHING = { open: 0, files: 0, compressing: 0 }

  test.each([1, 2, 3, 10, 40])('after %d pieces leaves nothing open', async (pieces) => {
    let count = 0
    let most = 0
    for await (const _ of archived(large(), SUBJECT)) {
      most = Math.max(most, openSpools().length)
      if (++count === pieces) break
    }
    expect(count).toBe(pieces)
    expect(most).toBe(pieces > 1 ? 1 : 0)
    expect(compressing.length).toBeGreaterThan(0)
    expect(leftOver()).toEqual(NOTHING)
  })

  test.each([0, 1, 63])('because the copy fails after %d pieces fails so, and leaves nothing open', async (pieces) => {
    const failure = new Error('the connection is lost')
    await expect(bytesOf(archived(large(failure, pieces), SUBJECT))).rejects.toBe(failure)
    expect(leftOver()).toEqual(NOTHING)
  })

  test('or not, leaves nothing open', async () => {
    await bytesOf(archived(large(), SUBJECT))
    expect(compressing.length).toBeGreaterThan(2)
    expect(leftOver()).toEqual(NOTHING)
  })
})

test('no more is read than is asked for', async () => {
  const asked: string[] = []
  const copy = copyOf(SMALL)
  async function* tables() {
    for await (const one of copy.tables()) {
      asked.push(one.table.name)
      yield one
    }
  }
  const writing = archived({ ...copy, tables }, SUBJECT)
  await writing.next()
  expect(asked).toEqual([])
  await writing.next()
  expect(asked).toEqual(['customers'])
  await writing.return([])
})
