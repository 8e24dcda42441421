import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { expect, test } from 'vitest'
import { openSpools } from './archive.fixture.ts'
import { Spool } from './spool.ts'

const MEBIBYTE = 1024 * 1024

const inFolder = () => readdirSync(tmpdir()).filter((name) => name.startsWith(`tenantry-spool-${process.pid}-`))

async function filled(pieces: readonly Buffer[]): Promise<Spool> {
  const spool = new Spool()
  for (const piece of pieces) await spool.add(piece)
  return spool
}

test.each([
  ['nothing', []],
  ['a little', [10, 0, 5]],
  ['content that fits into memory', [4 * MEBIBYTE]],
  ['content one byte above the memory limit', [4 * MEBIBYTE, 1]],
  ['large content in chunks of any length', [3 * MEBIBYTE, 2 * MEBIBYTE, 7, 0, 1_000_001, 300_000]],
])('returns %s unchanged, twice', async (_, lengths) => {
  const pieces = lengths.map((length) => randomBytes(length))
  const spool = await filled(pieces)
  for (let round = 0; round < 2; round++) {
    expect(Buffer.concat(await Array.fromAsync(spool.read())).equals(Buffer.concat(pieces))).toBe(true)
  }
  await spool.close()
})

test('keeps small content in memory and large content in an unlinked file until it is closed', async () => {
  const before = openSpools().length
  const small = await filled([randomBytes(4 * MEBIBYTE)])
  expect(openSpools()).toHaveLength(before)
  const large = await filled([randomBytes(4 * MEBIBYTE), randomBytes(1)])
  expect(openSpools()).toHaveLength(before + 1)
  expect(openSpools().at(-1)).toMatch(/ \(deleted\)$/)
  expect(inFolder()).toEqual([])
  await small.close()
  await large.close()
  await large.close()
  expect(openSpools()).toHaveLength(before)
})
