/**
 * What every driver for archives does, wherever it keeps them. `await archivesSuite('directory', open)` at the top level of a Vitest
 * file registers it.
 *
 * Vitest is loaded by the call and not by the import: `tenantry/testing` is also for those who test with something else.
 */
import { ArchiveMissing } from '../../tenants/transfers/archive/port.ts'
import type { ArchivesAbilities, ArchivesProof } from './proof.ts'
import { type ArchivesSubject, content, contentOf, listed, PART_BYTES, writing } from './subject.ts'
import { abandonedWrites, crashedWriters } from './suite-abandoned.ts'
import { memoryOfArchives } from './suite-memory.ts'
import { severalWriters } from './suite-writers.ts'

/** More than any pool of connections, or open files that would not be noticed. */
const READERS = 120
const NO_KEYS = [
  ...[
    '',
    'acme',
    'acme/',
    '/acme/x',
    '/x',
    './x',
    '../x',
    '../acme/x',
    'acme/..',
    'acme/.',
    'acme/../x',
    'acme/../../x',
  ],
  ...['acme/x/y', 'acme//x', 'acme/.hidden', 'acme/-x', 'acme/x y', 'acme/x\n', 'acme/x\0', 'acme/x\0.gz', 'acme\\x'],
  ...['Acme/x', 'acme/X', 'acme/ü', 'acme/%2e%2e', 'acme/x?y', 'acme/*', '_acme/x', `${'a'.repeat(49)}/x`],
  ...[`acme/${'x'.repeat(300)}`, 'acme/.partial', 'acme/x.a.partial.b.partial', 'C:/x', 'acme/x:y', 'acme/x/'],
]

