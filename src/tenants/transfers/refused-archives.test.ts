/** Archives that a restore must not take: the tenant keeps what it has, nothing is left behind, and the transfer says why. */
import { createHash } from 'node:crypto'
import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { directory } from '../../drivers/archives/directory.ts'
import { eventually } from '../../testing/tenancy.ts'
import { ISOLATIONS, NOTES, openWorld, type World } from '../../testing/two-servers.ts'
import { bytesOf, forged, unpacked } from './archive.fixture.ts'

let world: World
let sealing: World
beforeAll(async () => {
  world = await openWorld(inject('postgresUrl'))
})
afterAll(async () => {
  await world?.end()
  await sealing?.end()
})

interface Backed {
  readonly id: string
  readonly file: string
  readonly key: string
}

async function backedUp(of: World, id: string): Promise<Backed> {
  const backup = await of.transfers.backups.create(id)
  await of.done(backup)
  const { rows } = await of.tenancy.kernel.database.sql('select archive from multitenancy.backups where id = $1', [
    backup.id,
  ])
  return { id: backup.id, key: rows[0].archive, file: join(of.archives, rows[0].archive) }
}

/** As if it had been what was written, so that only what is in it can tell. */
async function believed(of: World, { id, file }: Backed): Promise<void> {
  const bytes = await readFile(file)
  await of.tenancy.kernel.database.sql('update multitenancy.backups set size_bytes = $2, sha256 = $3 where id = $1', [
    id,
    bytes.length,
    createHash('sha256').update(bytes).digest('hex'),
  ])
}

type Files = Map<string, string>

/** Unpacks the archive, lets `edit` change what is in it, and packs it again in the same order. */
async function repacked({ file }: Backed, edit: (files: Files) => unknown): Promise<void> {
  const files: Files = new Map(unpacked(await readFile(file)).map(({ name, content }) => [name, String(content)]))
  edit(files)
  await writeFile(file, await forged([...files].map(([name, content]) => ({ name, content }))))
}

const everyJson = (edit: (json: any) => unknown) => (files: Files) => {
  for (const name of ['archive.json', 'manifest.json']) {
    const json = JSON.parse(files.get(name) ?? '')
    edit(json)
    files.set(name, JSON.stringify(json))
  }
  // As somebody would who knows the format.
  const heading = files.get('archive.json') ?? ''
  const manifest = JSON.parse(files.get('manifest.json') ?? '')
  manifest.archive = { bytes: Buffer.byteLength(heading), sha256: createHash('sha256').update(heading).digest('hex') }
  files.set('manifest.json', JSON.stringify(manifest))
}

async function refused(of: World, id: string, backup: Backed): Promise<string> {
  const { database } = of.tenancy.kernel
  const state = async () => ({
    row: (await database.sql('select epoch, locator, status, held_by from multitenancy.tenants where id = $1', [id]))
      .rows,
    places: (await database.sql('select * from multitenancy.places where tenant_id = $1', [id])).rows,
    notes: await of.notes(id),
  })
  const before = await state()
  const begun = await of.transfers.backups.restore(id, { backupId: backup.id })
  const { state: how, failure } = await of.ended(begun)
  expect(how).toBe('failed')
  await eventually(async () => expect(await state()).toEqual(before)) // it is tidied up once the transfer has ended
  for (const driver of of.tenancy.tenants.storage.drivers) {
    expect(await of.tenancy.tenants.inventory.mismatches(driver, 'main')).toEqual([])
  }
  expect(failure?.message).not.toContain(of.archives)
  return `${failure?.code}: ${failure?.message}`
}

