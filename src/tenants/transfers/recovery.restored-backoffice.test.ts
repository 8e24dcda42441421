/** Archives and storage that are unknown to a backoffice restored from a dump. */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ISOLATIONS } from '../../../test/support/two-servers.ts'
import { directory } from '../../drivers/archives/directory.ts'
import { only, useRecovery } from './recovery.fixture.ts'

const here = useRecovery()
const { sql, install } = here

describe('archive file without a backup', () => {
  const forget = async (id: string) => {
    await sql('delete from multitenancy.transfers where id = $1', [id])
    await sql('delete from multitenancy.backups where id = $1', [id])
  }

  test.each([false, true])('can be registered and restored; encrypted: %s', async (seal) => {
    const id = seal ? 'registered-sealed' : 'registered'
    await install(id)
    const { db } = await here.environment.tenancy.tenant(id)
    await db.insertInto('notes').values({ text: 'kept' }).execute()
    const { tenants } = await here.environment.open({
      backups: { archives: directory({ path: here.environment.archives }), seal },
    })
    const { backups } = tenants.transfers
    const before = await backups.create(id, { note: 'gone with the row' })
    await tenants.transfers.work(before.id, only)
    const complete = await backups.get(id, before.id)
    const key = (await here.environment.files()).find((file) => file.includes(before.id)) ?? ''
    await expect(backups.registerArchive(id, key)).rejects.toMatchObject({ code: 'E_BACKUP_EXISTS' })
    await forget(before.id)
    await db.deleteFrom('notes').execute()

    const { completedAt, note, progress, ...same } = complete
    expect(await backups.registerArchive(id, key)).toMatchObject({
      ...same,
      progress: { rows: 1, bytes: progress.bytes },
    })
    const { transfer } = await backups.restore(id, { backupId: before.id })
    await tenants.transfers.work(transfer.id, only)
    expect(await here.environment.notes(id)).toEqual(['kept'])
  })

  test('can be registered only for its own tenant, and only if it is complete', async () => {
    await install('hers')
    await install('his')
    const { id } = await here.environment.transfers.backups.create('hers')
    await here.environment.transfers.work(id, only)
    const key = `hers/${id}.1.tar.gz`
    await forget(id)
    const { backups } = here.environment.transfers
    await expect(backups.registerArchive('his', key)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    await expect(backups.registerArchive('his', '../hers/x.tar.gz')).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
    })
    const bytes = await readFile(join(here.environment.archives, key))
    await mkdir(join(here.environment.archives, 'his'), { recursive: true })
    await writeFile(join(here.environment.archives, 'his', `${id}.1.tar.gz`), bytes)
    await expect(backups.registerArchive('his', `his/${id}.1.tar.gz`)).rejects.toMatchObject({
      code: 'E_BACKUP_INCOMPATIBLE',
    })
    await writeFile(join(here.environment.archives, key), bytes.subarray(0, -100))
    await expect(backups.registerArchive('hers', key)).rejects.toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
    await rm(join(here.environment.archives, key))
    await expect(backups.registerArchive('hers', key)).rejects.toMatchObject({ code: 'E_ARCHIVE_MISSING' })
    expect((await backups.list('hers', { limit: 9 })).data).toEqual([])
    await rm(join(here.environment.archives, 'his'), { recursive: true })
  })
})

describe.each(ISOLATIONS)('backoffice restored from a dump that is older than storage on %s', (isolation) => {
  test('leaves the unknown storage unchanged and logs it', async () => {
    const id = `forgotten-${isolation.slice(0, 3)}`
    await here.environment.tenancy.tenants.create({ id, name: id, isolation })
    await here.environment.tenancy.tenants.installation.install(id, only)
    const driver = here.environment.tenancy.tenants.storage.driver(isolation)
    const newest = { tenantId: id, isolation, placement: 'main', locator: driver.locator(id, 2), epoch: 2 }
    await driver.provision(newest)
    await driver.execute(newest, { text: `insert into notes (text) values ('the newest')` })

    const backup = await here.environment.transfers.backups.create(id)
    await here.environment.transfers.work(backup.id, only)
    for (const rehearse of [true, false]) {
      const { transfer } = await here.environment.transfers.backups.restore(id, { backupId: backup.id, rehearse })
      await here.environment.transfers.work(transfer.id, only)
      expect(await here.environment.transfers.get(id, transfer.id)).toMatchObject({ state: 'completed', failure: null })
    }
    await here.environment.transfers.recover()
    const { rows } = await driver.execute(newest, { text: 'select text from notes' })
    expect(rows).toEqual([{ text: 'the newest' }])
    const leftOver = { kind: 'left over', locator: newest.locator }
    expect(await Array.fromAsync(here.environment.tenancy.tenants.reconciliation.mismatches(driver, 'main'))).toEqual(
      isolation === 'rowscope-pg' ? [] : [leftOver], // shared tables do not tell whose rows they have
    )
    await driver.drop(newest)
  })
})
