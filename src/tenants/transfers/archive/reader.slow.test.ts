import { expect, test } from 'vitest'
import { archiveOf, changeEachByte, changesOf, cutShort, SMALL } from './archive.fixture.ts'

test('an archive with any one byte changed in any of four ways is refused, unless that changes nothing', async () => {
  const archive = await archiveOf(SMALL)
  const refusals = await changeEachByte(archive, (at) => changesOf(archive, at))
  expect(refusals).toBeGreaterThan(3.5 * archive.length)
}, 120_000)

test('an archive that is cut short after any of its bytes is refused', async () => {
  await cutShort(await archiveOf(SMALL))
}, 120_000)
