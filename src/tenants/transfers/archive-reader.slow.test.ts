import { expect, test } from 'vitest'
import { archiveOf, changeEachByte, changesOf, SMALL } from './archive.fixture.ts'

test('an archive with any one byte changed in any of four ways is refused, unless that changes nothing', async () => {
  const archive = await archiveOf(SMALL)
  const refusals = await changeEachByte(archive, (at) => changesOf(archive, at))
  expect(refusals).toBeGreaterThan(3.5 * archive.length)
}, 120_000)
