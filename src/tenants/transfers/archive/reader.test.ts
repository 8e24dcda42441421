import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { once } from '../../../kernel/base/once.ts'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import type { CopyDescription, TableCopy } from '../../isolation/copy.ts'
import {
  archiveOf,
  bytesOf,
  changeEachByte,
  changesOf,
  copyOf,
  cutShort,
  type ForgedEntry,
  forged,
  inPieces,
  readAll,
  SMALL,
  SUBJECT,
  sumsOf,
  table,
  totalsOf,
  unpacked,
} from './archive.fixture.ts'
import { member } from './gzip.ts'
import { type ArchiveCopy, readArchive } from './reader.ts'
import { archived } from './writer.ts'

const incompatible = (message: string) => ({ code: 'E_BACKUP_INCOMPATIBLE', message: expect.stringContaining(message) })

describe('round trip of an archive', () => {
  const character = fc.constantFrom('a', 'A', 'z', 'é', '/', '\\', '.', '-', '"', "'", ' ', '%', '~', '日', '😀')
  const name = fc.oneof(
    fc.string({ unit: character, minLength: 1, maxLength: 20 }),
    fc.string({ minLength: 1, maxLength: 63 }),
    fc.constantFrom('users', 'Users', 'USERS', 'x'.repeat(63), '日'.repeat(21), '..', '../../x', 'manifest.json'),
  )
  const text = fc.string({ minLength: 1 })
  const column = fc.record({ name: text, type: text })
  const madeUp = fc.record({
    name,
    columns: fc.array(column, { maxLength: 3 }),
    csv: fc.array(fc.uint8Array({ maxLength: 2_000 }), { maxLength: 4 }),
    rows: fc.nat(),
  })
  const described = fc.record({
    engine: fc.constant('postgres' as const),
    isolation: text,
    migrations: fc.array(fc.record({ name: fc.string(), checksum: fc.string() })),
    sequences: fc.array(
      fc.record({
        name: text,
        lastValue: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
        isCalled: fc.boolean(),
      }),
    ),
  })
  const tables = fc.oneof(
    fc.uniqueArray(madeUp, { selector: (one) => one.name, maxLength: 6 }),
    fc.uniqueArray(madeUp, { selector: (one) => one.name, minLength: 20, maxLength: 30 }),
  )
  const subject = fc.record({
    tenantId: fc.string(),
    backupId: fc.string(),
    createdAt: fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }),
  })

  test('returns any copy unchanged at any chunk size', async () => {
    const size = fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 100, max: 100_000 }))
    await fc.assert(
      fc.asyncProperty(tables, described, subject, size, async (tables, described, subject, size) => {
        const description: CopyDescription = {
          ...described,
          tables: tables.map(({ name, columns }) => ({ name, columns })),
        }
        const archive = await bytesOf(archived(copyOf(tables, description), subject))
        const read = await readAll(inPieces(archive, size), subject)
        expect(read.description).toEqual(description)
        expect(read.contents).toEqual(tables.map(({ csv }) => Buffer.concat(csv)))
        expect(read.totals).toEqual(totalsOf(tables))
      }),
      { numRuns: 25 },
    )
  })

  test('the read copy can be archived again', async () => {
    const archive = await archiveOf(SMALL)
    expect(await bytesOf(archived(await readArchive(inPieces(archive), SUBJECT), SUBJECT))).toEqual(archive)
  })

  test('describes the copy before the first row arrives', async () => {
    const archive = await bytesOf(archived(copyOf([{ name: 'noise', csv: [randomBytes(3_000_000)] }]), SUBJECT))
    let given = 0
    async function* watched() {
      for await (const piece of inPieces(archive)) {
        given += piece.length
        yield piece
      }
    }
    const copy = await readArchive(watched(), SUBJECT)
    expect(given).toBeLessThan(1_000_000)
    expect(copy.description.tables).toEqual(copyOf([table('noise')]).description.tables)
    expect(copy.archive).toMatchObject({ format: 1, createdAt: SUBJECT.createdAt.toISOString() })
    await copy.close()
  })

  test('ignores unknown members of archive.json', async () => {
    const { header, manifest, entries } = await opened()
    const more = {
      ...header,
      comment: 'written by hand',
      tables: header.tables.map((one: object) => ({ ...one, more: 1 })),
    }
    const archive = JSON.stringify(more)
    const manifestText = JSON.stringify({ ...manifest, another: true, archive: sumsOf([table('', archive)])[0] })
    const again = await forged(replaced(entries, { 'archive.json': archive, 'manifest.json': manifestText }))
    expect((await readAll(inPieces(again))).totals).toEqual(totalsOf(SMALL))
  })
})

