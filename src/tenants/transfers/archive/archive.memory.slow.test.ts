/** Peak memory of the writer and the reader: 256 MiB of rows take no more than 16 MiB. */
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { TenantCopy } from '../../isolation/copy.ts'
import { DESCRIPTION, SUBJECT } from './archive.fixture.ts'
import { readArchive } from './reader.ts'
import { archived } from './writer.ts'

const MEBIBYTE = 1024 * 1024
const PIECE_BYTES = 64 * 1024
/** Bytes between two memory samples. */
const STEP_BYTES = 8 * MEBIBYTE

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Longer than the window of gzip, so that no chunk compresses against an earlier one. */
const PIECES = Array.from({ length: 16 }, (_, piece) => {
  let text = ''
  for (let row = 0; text.length < PIECE_BYTES; row++) {
    const noise = Math.imul(piece * 1_000 + row, 2_654_435_761) >>> 0
    text += `${piece},${row},customer ${noise},2026-03-04 05:06:07+00,some text of a note,${noise.toString(36)}\n`
  }
  return Buffer.from(text.slice(0, PIECE_BYTES))
})

async function memory() {
  // V8 frees array buffers in a separate thread.
  for (let round = 0; round < 2; round++) {
    collectGarbage()
    await setImmediate()
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  return { held: heapUsed + external, rss }
}

/** Writes and reads an archive of one table. Returns the peak memory. */
async function passedThrough(tableBytes: number) {
  const most = { held: 0, rss: 0 }
  const look = async (bytes: number) => {
    if (bytes % STEP_BYTES >= PIECE_BYTES) return
    const { held, rss } = await memory()
    most.held = Math.max(most.held, held)
    most.rss = Math.max(most.rss, rss)
  }
  async function* csv() {
    for (let given = 0; given < tableBytes; given += PIECE_BYTES) {
      const piece = PIECES[(given / PIECE_BYTES) % PIECES.length] ?? Buffer.alloc(0)
      await look(given)
      yield piece
    }
  }
  const table = { name: 'large', columns: [{ name: 'id', type: 'text' }] }
  const copy: TenantCopy = {
    description: { ...DESCRIPTION, tables: [table] },
    estimatedRows: undefined,
    async *tables() {
      yield { table, csv: csv() }
    },
    totals: async () => [{ name: 'large', rows: 1, bytes: tableBytes }],
  }
  let written = 0
  async function* counted() {
    for await (const piece of archived(copy, SUBJECT)) {
      written += piece.length
      yield piece
    }
  }

  const archive = await readArchive(counted(), SUBJECT)
  let read = 0
  for await (const { csv } of archive.tables()) {
    for await (const piece of csv) {
      read += piece.length
      await look(read)
    }
  }
  expect(await archive.totals()).toMatchObject([{ bytes: tableBytes }])
  expect(read).toBe(tableBytes)
  expect(written).toBeGreaterThan(tableBytes / 8)
  return most
}

test('writes and reads an archive of any size in constant memory', async () => {
  const small = await passedThrough(16 * MEBIBYTE)
  const large = await passedThrough(256 * MEBIBYTE)
  expect(large.held - small.held).toBeLessThan(8 * MEBIBYTE)
  expect(large.rss - small.rss).toBeLessThan(128 * MEBIBYTE)
})
