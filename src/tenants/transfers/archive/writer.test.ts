import { randomBytes } from 'node:crypto'
import { Gzip } from 'node:zlib'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { TenantCopy } from '../../isolation/copy.ts'
import { archiveOf, bytesOf, copyOf, openSpools, SMALL, SUBJECT, table, totalsOf } from './archive.fixture.ts'
import { archived } from './writer.ts'

const MEBIBYTE = 1024 * 1024

test('returns the totals', async () => {
  const writing = archived(copyOf(SMALL), SUBJECT)
  let step = await writing.next()
  while (!step.done) step = await writing.next()
  expect(step.value).toEqual(totalsOf(SMALL))
})

test('writes the same archive for the same tenant and time', async () => {
  expect(await archiveOf(SMALL)).toEqual(await archiveOf(SMALL))
})

describe('writer on a copy that contradicts its description', () => {
  const [first, second, third] = totalsOf(SMALL) as [MadeUpTotals, MadeUpTotals, MadeUpTotals]
  type MadeUpTotals = ReturnType<typeof totalsOf>[number]
  const write = (changed: Partial<TenantCopy>) => bytesOf(archived({ ...copyOf(SMALL), ...changed }, SUBJECT))

  test.each([
    ['different bytes', [first, { ...second, bytes: 1 }, third]],
    ['a different order', [second, first, third]],
    ['a different name', [first, { ...second, name: 'orders' }, third]],
    ['a missing table', [first, second]],
    ['an additional table', [first, second, third, third]],
  ])('rejects a copy with %s in its totals', async (_, totals) => {
    await expect(write({ totals: async () => totals })).rejects.toThrow(/do not match the totals|returned totals of/)
  })

  test.each([
    ['a missing table', SMALL.slice(0, 2), 'returned totals of'],
    [
      'an additional table',
      [...SMALL, table('more')],
      'The copy returned the table "more" instead of the expected table',
    ],
    ['a different order', SMALL.toReversed(), 'The copy returned the table "orders" instead of the expected table'],
  ])('rejects a copy with %s among its tables', async (_, tables, message) => {
    await expect(write({ tables: copyOf(tables).tables })).rejects.toThrow(message)
  })

  test('rejects a description above the size limit of the reader before any read', async () => {
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

describe('abandoned writer', () => {
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

  /** A table of 8 MiB of incompressible bytes, which needs a file. Fails after `after` chunks. */
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

  test.each([1, 2, 3, 10, 40])('closes all resources when the reader stops after %d chunks', async (pieces) => {
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

  test.each([0, 1, 63])(
    'rejects with the error of a copy that fails after %d chunks, and closes all resources',
    async (pieces) => {
      const failure = new Error('the connection is lost')
      await expect(bytesOf(archived(large(failure, pieces), SUBJECT))).rejects.toBe(failure)
      expect(leftOver()).toEqual(NOTHING)
    },
  )

  test('closes all resources after a complete read', async () => {
    await bytesOf(archived(large(), SUBJECT))
    expect(compressing.length).toBeGreaterThan(2)
    expect(leftOver()).toEqual(NOTHING)
  })
})

test('reads no more of the copy than its reader requires', async () => {
  const requested: string[] = []
  const copy = copyOf(SMALL)
  async function* tables() {
    for await (const one of copy.tables()) {
      requested.push(one.table.name)
      yield one
    }
  }
  const writing = archived({ ...copy, tables }, SUBJECT)
  await writing.next()
  expect(requested).toEqual([])
  await writing.next()
  expect(requested).toEqual(['customers'])
  await writing.return([])
})