describe('readArchive', () => {
  test('rejects an archive that is truncated at any byte', async () => {
    const archive = await archiveOf(SMALL)
    await cutShort(archive, 7) // the slow tier truncates after each byte
    await cutShort(archive.subarray(0, 20))
    await expect(readAll(inPieces(archive.subarray(0, -1)))).rejects.toMatchObject(incompatible('truncated'))
  })

  test('with any one byte changed, unless that changes nothing', async () => {
    const archive = await archiveOf(SMALL)
    // The slow tier applies all changes to each byte.
    const refusals = await changeEachByte(archive, (at) =>
      at % 3 === 0 ? [changesOf(archive, at)[at % 4] ?? 0x10] : [],
    )
    expect(refusals).toBeGreaterThan((0.85 * archive.length) / 3)
  })

  test('with anything behind its end', async () => {
    const archive = await archiveOf(SMALL)
    const empty = await member(Buffer.alloc(0))
    for (const more of [
      Buffer.alloc(1),
      Buffer.alloc(100_000),
      Buffer.from('x'),
      await member(Buffer.alloc(512)),
      archive,
    ]) {
      for (const size of [1_000, archive.length, 1_000_000]) {
        const reading = readAll(inPieces(Buffer.concat([archive, more]), size))
        await expect(reading).rejects.toMatchObject(incompatible('The backup is'))
      }
    }
    expect((await readAll(inPieces(Buffer.concat([archive, empty])))).totals).toEqual(totalsOf(SMALL))
  })

  test.each([
    ['nothing', Buffer.alloc(0), 'truncated'],
    ['text', Buffer.from('id,name\n1,Zoë\n'), 'not compressed with gzip'],
    ['a zip file', Buffer.from('PK\x03\x04 and so on'), 'not compressed with gzip'],
    ['a compressed text', member(Buffer.from('x'.repeat(600))), 'not a tar file'],
    ['an empty tar file', forged([]), 'does not start with archive.json'],
    ['an arbitrary tar file', forged([{ name: 'README', content: 'hello' }]), 'does not start with archive.json'],
    [
      'a folder named archive.json',
      forged([{ name: 'archive.json', type: 'directory' }]),
      'does not start with archive.json',
    ],
    [
      'an archive.json of another program',
      forged([{ name: 'archive.json', content: '{"format":1}' }]),
      'from another program',
    ],
    ['an archive.json that is not JSON', forged([{ name: 'archive.json', content: '{' }]), 'from another program'],
    [
      'an archive.json that is not UTF-8',
      forged([{ name: 'archive.json', content: Buffer.from([0xff]) }]),
      'from another program',
    ],
    [
      'an archive.json with an invalid byte in a text',
      forged([{ name: 'archive.json', content: Buffer.from('{"program":"tenantry","format":2,"\xff":1}', 'latin1') }]),
      'from another program',
    ],
    ['an empty archive.json', forged([{ name: 'archive.json', content: '' }]), 'from another program'],
  ])('rejects a file that is %s', async (_, bytes, reason) => {
    await expect(readAll(inPieces(await bytes))).rejects.toMatchObject(incompatible(reason))
  })

  test('rejects an archive of a newer format, regardless of its other members', async () => {
    const content = JSON.stringify({ program: 'tenantry', format: 2, tables: 'elsewhere' })
    await expect(readAll(inPieces(await forged([{ name: 'archive.json', content }])))).rejects.toThrow(
      'The backup was created by a newer version of Tenantry: the file has format 2, this version reads up to format 1.',
    )
  })

  test('rejects an archive of another tenant or another backup', async () => {
    const archive = await archiveOf(SMALL)
    const read = (expected: Partial<typeof SUBJECT>) => readAll(inPieces(archive), { ...SUBJECT, ...expected })
    await expect(read({ tenantId: 'globex' })).rejects.toMatchObject(
      incompatible('The backup belongs to another tenant.'),
    )
    await expect(read({ backupId: 'another' })).rejects.toMatchObject(
      incompatible('The file belongs to another backup.'),
    )
  })

  test('rejects an encrypted archive that was not decrypted, or cannot be decrypted', async () => {
    const [secrets, others] = [appSecrets(), appSecrets()]
    const encrypt = async () => secrets.encryptStream(inPieces(await archiveOf(SMALL)), SUBJECT.backupId)
    await expect(readAll(await encrypt())).rejects.toMatchObject(incompatible('is encrypted and was not decrypted'))
    await expect(readAll(others.decryptStream(await encrypt(), SUBJECT.backupId))).rejects.toMatchObject(
      incompatible('cannot be decrypted: encrypted with an application key that is not configured.'),
    )
    await expect(readAll(secrets.decryptStream(await encrypt(), 'another'))).rejects.toMatchObject(
      incompatible('cannot be decrypted: the stream is not encrypted, or was altered.'),
    )
    const encrypted = await bytesOf(await encrypt())
    for (const length of [10, 60, encrypted.length - 1]) {
      const cut = secrets.decryptStream(inPieces(encrypted.subarray(0, length)), SUBJECT.backupId)
      await expect(readAll(cut)).rejects.toMatchObject(
        incompatible('cannot be decrypted: the stream is not encrypted, or was altered.'),
      )
    }
    expect((await readAll(secrets.decryptStream(inPieces(encrypted), SUBJECT.backupId))).totals).toEqual(
      totalsOf(SMALL),
    )
  })
})

