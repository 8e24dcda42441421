/** Edits of backup archives without the tenancy, and restores from them. */
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { TestEnvironment } from '../../../../test/support/two-servers.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { forged, unpacked } from './archive.fixture.ts'

export interface Backed {
  readonly id: string
  readonly file: string
  readonly key: string
}

export async function backedUp(of: TestEnvironment, id: string): Promise<Backed> {
  const backup = await of.transfers.backups.create(id)
  await of.done(backup)
  const { rows } = await of.tenancy.kernel.database.sql('select archive from multitenancy.backups where id = $1', [
    backup.id,
  ])
  return { id: backup.id, key: rows[0].archive, file: join(of.archives, rows[0].archive) }
}

/** Records the edited file as the written one, so that only its content can reveal the edit. */
export async function believed(of: TestEnvironment, { id, file }: Backed): Promise<void> {
  const bytes = await readFile(file)
  await of.tenancy.kernel.database.sql('update multitenancy.backups set size_bytes = $2, sha256 = $3 where id = $1', [
    id,
    bytes.length,
    createHash('sha256').update(bytes).digest('hex'),
  ])
}

type Files = Map<string, string>

/** Unpacks the archive, edits its files with `edit`, and packs it again in the same order. */
export async function repacked({ file }: Backed, edit: (files: Files) => unknown): Promise<void> {
  const files: Files = new Map(unpacked(await readFile(file)).map(({ name, content }) => [name, String(content)]))
  edit(files)
  await writeFile(file, await forged([...files].map(([name, content]) => ({ name, content }))))
}

export const everyJson = (edit: (json: any) => unknown) => (files: Files) => {
  for (const name of ['archive.json', 'manifest.json']) {
    const json = JSON.parse(files.get(name) ?? '')
    edit(json)
    files.set(name, JSON.stringify(json))
  }
  // An attacker who knows the format would also do this.
  const header = files.get('archive.json') ?? ''
  const manifest = JSON.parse(files.get('manifest.json') ?? '')
  manifest.archive = { bytes: Buffer.byteLength(header), sha256: createHash('sha256').update(header).digest('hex') }
  files.set('manifest.json', JSON.stringify(manifest))
}

export async function rejected(of: TestEnvironment, id: string, backup: Backed): Promise<string> {
  const { database } = of.tenancy.kernel
  const state = async () => ({
    row: (await database.sql('select epoch, locator, status, held_by from multitenancy.tenants where id = $1', [id]))
      .rows,
    places: (await database.sql('select * from multitenancy.storage_locations where tenant_id = $1', [id])).rows,
    notes: await of.notes(id),
  })
  const before = await state()
  const started = await of.transfers.backups.restore(id, { backupId: backup.id })
  const { state: how, failure } = await of.ended(started)
  expect(how).toBe('failed')
  await eventually(async () => expect(await state()).toEqual(before)) // the storage is dropped after the end of the transfer
  for (const driver of of.tenancy.tenants.storage.drivers) {
    expect(await Array.fromAsync(of.tenancy.tenants.reconciliation.mismatches(driver, 'main'))).toEqual([])
  }
  expect(failure?.message).not.toContain(of.archives)
  return `${failure?.code}: ${failure?.message}`
}