/** @param open a subject for this suite alone; the suite closes it. */
export async function archivesSuite(
  name: string,
  open: () => Promise<ArchivesSubject>,
  abilities: ArchivesAbilities = {},
): Promise<void> {
  const vitest = await import('vitest')
  const { afterAll, beforeAll, beforeEach, describe, expect, test } = vitest
  const { parts = ['crash', 'memory', 'writers', 'rest'], partBytes: part = PART_BYTES } = abilities
  const sizes = [0, 1, 100, 65_536, (5 * part) / 8, part - 1, part, part + 1, 2 * part, 5 * part]

  describe(`the archives of ${name}`, () => {
    let proof: ArchivesProof
    beforeAll(async () => {
      const subject = await open()
      proof = { subject, archives: await subject.open() }
    }, 120_000)
    beforeEach(async () => {
      for (const { key } of await listed(proof.archives)) await proof.archives.delete(key)
    })
    afterAll(async () => {
      await proof?.subject.close()
    })

    if (parts.includes('memory')) memoryOfArchives(vitest, () => proof)
    if (parts.includes('crash') && (abilities.knowsPartial ?? true)) crashedWriters(vitest, () => proof)
    if (parts.includes('writers')) severalWriters(vitest, () => proof, abilities)
    if (!parts.includes('rest')) return

    describe('keep', () => {
      test.each(sizes)('%i bytes, as they were', async (bytes) => {
        const { archives, subject } = proof
        await writing(archives, 'acme/x.tar.gz', content(bytes), { estimatedBytes: bytes })
        const other = await subject.open()
        expect(await contentOf(other.read('acme/x.tar.gz'))).toEqual(await contentOf(content(bytes)))
        expect(await listed(other)).toEqual([
          { key: 'acme/x.tar.gz', isPartial: false, sizeBytes: bytes, modifiedAt: expect.any(Date) },
        ])
      })

      test('what comes in pieces of any size, also of none', async () => {
        const { archives } = proof
        const pieces = [0, 1, 0, (3 * part) / 8, (5 * part) / 2, 7, 0].map((length, index) =>
          Buffer.alloc(length, index),
        )
        const chunks = async function* () {
          for (const piece of pieces) yield new Uint8Array(piece.buffer, piece.byteOffset, piece.length)
        }
        await writing(archives, 'acme/x', chunks())
        expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(chunks()))
      })

      test('when it was put there', async () => {
        const { archives } = proof
        const before = Date.now()
        await writing(archives, 'acme/x', content(10))
        const [{ modifiedAt } = { modifiedAt: new Date(0) }] = await listed(archives)
        // Storage may count in whole seconds, on a clock that is not quite ours.
        expect(Math.abs(modifiedAt.getTime() - before)).toBeLessThan(60_000)
      })

      test('the last that was written under a key', async () => {
        const { archives } = proof
        for (const [seed, bytes] of [(5 * part) / 2, 10, part + 65_536, 0, (5 * part) / 4].entries()) {
          await writing(archives, 'acme/x', content(bytes, seed))
          expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(bytes, seed)))
          expect(await listed(archives)).toMatchObject([{ key: 'acme/x', sizeBytes: bytes }])
        }
      })

      test('those of each tenant apart, under the same name and under names that begin alike', async () => {
        const { archives } = proof
        const keys = ['a/x.tar.gz', 'a/x.tar.gz.sealed', 'a/x.tar', 'a-b/x.tar.gz', 'ab/x.tar.gz', '0/x.tar.gz']
        for (const [seed, key] of keys.entries()) await writing(archives, key, content(1_000, seed))
        await archives.delete('a/x.tar.gz')
        await archives.delete('a/x')
        await archives.delete('a/x.tar.g')
        const left = keys.slice(1)
        expect((await listed(archives)).map(({ key }) => key)).toEqual(left.toSorted())
        for (const key of left) {
          expect(await contentOf(archives.read(key))).toEqual(await contentOf(content(1_000, keys.indexOf(key))))
        }
      })
    })

    describe('when there is nothing under a key', () => {
      const missing = expect.objectContaining({ code: ArchiveMissing.code, status: 409 })

      test('say so at the first chunk', async () => {
        const { archives } = proof
        await writing(archives, 'acme/y', content(1))
        for (const key of ['acme/x', 'nobody/x']) {
          const chunks = archives.read(key)[Symbol.asyncIterator]()
          await expect(chunks.next()).rejects.toEqual(missing)
        }
      })

      test('as after a deletion, which may be repeated', async () => {
        const { archives, subject } = proof
        await archives.delete('acme/x')
        await writing(archives, 'acme/x', content((5 * part) / 4))
        const other = await subject.open()
        await Promise.all([archives.delete('acme/x'), other.delete('acme/x'), archives.delete('acme/x')])
        await archives.delete('acme/x')
        await expect(contentOf(other.read('acme/x'))).rejects.toEqual(missing)
        expect(await listed(archives)).toEqual([])
        await writing(archives, 'acme/x', content(5))
        expect(await contentOf(archives.read('acme/x'))).toMatchObject({ bytes: 5 })
      })
    })

    test('let go of an archive whose reader stops early', async () => {
      const { archives } = proof
      await writing(archives, 'acme/x', content((5 * part) / 2))
      for (let reader = 0; reader < READERS; reader++) {
        for await (const chunk of archives.read('acme/x')) {
          expect(chunk.length).toBeGreaterThan(0)
          break
        }
      }
      expect(await contentOf(archives.read('acme/x'))).toMatchObject({ bytes: (5 * part) / 2 })
    }, 60_000)

    test('refuse what is no key, before anything is asked', async () => {
      const { archives } = proof
      let isAsked = false
      const chunks = async function* () {
        isAsked = true
        yield Buffer.from('x')
      }
      for (const key of NO_KEYS) {
        await expect(writing(archives, key, chunks()), key).rejects.toThrow('not a key')
        await expect(contentOf(archives.read(key)), key).rejects.toThrow('not a key')
        await expect(archives.delete(key), key).rejects.toThrow('not a key')
      }
      expect(isAsked).toBe(false)
      expect(await listed(archives)).toEqual([])
    })

    test('are neither written nor read under the key of what is partial', async () => {
      const { archives } = proof
      const key = 'acme/x.0123456789abcdef.partial'
      await expect(writing(archives, key, content(1))).rejects.toThrow('key')
      await expect(contentOf(archives.read(key))).rejects.toThrow('key')
      expect(await listed(archives)).toEqual([])
    })

    abandonedWrites(vitest, () => proof, abilities)
  })
}