describe('readArchive on an edited archive', () => {
  const LINK = { name: 'data/orders.csv', type: 'symlink', linkname: '/etc/passwd' } as const
  const MORE = { name: 'data/more.csv', content: 'id\n' }
  type Change = (entries: readonly ForgedEntry[]) => readonly ForgedEntry[]
  const at =
    (index: number, ...put: ForgedEntry[]): Change =>
    (entries) =>
      entries.toSpliced(index, 0, ...put)

  test.each<[string, Change, string]>([
    ['a link in place of a table', (all) => all.with(3, LINK), 'an unexpected entry'],
    ['a hard link in place of a table', (all) => all.with(3, { ...LINK, type: 'link' }), 'an unexpected entry'],
    ['a folder', at(1, { name: 'data', type: 'directory' }), 'an unexpected entry'],
    ['an undeclared table', at(1, MORE), 'an unexpected entry'],
    ['a path out of the archive', at(1, { name: '../data/more.csv', content: '' }), 'an unexpected entry'],
    ['an absolute path', at(1, { name: '/data/customers.csv', content: '' }), 'an unexpected entry'],
    ['an equivalent path', at(1, { name: './data/customers.csv' }), 'an unexpected entry'],
    ['a repeated table', (all) => at(2, all[1] as ForgedEntry)(all), 'data/Order%20Lines.csv is out of order'],
    ['a missing table', (all) => all.toSpliced(2, 1), 'data/Order%20Lines.csv is out of order'],
    ['a missing last table', (all) => all.toSpliced(3, 1), 'data/orders.csv is out of order'],
    [
      'tables in another order',
      (all) => all.with(1, all[3] as ForgedEntry).with(3, all[1] as ForgedEntry),
      'is out of order',
    ],
    ['no manifest', (all) => all.slice(0, -1), 'manifest.json is missing'],
    ['archive.json only', (all) => all.slice(0, 1), 'data/customers.csv is missing'],
    ['a repeated archive.json', (all) => at(1, all[0] as ForgedEntry)(all), 'data/customers.csv is out of order'],
    ['a file after the manifest', (all) => [...all, MORE], 'data follows manifest.json'],
    [
      'the manifest first',
      (all) => [all.at(-1) as ForgedEntry, ...all.slice(0, -1)],
      'does not start with archive.json',
    ],
  ])('rejects an archive with %s', async (_, change, reason) => {
    const { entries } = await opened()
    expect((await readAll(inPieces(await forged(entries)))).totals).toEqual(totalsOf(SMALL))
    await expect(readAll(inPieces(await forged(change(entries))))).rejects.toMatchObject(incompatible(reason))
  })

  test.each([
    ['a changed row', 'id,total\n1,9.51\n'],
    ['an additional row', 'id,total\n1,9.50\n2,1\n'],
    ['no rows', ''],
  ])('rejects an archive with %s in a table', async (_, content) => {
    const { entries } = await opened()
    const again = await forged(replaced(entries, { 'data/orders.csv': content }))
    await expect(readAll(inPieces(again))).rejects.toMatchObject(
      incompatible('the content of the table "orders" does not match its hash'),
    )
  })

  test('rejects an archive with an archive.json that contradicts the manifest', async () => {
    const { header, entries } = await opened()
    for (const changed of [
      { ...header, isolation: 'database-pg' },
      { ...header, createdAt: '2020-01-01T00:00:00.000Z' },
      { ...header, migrations: [] },
      { ...header, sequences: [] },
      { ...header, comment: 'a comment changes the bytes' },
      { ...header, tables: header.tables.map((one: object) => ({ ...one, columns: [] })) },
    ]) {
      const again = await forged(replaced(entries, { 'archive.json': JSON.stringify(changed) }))
      await expect(readAll(inPieces(again))).rejects.toMatchObject(incompatible('contradicts archive.json'))
    }
  })

  test('rejects an archive with a manifest that contradicts archive.json', async () => {
    const { manifest, entries } = await opened()
    const [first, second, third] = manifest.tables
    for (const [changed, reason] of [
      [{ ...manifest, tenantId: 'globex' }, 'contradicts archive.json'],
      [{ ...manifest, archive: { ...manifest.archive, bytes: 1 } }, 'contradicts archive.json'],
      [{ ...manifest, archive: { ...manifest.archive, sha256: first.sha256 } }, 'contradicts archive.json'],
      [{ ...manifest, tables: [first, second] }, 'contradicts archive.json'],
      [{ ...manifest, tables: [second, first, third] }, 'contradicts archive.json'],
      [{ ...manifest, tables: [{ ...first, file: 'data/x.csv' }, second, third] }, 'contradicts archive.json'],
      [
        { ...manifest, tables: [{ ...first, sha256: third.sha256 }, second, third] },
        '"customers" does not match its hash',
      ],
      [{ ...manifest, tables: [first, { ...second, bytes: 1 }, third] }, '"Order Lines" does not match its hash'],
      [{ ...manifest, tables: [first, { ...second, rows: -1 }, third] }, 'does not match format 1'],
      [{ ...manifest, tables: [first, { ...second, rows: undefined }, third] }, 'does not match format 1'],
      [{ ...manifest, archive: undefined }, 'does not match format 1'],
      ['{', 'does not match format 1'],
    ]) {
      const again = await forged(replaced(entries, { 'manifest.json': JSON.stringify(changed) }))
      await expect(readAll(inPieces(again)), JSON.stringify(changed)).rejects.toMatchObject(incompatible(reason))
    }
  })

  test('with an archive.json that is not as it should be', async () => {
    const { header, entries } = await opened()
    const [first, second, third] = header.tables
    for (const changed of [
      { ...header, engine: 'oracle' },
      { ...header, createdAt: 'yesterday' },
      { ...header, tables: undefined },
      { ...header, tables: [first, first, second, third] },
      { ...header, tables: [first, { ...second, file: 'data/CUSTOMERS.csv' }, third] },
      { ...header, tables: [{ ...first, file: '../data/customers.csv' }, second, third] },
      { ...header, tables: [{ ...first, file: '/data/customers.csv' }, second, third] },
      { ...header, tables: [{ ...first, file: 'manifest.json' }, second, third] },
      { ...header, sequences: [{ name: 's', lastValue: '1; drop table x', isCalled: true }] },
    ]) {
      const again = await forged(replaced(entries, { 'archive.json': JSON.stringify(changed) }))
      const reading = readAll(inPieces(again))
      await expect(reading, JSON.stringify(changed)).rejects.toMatchObject(
        incompatible('archive.json does not match format 1'),
      )
    }
  })

  test('with a JSON file above the size limit, before it is read into memory', async () => {
    const { entries } = await opened()
    const huge = ' '.repeat(16 * 1024 * 1024 + 1)
    for (const name of ['archive.json', 'manifest.json']) {
      const again = await forged(replaced(entries, { [name]: huge }))
      const reading = readAll(inPieces(again))
      await expect(reading).rejects.toMatchObject(incompatible(`${name} is too large`))
    }
  })
})

