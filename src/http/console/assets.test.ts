/** Encodings of the files of the console. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { assetFile } from './assets.ts'

const CONTENT = 'export const answer = 42\n'
const NAME = 'main-a1b2c3d4.js'

const folder = mkdtempSync(join(tmpdir(), 'console-assets-'))
writeFileSync(join(folder, `${NAME}.br`), brotliCompressSync(CONTENT))
afterAll(() => rmSync(folder, { recursive: true }))

const DECODERS = { br: brotliDecompressSync, gzip: gunzipSync, identity: (body: Buffer) => body }

test.each<[string, keyof typeof DECODERS]>([
  ['', 'identity'],
  ['deflate', 'identity'],
  ['gzip, deflate, br', 'br'],
  ['gzip, deflate', 'gzip'],
  ['GZIP', 'gzip'],
  ['br; q=1.0, gzip', 'br'],
  ['br;q=0.5', 'br'],
  ['br;q=0, gzip', 'gzip'],
  ['br;q=0, gzip;q=0.0', 'identity'],
  ['br ; q=0.000, gzip; Q=0.001', 'gzip'],
  ['br;q=many', 'identity'],
])('Accept-Encoding "%s" gets a file with the encoding %s', async (accepted, encoding) => {
  const index = {} as Parameters<typeof assetFile>[0]['index']
  const file = await assetFile({ folder, index }, NAME, accepted)
  expect(file?.headers['content-encoding'] ?? 'identity').toBe(encoding)
  expect(DECODERS[encoding](file?.body ?? Buffer.alloc(0)).toString()).toBe(CONTENT)
})

test('a name outside of the folder or without a hash has no file', async () => {
  const index = {} as Parameters<typeof assetFile>[0]['index']
  for (const name of [`../${NAME}`, 'main.js', 'main-a1b2c3d5.js', 'index.json']) {
    expect(await assetFile({ folder, index }, name, 'br')).toBeUndefined()
  }
})
