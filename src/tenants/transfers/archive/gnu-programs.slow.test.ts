/** Archives of Tenantry, read by GNU tar and gzip. */
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { archiveOf, inPieces, type MadeUpTable, SMALL, SUBJECT, sumsOf, table, totalsOf } from './archive.fixture.ts'
import { member, members } from './gzip.ts'
import { entryHead, padding, TAR_END } from './tar-writing.ts'

const MEBIBYTE = 1024 * 1024
const mtime = new Date('2026-03-04T05:06:07.890Z')

test('tar lists names of any length with owner-only permissions and the given time', async () => {
  const names = ['archive.json', `data/${'x'.repeat(200)}.csv`]
  const content = Buffer.from('123')
  const parts: Uint8Array[] = []
  for (const name of names) {
    parts.push(await entryHead({ name, size: content.length, mtime }), content, padding(content.length))
  }
  const input = Buffer.concat([...parts, TAR_END])
  const listed = execFileSync('tar', ['tvf', '-', '--full-time', '--utc'], { input, encoding: 'utf8' })
  expect(listed.trim().split('\n')).toEqual(
    names.map((name) => expect.stringMatching(new RegExp(`^-rw-------.* 3 2026-03-04 05:06:07(\\.0+)? ${name}$`))),
  )
})

test('gzip decompresses several members as one text', async () => {
  const input = Buffer.concat([await member(Buffer.from('first ')), await member(Buffer.from('second'))])
  expect(execFileSync('gzip', ['-dc'], { input, encoding: 'utf8' })).toBe('first second')
})

test.each([1_000, 70_000, MEBIBYTE, 10 * MEBIBYTE])(
  'gzip decompresses a long text written in chunks of %d bytes',
  async (size) => {
    const long = Buffer.from(Array.from({ length: 400_000 }, (_, n) => `row ${n},`).join('')) // more than a few blocks
    const input = Buffer.concat(await Array.fromAsync(members(inPieces(long, size))))
    expect(execFileSync('gzip', ['-dc'], { input, maxBuffer: 20 * MEBIBYTE }).equals(long)).toBe(true)
  },
)

describe('GNU tar on an archive', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'tenantry-archive-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  const extract = (archive: Buffer) =>
    execFileSync('tar', ['xzf', '-'], { cwd: folder, input: archive, stdio: ['pipe', 'pipe', 'pipe'] })
  const read = (file: string) => readFileSync(join(folder, file))

  test('tar lists the files of an archive in order', async () => {
    const listed = execFileSync('tar', ['tzvf', '-', '--utc'], { input: await archiveOf(SMALL), encoding: 'utf8' })
    const lines = listed.trim().split('\n')
    expect(lines.map((line) => line.split(' ').at(-1))).toEqual([
      'archive.json',
      'data/customers.csv',
      'data/Order%20Lines.csv',
      'data/orders.csv',
      'manifest.json',
    ])
    for (const line of lines) expect(line).toMatch(/^-rw------- .* 2026-03-04 05:06 /)
  })

  test('tar extracts every byte of every table', async () => {
    const large: MadeUpTable = { name: 'large', csv: Array.from({ length: 90 }, () => randomBytes(100_000)) }
    const tables = [
      ...SMALL,
      large,
      table(`${'ü'.repeat(31)}x`, 'long name\n'),
      table('users', 'a'),
      table('USERS', 'b'),
    ]
    extract(await archiveOf(tables))
    const manifest = JSON.parse(String(read('manifest.json')))
    expect(manifest.tables.map(({ name }: { name: string }) => name)).toEqual(tables.map(({ name }) => name))
    for (const [index, { file }] of manifest.tables.entries()) {
      expect(read(file).equals(Buffer.concat(tables[index]?.csv ?? [])), file).toBe(true)
      expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600)
    }
    expect(readdirSync(join(folder, 'data'))).toHaveLength(tables.length)
  })

  test('tar extracts archive.json with the description and manifest.json with the totals', async () => {
    extract(await archiveOf(SMALL))
    const archive = JSON.parse(String(read('archive.json')))
    const columns = [{ name: 'id', type: 'character varying(20)' }]
    const [customers, lines, orders] = totalsOf(SMALL).map((totals, index) => ({ ...totals, ...sumsOf(SMALL)[index] }))
    expect(archive).toEqual({
      format: 1,
      program: 'tenantry',
      backupId: SUBJECT.backupId,
      tenantId: 'acme',
      createdAt: '2026-03-04T05:06:07.890Z',
      engine: 'postgres',
      isolation: 'schema-pg',
      migrations: [{ name: '0001_orders', checksum: 'a1' }],
      tables: [
        { name: 'customers', file: 'data/customers.csv', columns },
        { name: 'Order Lines', file: 'data/Order%20Lines.csv', columns },
        { name: 'orders', file: 'data/orders.csv', columns },
      ],
      sequences: [{ name: 'orders_id_seq', lastValue: '9223372036854775807', isCalled: true }],
    })
    expect(JSON.parse(String(read('manifest.json')))).toEqual({
      ...archive,
      tables: [
        { ...archive.tables[0], ...customers },
        { ...archive.tables[1], ...lines },
        { ...archive.tables[2], ...orders },
      ],
      archive: {
        bytes: read('archive.json').length,
        sha256: createHash('sha256').update(read('archive.json')).digest('hex'),
      },
    })
  })
})