describe('the source of an archive', () => {
  const failure = new Error('the network failed')

  test('reading an archive rejects with the error of its source at any position', async () => {
    const archive = await archiveOf(SMALL)
    for (let length = 0; length <= archive.length; length += 7) {
      async function* failing() {
        yield* inPieces(archive.subarray(0, length), 100)
        throw failure
      }
      await expect(readAll(failing()), `after ${length} bytes`).rejects.toBe(failure)
    }
    async function* atItsVeryEnd() {
      yield archive
      throw failure
    }
    await expect(readAll(atItsVeryEnd())).rejects.toBe(failure)
  })

  /** Bytes that the parser keeps. */
  const BUFFER = 2 ** 20
  const TABLE = 2_500_000
  const large = once(() => {
    const noise = [randomBytes(TABLE)]
    return archiveOf([
      { name: 'one', csv: noise },
      { name: 'two', csv: noise },
    ])
  })

  /**
   * Number of sources of the archive that remain open.
   *
   * @param use with a function that resolves when no more bytes are requested, after a number of skipped ones
   */
  async function leftOpen(use: Use, before = '', behind = '') {
    const archive = Buffer.concat([Buffer.from(before), await large(), Buffer.from(behind)])
    const seen = { open: 0, hasEnded: false }
    let given = 0
    async function* watched() {
      seen.open++
      try {
        for await (const piece of inPieces(archive, 10_000)) {
          given += piece.length
          yield piece
        }
        seen.hasEnded = true
      } finally {
        seen.open--
      }
    }
    const blocked = (after = 0) => {
      let before = 0
      return eventually(() => {
        const isRequested = given > before
        before = given
        expect(given).toBeGreaterThan(after + BUFFER)
        expect(isRequested).toBe(false)
      })
    }
    await use(watched(), blocked).catch(() => undefined)
    return seen
  }

  type Use = (chunks: AsyncIterable<Uint8Array>, blocked: (after?: number) => Promise<void>) => Promise<unknown>

  test.each<[string, Use]>([
    ['the archive has been read', (chunks) => readAll(chunks)],
    ['the archive belongs to another tenant', (chunks) => readAll(chunks, { ...SUBJECT, tenantId: 'globex' })],
    ['the archive is not needed', async (chunks) => (await readArchive(chunks, SUBJECT)).close()],
    [
      'the reader stops before a table',
      async (chunks) => {
        for await (const _ of (await readArchive(chunks, SUBJECT)).tables()) break
      },
    ],
    [
      'the reader fails in a table',
      async (chunks) => {
        for await (const { csv } of (await readArchive(chunks, SUBJECT)).tables()) {
          for await (const _ of csv) throw failure
        }
      },
    ],
  ])('closes the source when %s', async (_, use) => {
    expect(await leftOpen(use)).toMatchObject({ open: 0 })
  })

  /** As a restore: the copy is closed when its work fails. */
  const failing =
    (work: (copy: ArchiveCopy, blocked: (after?: number) => Promise<void>) => Promise<unknown>): Use =>
    async (chunks, blocked) => {
      const copy = await readArchive(chunks, SUBJECT)
      try {
        await work(copy, blocked)
        throw failure
      } finally {
        await copy.close()
      }
    }

  test.each<[string, Use]>([
    ['the archive is not needed', failing((_, blocked) => blocked())],
    [
      'the work fails before the content of a table is read',
      failing(async (copy, blocked) => {
        for await (const _ of copy.tables()) {
          await blocked()
          break
        }
      }),
    ],
    [
      'the work fails in the content of a table',
      failing(async (copy, blocked) => {
        for await (const { csv } of copy.tables()) {
          for await (const _ of csv) {
            await blocked()
            throw failure
          }
        }
      }),
    ],
    [
      'the work fails after the rest of a table was skipped',
      failing(async (copy, blocked) => {
        for await (const { csv } of copy.tables()) {
          for await (const _ of csv) break
          await blocked(TABLE)
          break
        }
      }),
    ],
    [
      'the work fails while a table is partly read',
      failing(async (copy, blocked) => {
        const { value } = await copy.tables()[Symbol.asyncIterator]().next()
        await (value as TableCopy).csv[Symbol.asyncIterator]().next()
        await blocked()
      }),
    ],
  ])('closes the source when the parser waits for a reader, and %s', async (_, use) => {
    expect(await leftOpen(use)).toEqual({ open: 0, hasEnded: false })
  })

  test('closes the source of a file that is not an archive, or has data after its end', async () => {
    for (const before of ['x', 'tenantry-sealed 1\n']) {
      expect(await leftOpen((chunks) => readAll(chunks), before)).toEqual({ open: 0, hasEnded: false })
    }
    const behind = '\0'.repeat(1_000_000)
    expect(await leftOpen((chunks) => readAll(chunks), '', behind)).toEqual({ open: 0, hasEnded: false })
  })

  test('closes the source of an archive with an invalid end', async () => {
    const { entries } = await opened()
    const archive = await forged([...entries, { name: 'more', content: randomBytes(1_000_000) }])
    let isOpen = true
    async function* watched() {
      try {
        yield* inPieces(archive)
      } finally {
        isOpen = false
      }
    }
    await expect(readAll(watched())).rejects.toMatchObject(incompatible('data follows manifest.json'))
    expect(isOpen).toBe(false)
  })
})

