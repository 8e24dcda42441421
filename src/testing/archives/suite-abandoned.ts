/** Archives that never became whole: nothing of them is read, and nothing stays that is not told as partial. */

import { eventually } from '../base/tenancy.ts'
import type { Vitest } from '../base/vitest.ts'
import type { ArchivesAbilities, ArchivesProof } from './proof.ts'
import { blockedUntil, content, contentOf, failing, listed, PART_BYTES, writing } from './subject.ts'

const STAYS_CLOSED = new Promise<void>(() => undefined)

export function abandonedWrites(
  { describe, expect, test }: Vitest,
  proof: () => ArchivesProof,
  { knowsPartial = true, partBytes: part = PART_BYTES }: ArchivesAbilities,
): void {
  const [more, several] = [(5 * part) / 4, (5 * part) / 2]
  describe('leave nothing behind', () => {
    test.each([0, 10, more, (7 * part) / 2])('of a write that was aborted after %i bytes', async (bytes) => {
      const { archives } = proof()
      const abort = new AbortController()
      const reason = new Error('not needed any more')
      const reached = Promise.withResolvers<void>()
      let hasReturned = false
      const chunks = async function* () {
        try {
          yield* content(bytes)
          reached.resolve()
          await STAYS_CLOSED
        } finally {
          hasReturned = true
        }
      }
      const written = writing(archives, 'acme/x', chunks(), { signal: abort.signal })
      await reached.promise
      abort.abort(reason)
      await expect(written).rejects.toBe(reason)
      expect(await listed(archives)).toEqual([])
      await expect(contentOf(archives.read('acme/x'))).rejects.toMatchObject({ code: 'E_ARCHIVE_MISSING' })
      expect(hasReturned).toBe(false) // it waits for what never comes, and nobody waits for it
    })

    test('of a write that was aborted while its source went on: that is told to return', async () => {
      const { archives } = proof()
      const abort = new AbortController()
      const reason = new Error('not needed any more')
      let hasReturned = false
      const chunks = async function* () {
        try {
          for (let round = 0; ; round++) {
            if (round === 2) abort.abort(reason)
            yield* content(more, round)
          }
        } finally {
          hasReturned = true
        }
      }
      await expect(writing(archives, 'acme/x', chunks(), { signal: abort.signal })).rejects.toBe(reason)
      await eventually(() => expect(hasReturned).toBe(true))
      expect(await listed(archives)).toEqual([])
    })

    test('of a write that was aborted before it began: its source is not asked', async () => {
      const { archives } = proof()
      let isAsked = false
      const chunks = async function* () {
        isAsked = true
        yield Buffer.from('x')
      }
      const signal = AbortSignal.abort(new Error('too late'))
      await expect(writing(archives, 'acme/x', chunks(), { signal })).rejects.toBe(signal.reason)
      expect(isAsked).toBe(false)
      expect(await listed(archives)).toEqual([])
    })

    test.each([0, 10, more, (7 * part) / 2])(
      'of a source that fails after %i bytes, and pass on its failure',
      async (bytes) => {
        const { archives } = proof()
        const failure = new Error('the connection to the database is gone')
        const written = writing(archives, 'acme/x', failing(bytes, failure))
        await expect(written).rejects.toBe(failure)
        expect(await listed(archives)).toEqual([])
      },
    )

    test('and what was there before is there still', async () => {
      const { archives } = proof()
      await writing(archives, 'acme/x', content(more, 1))
      const failure = new Error('given up')
      await expect(writing(archives, 'acme/x', failing(several, failure, 2))).rejects.toThrow('given up')
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(more, 1)))
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
    })
  })

  if (!knowsPartial) return

  describe('what is partial', () => {
    /** Large enough to have been begun where archives go in parts. */
    async function startWriting(key: string, seed = 0) {
      const { subject } = proof()
      const gate = Promise.withResolvers<void>()
      const before = await listed(proof().archives)
      const written = writing(await subject.open(), key, blockedUntil(several, gate.promise, seed))
      written.catch(() => undefined)
      const own = await eventually(async () => {
        const found = (await listed(proof().archives)).filter((one) => before.every((other) => other.key !== one.key))
        expect(found).toHaveLength(1)
        return found[0]?.key ?? ''
      })
      return { own, end: gate.resolve, written }
    }

    test('is listed as such, under a key of its own, until it is whole', async () => {
      const { archives } = proof()
      const { own, end, written } = await startWriting('acme/x')
      expect(own).toMatch(/^acme\/x\.[A-Za-z0-9_-]+\.partial$/)
      expect(await listed(archives)).toEqual([
        { key: own, isPartial: true, sizeBytes: expect.any(Number), modifiedAt: expect.any(Date) },
      ])
      const [{ modifiedAt } = { modifiedAt: new Date(0) }] = await listed(archives)
      expect(Math.abs(modifiedAt.getTime() - Date.now())).toBeLessThan(60_000)
      await expect(contentOf(archives.read('acme/x'))).rejects.toMatchObject({ code: 'E_ARCHIVE_MISSING' })
      end()
      await written
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false, sizeBytes: several }])
    })

    test('is removed by its own key, and that of no other writer', async () => {
      const { archives } = proof()
      await writing(archives, 'acme/x', content(10, 1))
      const first = await startWriting('acme/x', 2)
      const second = await startWriting('acme/x', 3)
      await archives.delete(first.own)
      await archives.delete(first.own)
      expect((await listed(archives)).map(({ key }) => key).toSorted()).toEqual(['acme/x', second.own].toSorted())
      first.end()
      await expect(first.written).rejects.toThrow()
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10, 1)))
      second.end()
      await second.written
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(several, 3)))
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
    })

    test('may be gone already when it is removed', async () => {
      const { archives } = proof()
      for (const which of ['0123456789abcdef', 'bm9uZQ']) await archives.delete(`acme/x.${which}.partial`)
      expect(await listed(archives)).toEqual([])
    })

    test('is removed with the key that it was for, and its writer fails', async () => {
      const { archives } = proof()
      await writing(archives, 'acme/x', content(10))
      const writers = [await startWriting('acme/x'), await startWriting('acme/x')]
      const neighbour = await startWriting('acme/x.sealed')
      await archives.delete('acme/x')
      expect((await listed(archives)).map(({ key }) => key)).toEqual([neighbour.own])
      for (const { end, written } of writers) {
        end()
        await expect(written).rejects.toThrow()
      }
      neighbour.end()
      await neighbour.written
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x.sealed', isPartial: false }])
    })
  })
}

export function crashedWriters({ expect, test }: Vitest, proof: () => ArchivesProof): void {
  test('list what a killed process has written as partial, and never read it', async () => {
    const { archives, subject } = proof()
    if (!subject.crash) throw new Error('this subject cannot tell what a killed process leaves')
    await writing(archives, 'acme/x', content(10))
    await subject.crash('acme/x')
    await subject.crash('acme/y')
    const found = await listed(archives)
    expect(found.map(({ isPartial }) => isPartial)).toEqual([false, true, true])
    expect(await contentOf(archives.read('acme/x'))).toMatchObject({ bytes: 10 })
    await expect(contentOf(archives.read('acme/y'))).rejects.toMatchObject({ code: 'E_ARCHIVE_MISSING' })
    for (const { key, isPartial } of found) if (isPartial) await archives.delete(key)
    expect((await listed(archives)).map(({ key }) => key)).toEqual(['acme/x'])
  }, 60_000)
}
