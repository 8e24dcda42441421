/**
 * Test suite of all archive drivers.
 *
 * Vitest is loaded by the call, not by the import: `tenantry/testing` also serves projects with another test runner.
 */
import { ArchiveMissing } from '../../tenants/transfers/archive/port.ts'
import type { ArchivesAbilities, ArchivesProof } from './proof.ts'
import { type ArchivesSubject, content, contentOf, listed, PART_BYTES, writing } from './subject.ts'
import { abandonedWrites, crashedWriters } from './suite-abandoned.ts'
import { memoryOfArchives } from './suite-memory.ts'
import { severalWriters } from './suite-writers.ts'

/** More than any connection pool has, and enough to detect leaked file descriptors. */
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

/**
 * Registers the tests of archive drivers in a Vitest file. Call it at the top level.
 *
 * @param open creates a subject for this suite; the suite closes it.
 * @param abilities limits of the storage; tests that need a missing ability are not registered.
 * @example
 * await archivesSuite('directory', async () => {
 *   const path = await mkdtemp(join(tmpdir(), 'archives-'))
 *   return { open: async () => directoryArchives({ path }), close: () => rm(path, { recursive: true }) }
 * })
 */
export async function archivesSuite(
  name: string,
  open: () => Promise<ArchivesSubject>,
  abilities: ArchivesAbilities = {},
): Promise<void> {
  const vitest = await import('vitest')
  const { afterAll, beforeAll, beforeEach, describe, expect, test } = vitest
  const { parts = ['crash', 'memory', 'writers', 'rest'], partBytes: part = PART_BYTES } = abilities
  const sizes = [0, 1, 100, 65_536, (5 * part) / 8, part - 1, part, part + 1, 2 * part, 5 * part]

  describe(`archive driver ${name}`, () => {
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

    describe('stored archives', () => {
      test.each(sizes)('an archive of %i bytes is read as it was written', async (bytes) => {
        const { archives, subject } = proof
        await writing(archives, 'acme/x.tar.gz', content(bytes), { estimatedBytes: bytes })
        const other = await subject.open()
        expect(await contentOf(other.read('acme/x.tar.gz'))).toEqual(await contentOf(content(bytes)))
        expect(await listed(other)).toEqual([
          { key: 'acme/x.tar.gz', isPartial: false, sizeBytes: bytes, modifiedAt: expect.any(Date) },
        ])
      })

      test('chunks of any size, including empty ones, are stored in order', async () => {
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

      test('the list has the time of the write', async () => {
        const { archives } = proof
        const before = Date.now()
        await writing(archives, 'acme/x', content(10))
        const [{ modifiedAt } = { modifiedAt: new Date(0) }] = await listed(archives)
        // The storage may count in whole seconds, with another clock.
        expect(Math.abs(modifiedAt.getTime() - before)).toBeLessThan(60_000)
      })

      test('a second write replaces the archive of a key', async () => {
        const { archives } = proof
        for (const [seed, bytes] of [(5 * part) / 2, 10, part + 65_536, 0, (5 * part) / 4].entries()) {
          await writing(archives, 'acme/x', content(bytes, seed))
          expect(await contentOf(archives.read('acme/x'))).toEqual(await contentOf(content(bytes, seed)))
          expect(await listed(archives)).toMatchObject([{ key: 'acme/x', sizeBytes: bytes }])
        }
      })

      test('archives of tenants with equal names or common prefixes stay separate', async () => {
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

    describe('missing archives', () => {
      const missing = expect.objectContaining({ code: ArchiveMissing.code, status: 409 })

      test('reading a missing archive fails at the first chunk', async () => {
        const { archives } = proof
        await writing(archives, 'acme/y', content(1))
        for (const key of ['acme/x', 'unknown/x']) {
          const chunks = archives.read(key)[Symbol.asyncIterator]()
          await expect(chunks.next()).rejects.toEqual(missing)
        }
      })

      test('reading a deleted archive fails, and deleting it again succeeds', async () => {
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

    test('an erasure removes all archives of exactly one tenant', async () => {
      const { archives } = proof
      for (const key of ['acme/x', 'acme/y.tar.gz', 'acme2/x', 'acm/x']) await writing(archives, key, content(10))
      expect(await archives.count('acme')).toEqual({ objects: 2, versions: 0 })
      await archives.erase('acme')
      await archives.erase('acme')
      expect(await archives.count('acme')).toEqual({ objects: 0, versions: 0 })
      expect((await listed(archives)).map(({ key }) => key)).toEqual(['acm/x', 'acme2/x'])
      await archives.erase('unknown')
      await expect(archives.count('../acme')).rejects.toThrow('not a key')
      await expect(archives.erase('..')).rejects.toThrow('not a key')
    })

    test('a reader that stops early releases the archive', async () => {
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

    test('an invalid key is rejected before any access to the storage', async () => {
      const { archives } = proof
      let isRead = false
      const chunks = async function* () {
        isRead = true
        yield Buffer.from('x')
      }
      for (const key of NO_KEYS) {
        await expect(writing(archives, key, chunks()), key).rejects.toThrow('not a key')
        await expect(contentOf(archives.read(key)), key).rejects.toThrow('not a key')
        await expect(archives.delete(key), key).rejects.toThrow('not a key')
      }
      expect(isRead).toBe(false)
      expect(await listed(archives)).toEqual([])
    })

    test('the key of a partial archive is rejected for writing and reading', async () => {
      const { archives } = proof
      const key = 'acme/x.0123456789abcdef.partial'
      await expect(writing(archives, key, content(1))).rejects.toThrow('key')
      await expect(contentOf(archives.read(key))).rejects.toThrow('key')
      expect(await listed(archives)).toEqual([])
    })

    abandonedWrites(vitest, () => proof, abilities)
  })
}
