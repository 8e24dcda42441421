/** Group of `archivesSuite`: memory in use while large archives are written and read. */

import type { Vitest } from '../base/vitest.ts'
import type { ArchivesProof } from './proof.ts'
import { bufferedBytes, content, contentOf, MB, writing } from './subject.ts'

const LARGE = 160 * MB
const HELD_AT_MOST = 96 * MB
const GAUGED_EVERY = 16 * MB

export function memoryOfArchives({ expect, test }: Vitest, proof: () => ArchivesProof): void {
  test('writing and reading a large archive buffers only the parts in flight', async () => {
    const { archives } = proof()
    const before = bufferedBytes()
    let [most, next] = [0, 0]
    const gauged = async function* (chunks: AsyncIterable<Uint8Array>) {
      let bytes = 0
      for await (const chunk of chunks) {
        bytes += chunk.length
        if (bytes > next) {
          next += GAUGED_EVERY
          most = Math.max(most, bufferedBytes() - before)
        }
        yield chunk
      }
    }
    await writing(archives, 'acme/large', gauged(content(LARGE)))
    next = 0
    const read = await contentOf(gauged(archives.read('acme/large')))
    expect(read).toEqual(await contentOf(content(LARGE)))
    expect(most).toBeLessThan(HELD_AT_MOST)
  }, 120_000)
}
