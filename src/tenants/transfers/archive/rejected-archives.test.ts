/** Invalid archives: a restore fails with the cause, keeps the tenant's data and leaves nothing behind. */
import { copyFile, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ISOLATIONS, openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import { backedUp, believed, everyJson, rejected, repacked } from './rejected-archives.fixture.ts'

let environment: TestEnvironment
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'))
})
afterAll(() => environment?.end())

describe('restore from an invalid archive', () => {
  const prepared = async (what: string, isolation = 'schema-pg') => {
    const id = `${what}-${isolation.slice(0, 3)}`
    await environment.tenant(id, { isolation })
    return { id, backup: await backedUp(environment, id) }
  }

  test.each(ISOLATIONS)('rejects a truncated archive: %s', async (isolation) => {
    const { id, backup } = await prepared('cut', isolation)
    const bytes = await readFile(backup.file)
    await truncate(backup.file, bytes.length - 20)
    expect(await rejected(environment, id, backup)).toMatch(
      /^E_BACKUP_INCOMPATIBLE: .*(cut off|incomplete|ends|truncated)/i,
    )
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('rejects an altered archive', async () => {
    const { id, backup } = await prepared('altered')
    const bytes = await readFile(backup.file)
    bytes[4] = (bytes[4] ?? 0) ^ 1 // a meaningless byte in the header of the first member: only the hash of the file reveals the change
    await writeFile(backup.file, bytes)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*altered/)
  })

  test.each(ISOLATIONS)('rejects an archive with altered rows and an altered digest: %s', async (isolation) => {
    const { id, backup } = await prepared('forged', isolation)
    await repacked(backup, (files) => files.set('data/notes.csv', 'id,text\n1,forged\n2,second\n'))
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*notes/)
  })

  test('rejects a backup without a file', async () => {
    const { id, backup } = await prepared('gone')
    await rm(backup.file)
    expect(await rejected(environment, id, backup)).toMatch(/^E_ARCHIVE_MISSING: /)
  })

  test('rejects an archive of another tenant', async () => {
    const { id, backup } = await prepared('mine')
    const other = await prepared('theirs')
    await copyFile(other.backup.file, backup.file)
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(tenant|backup)/)
  })

  test('rejects an archive of another program', async () => {
    const { id, backup } = await prepared('foreign')
    await repacked(backup, (files) => files.delete('archive.json'))
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
    await writeFile(backup.file, 'not an archive')
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('rejects an archive of a newer format', async () => {
    const { id, backup } = await prepared('newer')
    await repacked(
      backup,
      everyJson((json) => {
        json.format = 2
      }),
    )
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*newer.*2/)
  })

  test('rejects an archive with unknown or edited migrations', async () => {
    const { id, backup } = await prepared('later')
    await repacked(
      backup,
      everyJson((json) => json.migrations.push({ name: '0009_later', checksum: '9' })),
    )
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*0009_later/)
    const edited = await prepared('edited')
    await repacked(
      edited.backup,
      everyJson((json) => {
        json.migrations[0].checksum = 'another'
      }),
    )
    await believed(environment, edited.backup)
    expect(await rejected(environment, edited.id, edited.backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*0001_notes/)
  })

  test.each(ISOLATIONS)('with a column that the tables do not have: %s', async (isolation) => {
    const { id, backup } = await prepared('column', isolation)
    await repacked(
      backup,
      everyJson((json) => {
        json.tables[0].columns[1].name = 'body'
      }),
    )
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(body|notes)/)
  })
})