describe('a tenant is not restored from an archive', () => {
  const prepared = async (what: string, isolation = 'schema-pg') => {
    const id = `${what}-${isolation.slice(0, 3)}`
    await world.tenant(id, { isolation })
    return { id, backup: await backedUp(world, id) }
  }

  test.each(ISOLATIONS)('that is cut off: %s', async (isolation) => {
    const { id, backup } = await prepared('cut', isolation)
    const bytes = await readFile(backup.file)
    await truncate(backup.file, bytes.length - 20)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(cut off|incomplete|ends|truncated)/i)
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('that was altered', async () => {
    const { id, backup } = await prepared('altered')
    const bytes = await readFile(backup.file)
    bytes[4] = (bytes[4] ?? 0) ^ 1 // in the head of the first member, where it means nothing: only the hash of the whole tells
    await writeFile(backup.file, bytes)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*altered/)
  })

  test.each(ISOLATIONS)('whose rows and recorded digest were altered: %s', async (isolation) => {
    const { id, backup } = await prepared('forged', isolation)
    await repacked(backup, (files) => files.set('data/notes.csv', 'id,text\n1,forged\n2,second\n'))
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*notes/)
  })

  test('that is gone', async () => {
    const { id, backup } = await prepared('gone')
    await rm(backup.file)
    expect(await refused(world, id, backup)).toMatch(/^E_ARCHIVE_MISSING: /)
  })

  test('that is another tenant’s', async () => {
    const { id, backup } = await prepared('mine')
    const other = await prepared('theirs')
    await copyFile(other.backup.file, backup.file)
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(tenant|backup)/)
  })

  test('that another program made', async () => {
    const { id, backup } = await prepared('foreign')
    await repacked(backup, (files) => files.delete('archive.json'))
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
    await writeFile(backup.file, 'no archive at all')
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: /)
  })

  test('of a newer format', async () => {
    const { id, backup } = await prepared('newer')
    await repacked(
      backup,
      everyJson((json) => {
        json.format = 2
      }),
    )
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*newer.*2/)
  })

  test('of migrations that are not known here, or have been edited since', async () => {
    const { id, backup } = await prepared('later')
    await repacked(
      backup,
      everyJson((json) => json.migrations.push({ name: '0009_later', checksum: '9' })),
    )
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*0009_later/)
    const edited = await prepared('edited')
    await repacked(
      edited.backup,
      everyJson((json) => {
        json.migrations[0].checksum = 'another'
      }),
    )
    await believed(world, edited.backup)
    expect(await refused(world, edited.id, edited.backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*0001_notes/)
  })

  test.each(ISOLATIONS)('with a column that the tables do not have: %s', async (isolation) => {
    const { id, backup } = await prepared('column', isolation)
    await repacked(
      backup,
      everyJson((json) => {
        json.tables[0].columns[1].name = 'body'
      }),
    )
    await believed(world, backup)
    expect(await refused(world, id, backup)).toMatch(/^E_BACKUP_INCOMPATIBLE: .*(body|notes)/)
  })
})

describe('a sealed archive', () => {
  test('is opened by its key and by nobody else, and downloads as it was before it was sealed', async () => {
    const path = await mkdtemp(join(tmpdir(), 'tenantry-sealed-'))
    sealing = await openWorld(inject('postgresUrl'), {
      migrations: NOTES,
      backups: { archives: directory({ path }), seal: true },
    })
    await sealing.tenant('acme')
    const backup = { ...(await backedUp(sealing, 'acme')) }
    const file = join(path, backup.key)
    expect(await sealing.transfers.backups.get('acme', backup.id)).toMatchObject({ isSealed: true })
    const bytes = await readFile(file)
    expect(bytes.includes('first')).toBe(false)
    expect(bytes.subarray(0, 2)).not.toEqual(Buffer.from([0x1f, 0x8b]))

    const plain = await bytesOf(await sealing.transfers.backups.download('acme', backup.id))
    const notes = unpacked(plain).find(({ name }) => name === 'data/notes.csv')
    expect(String(notes?.content)).toBe('id,text\n1,first\n2,second\n')

    await (await sealing.tenancy.tenant('acme')).db.deleteFrom('notes').execute()
    await sealing.done(await sealing.transfers.backups.restore('acme', { backupId: backup.id }))
    expect(await sealing.notes('acme')).toEqual(['first', 'second'])

    bytes[bytes.length - 30] = (bytes[bytes.length - 30] ?? 0) ^ 1
    await writeFile(file, bytes)
    await believed(sealing, { ...backup, file })
    expect(await refused(sealing, 'acme', { ...backup, file })).toMatch(/^E_BACKUP_INCOMPATIBLE: .*cannot be opened/)
    await rm(path, { recursive: true })
  })
})
