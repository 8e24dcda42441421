/**
 * Group of `archivesSuite`: concurrent writers of one key, in several processes. Exactly one of the archives is kept,
 * complete.
 */

import type { Vitest } from '../base/vitest.ts'
import type { ArchivesAbilities, ArchivesProof } from './proof.ts'
import { blockedUntil, content, contentOf, listed, MB, writing } from './subject.ts'

const WRITERS = [1, 2, 3, 4]
/** Some sizes fit into one part, some do not. */
const sizeOf = (seed: number): number => seed * 6 * MB

export function severalWriters(
  { describe, expect, test }: Vitest,
  proof: () => ArchivesProof,
  { replacesAtOnce = true }: ArchivesAbilities,
): void {
  describe('with several writers of one key', () => {
    test('the write that ends last wins, regardless of the start', async () => {
      const { archives, subject } = proof()
      const gate = Promise.withResolvers<void>()
      const slow = writing(await subject.open(), 'acme/x', blockedUntil(20 * MB, gate.promise, 1))
      await writing(archives, 'acme/x', content(10 * MB, 2))
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(10 * MB, 2)))
      gate.resolve()
      await slow
      expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(20 * MB, 1)))
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false, sizeBytes: 20 * MB }])
    })

    if (!replacesAtOnce) return

    test('readers get one complete archive of concurrent writers, never a mixture', async () => {
      const { archives, subject } = proof()
      const possible = await Promise.all(WRITERS.map((seed) => contentOf(content(sizeOf(seed), seed))))
      await writing(archives, 'acme/x', content(sizeOf(1), 1))
      let areWriting = true
      const written = Promise.all(
        WRITERS.map(async (seed) => {
          const own = await subject.open()
          for (let round = 0; round < 3; round++) await writing(own, 'acme/x', content(sizeOf(seed), seed))
        }),
      ).finally(() => {
        areWriting = false
      })
      const read = [await contentOf(archives.read('acme/x'))]
      while (areWriting) read.push(await contentOf(archives.read('acme/x')))
      await written
      read.push(await contentOf(archives.read('acme/x')))
      for (const one of read) expect(possible).toContainEqual(one)
      expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false }])
    }, 90_000)

    test('concurrent writers of different keys do not affect each other', async () => {
      const { archives } = proof()
      const keys = ['a/x', 'a/y', 'b/x', 'b/y']
      await Promise.all(keys.map((key, seed) => writing(archives, key, content(10 * MB, seed))))
      for (const [seed, key] of keys.entries()) {
        expect(await contentOf(archives.read(key))).toEqual(await contentOf(content(10 * MB, seed)))
      }
    })
  })
}
