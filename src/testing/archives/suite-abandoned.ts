/** Group of `archivesSuite`: incomplete archives are never readable, and are listed as partial or removed. */

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
  describe('incomplete writes of archives', () => {
    test.each([0, 10, more, (7 * part) / 2])('an aborted write leaves nothing after %i bytes', async (bytes) => {
      const { archives } = proof()
      const abort = new AbortController()
      const reason = new Error('no longer needed')
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
      expect(hasReturned).toBe(false) // the source waits forever; the write does not wait for the source
    })

    test('an aborted write returns its running source and leaves nothing', async () => {
      const { archives } = proof()
      const abort = new AbortController()
      const reason = new Error('no longer needed')
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

    test('a write that is aborted before its start leaves nothing and does not read its source', async () => {
      const { archives } = proof()
      let isRead = false
      const chunks = async function* () {
        isRead = true
        yield Buffer.from('x')
      }
      const signal = AbortSignal.abort(new Error('too late'))
      await expect(writing(archives, 'acme/x', chunks(), { signal })).rejects.toBe(signal.reason)
      expect(isRead).toBe(false)
      expect(await listed(archives)).toEqual([])
    })

    test.each([0, 10, more, (7 * part) / 2])(
      'a write whose source fails after %i bytes leaves nothing and rejects with that error',
      async (bytes) => {
        const { archives } = proof()
        const failure = new Error('the database connection was lost')
        const written = writing(archives, 'acme/x', failing(bytes, failure))
        await expect(written).rejects.toBe(failure)
        expect(await listed(archives)).toEqual([])
      },
    )

    test('a failed write keeps the previous archive of the key', async () => {
      const { archives } = proof()
      await writing(archives, 'acme/x', content(more, 1))
      const failure = new Error('source failed')
      await expect(writing(archives, 'acme/x', failing(several, failure, 2))).rejects.toThrow('source failed')
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(more, 1)))
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
    })
  })

  if (!knowsPartial) return

  describe('partial archives', () => {
    /** Large enough that a driver that writes in parts has sent the first part. */
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

    test('a partial archive is listed under a separate key until it is complete', async () => {
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

    test('deleting the key of a partial archive does not affect another writer', async () => {
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

    test('deleting a missing partial archive succeeds', async () => {
      const { archives } = proof()
      for (const which of ['0123456789abcdef', 'bm9uZQ']) await archives.delete(`acme/x.${which}.partial`)
      expect(await listed(archives)).toEqual([])
    })

    test('deleting a key removes its partial archive and fails the writer', async () => {
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
  test('the archive of a killed process is listed as partial and is not readable', async () => {
    const { archives, subject } = proof()
    if (!subject.crash) throw new Error('this subject cannot simulate a killed process')
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
