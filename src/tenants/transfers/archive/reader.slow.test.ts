import { expect, test } from 'vitest'
import { archiveOf, changeEachByte, changesOf, cutShort, SMALL } from './archive.fixture.ts'

test('rejects an archive with any one byte changed in any of four ways, unless the content is unchanged', async () => {
  const archive = await archiveOf(SMALL)
  const refusals = await changeEachByte(archive, (at) => changesOf(archive, at))
  expect(refusals).toBeGreaterThan(3.5 * archive.length)
})

test('rejects an archive that is truncated after any byte', async () => {
  await cutShort(await archiveOf(SMALL))
})