describe('order of reads', () => {
  const open = async () => readArchive(inPieces(await archiveOf(SMALL)), SUBJECT)

  test('requires that each table is read to its end before the next one', async () => {
    const copy = await open()
    const tables = copy.tables()[Symbol.asyncIterator]()
    await tables.next()
    await expect(tables.next()).rejects.toThrow('the table "customers" was not read to its end')
  })

  test('returns the tables once, and then the totals any number of times', async () => {
    const copy = await open()
    await expect(copy.totals()).rejects.toThrow('have not been read')
    for await (const { csv } of copy.tables()) await bytesOf(csv)
    expect(await Promise.all([copy.totals(), copy.totals()])).toEqual([totalsOf(SMALL), totalsOf(SMALL)])
    await expect(bytesOf(copy.tables() as AsyncIterable<never>)).rejects.toThrow('are read once')
    await copy.close()
  })
})

const appSecrets = () => createSecrets(randomBytes(32).toString('base64'))

const replaced = (entries: readonly ForgedEntry[], contents: Record<string, string>): ForgedEntry[] =>
  entries.map((entry) => ({ ...entry, content: contents[entry.name] ?? entry.content }))

/** The content of the small archive, as the basis of another one. */
async function opened() {
  const entries = unpacked(await archiveOf(SMALL))
  const json = (entry: ForgedEntry | undefined) => JSON.parse(String(entry?.content))
  return { entries, header: json(entries[0]), manifest: json(entries.at(-1)) }
}
