import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import type { CopyDescription } from '../../isolation/copy.ts'
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
import { readArchive } from './reader.ts'
import { archived } from './writer.ts'

const refused = (message: string) => ({ code: 'E_BACKUP_INCOMPATIBLE', message: expect.stringContaining(message) })

describe('what was archived', () => {
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

  test('is read as it was, whatever it is, however it comes', async () => {
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

  test('can be archived again as it is read', async () => {
    const archive = await archiveOf(SMALL)
    expect(await bytesOf(archived(await readArchive(inPieces(archive), SUBJECT), SUBJECT))).toEqual(archive)
  })

  test('is described before the first row has come', async () => {
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

  test('may say more than is known here', async () => {
    const { heading, manifest, entries } = await opened()
    const more = {
      ...heading,
      comment: 'made by hand',
      tables: heading.tables.map((one: object) => ({ ...one, more: 1 })),
    }
    const archive = JSON.stringify(more)
    const manifestText = JSON.stringify({ ...manifest, another: true, archive: sumsOf([table('', archive)])[0] })
    const again = await forged(replaced(entries, { 'archive.json': archive, 'manifest.json': manifestText }))
    expect((await readAll(inPieces(again))).totals).toEqual(totalsOf(SMALL))
  })
})

describe('refused is an archive', () => {
  test('that is cut short, wherever', async () => {
    const archive = await archiveOf(SMALL)
    await cutShort(archive, 7) // the slow tier cuts after each byte
    await cutShort(archive.subarray(0, 20))
    await expect(readAll(inPieces(archive.subarray(0, -1)))).rejects.toMatchObject(refused('truncated'))
  })

  test('with any one byte changed, unless that changes nothing', async () => {
    const archive = await archiveOf(SMALL)
    // The slow tier makes all changes to each byte.
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
        await expect(reading).rejects.toMatchObject(refused('The backup is'))
      }
    }
    expect((await readAll(inPieces(Buffer.concat([archive, empty])))).totals).toEqual(totalsOf(SMALL))
  })

  test.each([
    ['nothing', Buffer.alloc(0), 'truncated'],
    ['text', Buffer.from('id,name\n1,Zoë\n'), 'not compressed with gzip'],
    ['a zip file', Buffer.from('PK\x03\x04 and so on'), 'not compressed with gzip'],
    ['a compressed text', member(Buffer.from('x'.repeat(600))), 'not a tar file'],
    ['an empty tar file', forged([]), 'does not begin with archive.json'],
    ['any tar file', forged([{ name: 'README', content: 'hello' }]), 'does not begin with archive.json'],
    [
      'a folder of that name',
      forged([{ name: 'archive.json', type: 'directory' }]),
      'does not begin with archive.json',
    ],
    ['one of another program', forged([{ name: 'archive.json', content: '{"format":1}' }]), 'of another program'],
    ['one that is no JSON', forged([{ name: 'archive.json', content: '{' }]), 'of another program'],
    ['one that is no UTF-8', forged([{ name: 'archive.json', content: Buffer.from([0xff]) }]), 'of another program'],
    [
      'one with a byte that is no text',
      forged([{ name: 'archive.json', content: Buffer.from('{"program":"tenantry","format":2,"\xff":1}', 'latin1') }]),
      'of another program',
    ],
    ['one that is not begun', forged([{ name: 'archive.json', content: '' }]), 'of another program'],
  ])('that is %s', async (_, bytes, reason) => {
    await expect(readAll(inPieces(await bytes))).rejects.toMatchObject(refused(reason))
  })

  test('of a newer version, whatever else it says', async () => {
    const content = JSON.stringify({ program: 'tenantry', format: 2, tables: 'elsewhere' })
    await expect(readAll(inPieces(await forged([{ name: 'archive.json', content }])))).rejects.toThrow(
      'The backup was made by a newer version: format 2; this one reads up to 1.',
    )
  })

  test('of another tenant, or another backup', async () => {
    const archive = await archiveOf(SMALL)
    const read = (expected: Partial<typeof SUBJECT>) => readAll(inPieces(archive), { ...SUBJECT, ...expected })
    await expect(read({ tenantId: 'globex' })).rejects.toMatchObject(refused('The backup is of another tenant.'))
    await expect(read({ backupId: 'another' })).rejects.toMatchObject(refused('The file is that of another backup.'))
  })

  test('that is encrypted and was not decrypted, or could not be', async () => {
    const [secrets, others] = [appSecrets(), appSecrets()]
    const encrypt = async () => secrets.encryptStream(inPieces(await archiveOf(SMALL)), SUBJECT.backupId)
    await expect(readAll(await encrypt())).rejects.toMatchObject(refused('is sealed, and was not opened'))
    await expect(readAll(others.decryptStream(await encrypt(), SUBJECT.backupId))).rejects.toMatchObject(
      refused('cannot be opened: sealed under an application key that is not configured.'),
    )
    await expect(readAll(secrets.decryptStream(await encrypt(), 'another'))).rejects.toMatchObject(
      refused('cannot be opened: not a sealed stream, or altered.'),
    )
    const encrypted = await bytesOf(await encrypt())
    for (const length of [10, 60, encrypted.length - 1]) {
      const cut = secrets.decryptStream(inPieces(encrypted.subarray(0, length)), SUBJECT.backupId)
      await expect(readAll(cut)).rejects.toMatchObject(refused('cannot be opened: not a sealed stream, or altered.'))
    }
    expect((await readAll(secrets.decryptStream(inPieces(encrypted), SUBJECT.backupId))).totals).toEqual(
      totalsOf(SMALL),
    )
  })
})

describe('refused is an archive that was made again by somebody else', () => {
  const LINK = { name: 'data/orders.csv', type: 'symlink', linkname: '/etc/passwd' } as const
  const MORE = { name: 'data/more.csv', content: 'id\n' }
  type Change = (entries: readonly ForgedEntry[]) => readonly ForgedEntry[]
  const at =
    (index: number, ...put: ForgedEntry[]): Change =>
    (entries) =>
      entries.toSpliced(index, 0, ...put)

  test.each<[string, Change, string]>([
    ['a link in place of a table', (all) => all.with(3, LINK), 'what was not announced'],
    ['a hard link in place of a table', (all) => all.with(3, { ...LINK, type: 'link' }), 'what was not announced'],
    ['a folder', at(1, { name: 'data', type: 'directory' }), 'what was not announced'],
    ['a table that is not announced', at(1, MORE), 'what was not announced'],
    ['a path out of it', at(1, { name: '../data/more.csv', content: '' }), 'what was not announced'],
    ['an absolute path', at(1, { name: '/data/customers.csv', content: '' }), 'what was not announced'],
    ['a path that only means the same', at(1, { name: './data/customers.csv' }), 'what was not announced'],
    ['a table twice', (all) => at(2, all[1] as ForgedEntry)(all), 'data/Order%20Lines.csv is not in its place'],
    ['a table missing', (all) => all.toSpliced(2, 1), 'data/Order%20Lines.csv is not in its place'],
    ['the last table missing', (all) => all.toSpliced(3, 1), 'data/orders.csv is not in its place'],
    [
      'tables in another order',
      (all) => all.with(1, all[3] as ForgedEntry).with(3, all[1] as ForgedEntry),
      'in its place',
    ],
    ['no manifest', (all) => all.slice(0, -1), 'manifest.json is missing'],
    ['nothing but what it begins with', (all) => all.slice(0, 1), 'data/customers.csv is missing'],
    ['two beginnings', (all) => at(1, all[0] as ForgedEntry)(all), 'data/customers.csv is not in its place'],
    ['a file behind the manifest', (all) => [...all, MORE], 'something follows its manifest.json'],
    [
      'the manifest first',
      (all) => [all.at(-1) as ForgedEntry, ...all.slice(0, -1)],
      'does not begin with archive.json',
    ],
  ])('with %s', async (_, change, reason) => {
    const { entries } = await opened()
    expect((await readAll(inPieces(await forged(entries)))).totals).toEqual(totalsOf(SMALL))
    await expect(readAll(inPieces(await forged(change(entries))))).rejects.toMatchObject(refused(reason))
  })

  test.each([
    ['another row', 'id,total\n1,9.51\n'],
    ['a row more', 'id,total\n1,9.50\n2,1\n'],
    ['no rows', ''],
  ])('with %s in a table', async (_, content) => {
    const { entries } = await opened()
    const again = await forged(replaced(entries, { 'data/orders.csv': content }))
    await expect(readAll(inPieces(again))).rejects.toMatchObject(
      refused('the table "orders" is not the one that was written'),
    )
  })

  test('with an archive.json that the manifest does not have', async () => {
    const { heading, entries } = await opened()
    for (const changed of [
      { ...heading, isolation: 'database-pg' },
      { ...heading, createdAt: '2020-01-01T00:00:00.000Z' },
      { ...heading, migrations: [] },
      { ...heading, sequences: [] },
      { ...heading, comment: 'so its bytes are others' },
      { ...heading, tables: heading.tables.map((one: object) => ({ ...one, columns: [] })) },
    ]) {
      const again = await forged(replaced(entries, { 'archive.json': JSON.stringify(changed) }))
      await expect(readAll(inPieces(again))).rejects.toMatchObject(refused('contradict each other'))
    }
  })

  test('with a manifest that archive.json contradicts', async () => {
    const { manifest, entries } = await opened()
    const [first, second, third] = manifest.tables
    for (const [changed, reason] of [
      [{ ...manifest, tenantId: 'globex' }, 'contradict each other'],
      [{ ...manifest, archive: { ...manifest.archive, bytes: 1 } }, 'contradict each other'],
      [{ ...manifest, archive: { ...manifest.archive, sha256: first.sha256 } }, 'contradict each other'],
      [{ ...manifest, tables: [first, second] }, 'contradict each other'],
      [{ ...manifest, tables: [second, first, third] }, 'contradict each other'],
      [{ ...manifest, tables: [{ ...first, file: 'data/x.csv' }, second, third] }, 'contradict each other'],
      [{ ...manifest, tables: [{ ...first, sha256: third.sha256 }, second, third] }, '"customers" is not the one'],
      [{ ...manifest, tables: [first, { ...second, bytes: 1 }, third] }, '"Order Lines" is not the one'],
      [{ ...manifest, tables: [first, { ...second, rows: -1 }, third] }, 'is not as format 1 has it'],
      [{ ...manifest, tables: [first, { ...second, rows: undefined }, third] }, 'is not as format 1 has it'],
      [{ ...manifest, archive: undefined }, 'is not as format 1 has it'],
      ['{', 'is not as format 1 has it'],
    ]) {
      const again = await forged(replaced(entries, { 'manifest.json': JSON.stringify(changed) }))
      await expect(readAll(inPieces(again)), JSON.stringify(changed)).rejects.toMatchObject(refused(reason))
    }
  })

  test('with an archive.json that is not as it should be', async () => {
    const { heading, entries } = await opened()
    const [first, second, third] = heading.tables
    for (const changed of [
      { ...heading, engine: 'oracle' },
      { ...heading, createdAt: 'yesterday' },
      { ...heading, tables: undefined },
      { ...heading, tables: [first, first, second, third] },
      { ...heading, tables: [first, { ...second, file: 'data/CUSTOMERS.csv' }, third] },
      { ...heading, tables: [{ ...first, file: '../data/customers.csv' }, second, third] },
      { ...heading, tables: [{ ...first, file: '/data/customers.csv' }, second, third] },
      { ...heading, tables: [{ ...first, file: 'manifest.json' }, second, third] },
      { ...heading, sequences: [{ name: 's', lastValue: '1; drop table x', isCalled: true }] },
    ]) {
      const again = await forged(replaced(entries, { 'archive.json': JSON.stringify(changed) }))
      const reading = readAll(inPieces(again))
      await expect(reading, JSON.stringify(changed)).rejects.toMatchObject(
        refused('archive.json is not as format 1 has it'),
      )
    }
  })

  test('with a JSON file that nobody would hold, before it is held', async () => {
    const { entries } = await opened()
    const huge = ' '.repeat(16 * 1024 * 1024 + 1)
    for (const name of ['archive.json', 'manifest.json']) {
      const again = await forged(replaced(entries, { [name]: huge }))
      const reading = readAll(inPieces(again))
      await expect(reading).rejects.toMatchObject(refused(`its ${name} is larger than one can be`))
    }
  })
})

describe('where it comes from', () => {
  const failure = new Error('the network is gone')

  test('fails as it fails, wherever it does', async () => {
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

  /** How often the archive is still open afterwards. */
  async function leftOpen(use: (chunks: AsyncIterable<Uint8Array>) => Promise<unknown>, before = '', behind = '') {
    const noise = [randomBytes(500_000)]
    const archive = await archiveOf([
      { name: 'one', csv: noise },
      { name: 'two', csv: noise },
    ])
    const seen = { open: 0, hasEnded: false }
    async function* watched() {
      seen.open++
      try {
        yield* inPieces(Buffer.concat([Buffer.from(before), archive, Buffer.from(behind)]))
        seen.hasEnded = true
      } finally {
        seen.open--
      }
    }
    await use(watched()).catch(() => undefined)
    return seen
  }

  test.each<[string, (chunks: AsyncIterable<Uint8Array>) => Promise<unknown>]>([
    ['it has been read', (chunks) => readAll(chunks)],
    ['it is of another tenant', (chunks) => readAll(chunks, { ...SUBJECT, tenantId: 'globex' })],
    ['it is not wanted', async (chunks) => (await readArchive(chunks, SUBJECT)).close()],
    [
      'one stops before a table',
      async (chunks) => {
        for await (const _ of (await readArchive(chunks, SUBJECT)).tables()) break
      },
    ],
    [
      'one fails in a table',
      async (chunks) => {
        for await (const { csv } of (await readArchive(chunks, SUBJECT)).tables()) {
          for await (const _ of csv) throw failure
        }
      },
    ],
  ])('is let go of when %s', async (_, use) => {
    expect(await leftOpen(use)).toMatchObject({ open: 0 })
  })

  test('is let go of when it is none, and when something follows', async () => {
    for (const before of ['x', 'tenantry-sealed 1\n']) {
      expect(await leftOpen((chunks) => readAll(chunks), before)).toEqual({ open: 0, hasEnded: false })
    }
    const behind = '\0'.repeat(1_000_000)
    expect(await leftOpen((chunks) => readAll(chunks), '', behind)).toEqual({ open: 0, hasEnded: false })
  })

  test('is let go of when its end is not what it should be', async () => {
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
    await expect(readAll(watched())).rejects.toMatchObject(refused('something follows its manifest.json'))
    expect(isOpen).toBe(false)
  })
})

describe('who reads it', () => {
  const open = async () => readArchive(inPieces(await archiveOf(SMALL)), SUBJECT)

  test('reads each table to its end before the next', async () => {
    const copy = await open()
    const tables = copy.tables()[Symbol.asyncIterator]()
    await tables.next()
    await expect(tables.next()).rejects.toThrow('the table "customers" was not read to its end')
  })

  test('reads the tables once, and then asks for the totals, as often as wanted', async () => {
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

/** What is in the small archive, to make another of. */
async function opened() {
  const entries = unpacked(await archiveOf(SMALL))
  const json = (entry: ForgedEntry | undefined) => JSON.parse(String(entry?.content))
  return { entries, heading: json(entries[0]), manifest: json(entries.at(-1)) }
}
