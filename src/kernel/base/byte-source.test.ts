import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ByteSource } from './byte-source.ts'

const pieces = fc.array(fc.uint8Array({ maxLength: 8 }), { maxLength: 8 })

/** The pieces, and whether they were let go of. */
function watched(chunks: readonly Uint8Array[], failure?: Error) {
  const seen = { given: 0, isClosed: false }
  async function* source() {
    try {
      for (const chunk of chunks) {
        seen.given++
        yield chunk
      }
      if (failure) throw failure
    } finally {
      seen.isClosed = true
    }
  }
  return { seen, source: new ByteSource(source()) }
}

test('exactly returns the requested number of bytes, regardless of the chunks', async () => {
  await fc.assert(
    fc.asyncProperty(pieces, fc.array(fc.nat(10), { maxLength: 12 }), async (chunks, counts) => {
      const { source, seen } = watched(chunks)
      let rest = Buffer.concat(chunks)
      for (const count of counts) {
        expect(await source.peek(count)).toEqual(rest.subarray(0, count))
        expect(await source.exactly(count)).toEqual(rest.subarray(0, count))
        rest = rest.subarray(count)
        expect(await source.hasMore()).toBe(rest.length > 0)
      }
      const left: Buffer[] = []
      for await (const piece of source.rest()) left.push(piece)
      expect(Buffer.concat(left)).toEqual(rest)
      expect(seen.isClosed).toBe(true)
    }),
  )
})

test('take returns at most the requested bytes, as a view of the chunk', async () => {
  const chunk = Buffer.from('abcdef')
  const { source } = watched([chunk])
  expect(String(await source.take(4))).toBe('abcd')
  const last = await source.take(4)
  expect(String(last)).toBe('ef')
  expect(last?.buffer).toBe(chunk.buffer)
  expect(await source.take(4)).toBeUndefined()
})

describe('the source of a ByteSource', () => {
  test('is read no further than needed', async () => {
    const { source, seen } = watched([Buffer.from('ab'), Buffer.from('cd')])
    await source.exactly(2)
    expect(seen).toEqual({ given: 1, isClosed: false })
  })

  test('is closed once before its end, and is not read again', async () => {
    const { source, seen } = watched([Buffer.from('ab'), Buffer.from('cd')])
    await source.exactly(1)
    await source.close()
    await source.close()
    expect(seen.isClosed).toBe(true)
    await expect(source.take(1)).rejects.toThrow('after the source was closed')
  })

  test('is closed when a reader of `rest` stops', async () => {
    const { source, seen } = watched([Buffer.from('ab'), Buffer.from('cd')])
    for await (const _ of source.rest()) break
    expect(seen).toEqual({ given: 1, isClosed: true })
  })

  test('passes its error unchanged', async () => {
    const failure = new Error('the network is gone')
    const { source } = watched([Buffer.from('ab')], failure)
    await expect(source.exactly(3)).rejects.toBe(failure)
  })
})
