/** Archives that a restore must not take: the tenant keeps what it has, nothing is left behind, and the transfer says why. */
import { copyFile, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ISOLATIONS, openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import { backedUp, believed, everyJson, rejected, repacked } from './rejected-archives.fixture.ts'

let environment: TestEnvironment
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'))
})
afterAll(() => environment?.end())

describe('a tenant is not restored from an archive', () => {
  const prepared = async (what: string, isolation = 'schema-pg') => {
    const id = `${what}-${isolation.slice(0, 3)}`
    await environment.tenant(id, { isolation })
    return { id, backup: await backedUp(environment, id) }
  }

  test.each(ISOLATIONS)('that is cut off: %s', async (isolation) => {
    const { id, backup } = await prepared('cut', isolation)
    const bytes = await readFile(backup.file)
    await truncate(backup.file, bytes.length - 20)
    expect(await rejected(environment, id, backup)).toMatch(
      /^E_BACKUP_INCOMPATIBLE: .*(cut off|incomplete|ends|truncated)/i,
    )
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('that was altered', async () => {
    const { id, backup } = await prepared('altered')
    const bytes = await readFile(backup.file)
    bytes[4] = (bytes[4] ?? 0) ^ 1 // in the head of the first member, where it means nothing: only the hash of the whole tells
    await writeFile(backup.file, bytes)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*altered/)
  })

  test.each(ISOLATIONS)('whose rows and recorded digest were altered: %s', async (isolation) => {
    const { id, backup } = await prepared('forged', isolation)
    await repacked(backup, (files) => files.set('data/notes.csv', 'id,text\n1,forged\n2,second\n'))
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*notes/)
  })

  test('that is gone', async () => {
    const { id, backup } = await prepared('gone')
    await rm(backup.file)
    expect(await rejected(environment, id, backup)).toMatch(/^E_ARCHIVE_MISSING: /)
  })

  test('that is another tenant’s', async () => {
    const { id, backup } = await prepared('mine')
    const other = await prepared('theirs')
    await copyFile(other.backup.file, backup.file)
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(tenant|backup)/)
  })

  test('that another program made', async () => {
    const { id, backup } = await prepared('foreign')
    await repacked(backup, (files) => files.delete('archive.json'))
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
    await writeFile(backup.file, 'no archive at all')
    await believed(environment, backup)
    expect(await rejected(environment, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('of a newer format', async () => {
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

  test('of migrations that are not known here, or have been edited since', async () => {
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
