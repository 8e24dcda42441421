/** Encrypted archives: restore and download decrypt them with their key. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { NOTES, openTestEnvironment } from '../../../../test/support/two-servers.ts'
import { directory } from '../../../drivers/archives/directory.ts'
import { bytesOf, unpacked } from './archive.fixture.ts'
import { backedUp, believed, rejected } from './rejected-archives.fixture.ts'

describe('encrypted archives', () => {
  test('decrypts an encrypted archive only with its key, and downloads the plain archive', async () => {
    const path = await mkdtemp(join(tmpdir(), 'tenantry-sealed-'))
    const environment = await openTestEnvironment(inject('postgresUrl'), {
      migrations: NOTES,
      backups: { archives: directory({ path }), seal: true },
    })
    onTestFinished(environment.end)
    await environment.tenant('acme')
    const backup = { ...(await backedUp(environment, 'acme')) }
    const file = join(path, backup.key)
    expect(await environment.transfers.backups.get('acme', backup.id)).toMatchObject({ isSealed: true })
    const bytes = await readFile(file)
    expect(bytes.includes('first')).toBe(false)
    expect(bytes.subarray(0, 2)).not.toEqual(Buffer.from([0x1f, 0x8b]))

    const plain = await bytesOf(await environment.transfers.backups.download('acme', backup.id))
    const notes = unpacked(plain).find(({ name }) => name === 'data/notes.csv')
    expect(String(notes?.content)).toBe('id,text\n1,first\n2,second\n')

    await (await environment.tenancy.tenant('acme')).db.deleteFrom('notes').execute()
    await environment.done(await environment.transfers.backups.restore('acme', { backupId: backup.id }))
    expect(await environment.notes('acme')).toEqual(['first', 'second'])

    bytes[bytes.length - 30] = (bytes[bytes.length - 30] ?? 0) ^ 1
    await writeFile(file, bytes)
    await believed(environment, { ...backup, file })
    expect(await rejected(environment, 'acme', { ...backup, file })).toMatch(
      /^E_BACKUP_INCOMPATIBLE: .*cannot be decrypted/,
    )
    await rm(path, { recursive: true })
  })
})
