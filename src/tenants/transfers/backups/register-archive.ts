/**
 * Registers an existing archive file as a backup, for example after the backoffice was restored from an older dump.
 * Reads the whole file first, so that a listed backup can be restored.
 */
import { createHash } from 'node:crypto'
import { invalid } from '../../../kernel/base/errors.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import { lockTenant } from '../../registry/tenant-assertions.ts'
import type { TenantTables } from '../../tenant/tables.ts'
import { readArchive } from '../archive/reader.ts'
import { archivesOf } from '../kinds/backup.ts'
import type { TransferDependencies } from '../kinds/dependencies.ts'
import type { BackupRow, TransferRow } from '../model/tables.ts'
import { BackupExists } from '../requests/errors.ts'

/** Matches the keys that backup.ts creates. */
const KEY =
  /^(?<tenantId>[^/]+)\/(?<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(?<attempt>\d{1,6})\.tar\.gz(?<sealed>\.sealed)?$/

/**
 * Returns the id of the backup. `E_TENANT_NOT_FOUND`, `E_BACKUP_EXISTS`, `E_BACKUP_INCOMPATIBLE` if the archive is
 * truncated, of another tenant, or encrypted with an unknown key; or a 400.
 * @param key of the file, as reported by the doctor
 */
export async function registerArchive(parts: TransferDependencies, tenantId: string, key: string): Promise<string> {
  const { database, events, clock } = parts.kernel
  const { id = '', attempt = '', sealed, ...named } = KEY.exec(key)?.groups ?? {}
  if (named.tenantId !== tenantId) {
    throw invalid([
      { path: 'file', message: `must be the key of an archive of tenant "${tenantId}", as reported by the doctor` },
    ])
  }
  await parts.registry.get(tenantId)
  if (await isKnown(parts, id)) throw exists(id)
  const found = await readToItsEnd(parts, { key, id, tenantId, isSealed: sealed !== undefined })
  await database.transaction(async () => {
    const { placement } = await lockTenant(database, tenantId)
    if (await isKnown(parts, id)) throw exists(id)
    const { bytes, ...backup } = found
    const { createdAt, isolation, rows, tables } = backup
    await database
      .query<TenantTables>()
      .insertInto('backups')
      .values({
        id,
        tenantId,
        isScheduled: false,
        archive: key,
        completedAt: clock.now(),
        ...backup,
      } as BackupRow)
      .execute()
    await database
      .query<TenantTables>()
      .insertInto('transfers')
      .values({
        id,
        kind: 'backup',
        tenantId,
        backupId: id,
        isolation,
        placement,
        state: 'completed',
        phase: 'done',
        progress: { tables, rows, bytes, estimate: null },
        attempts: Number(attempt),
        createdAt,
        finishedAt: clock.now(),
      } as TransferRow)
      .execute()
    await recordChange(events, { action: 'backups.adopt', tenantId, target: `backup:${id}`, after: { file: key } })
  })
  return id
}

interface File {
  readonly key: string
  readonly id: string
  readonly tenantId: string
  readonly isSealed: boolean
}

async function readToItsEnd(parts: TransferDependencies, { key, id, tenantId, isSealed }: File) {
  const hash = createHash('sha256')
  let sizeBytes = 0
  async function* measured() {
    for await (const chunk of archivesOf(parts).read(key)) {
      hash.update(chunk)
      sizeBytes += chunk.length
      yield chunk
    }
  }
  const chunks = isSealed ? parts.kernel.secrets.decryptStream(measured(), id) : measured()
  const copy = await readArchive(chunks, { tenantId, backupId: id })
  try {
    for await (const { csv } of copy.tables()) for await (const _ of csv);
    const totals = await copy.totals()
    const sum = (of: 'rows' | 'bytes') => totals.reduce((all, table) => all + table[of], 0)
    return {
      isSealed,
      isolation: copy.description.isolation,
      migrations: copy.description.migrations.map(({ name }) => name),
      createdAt: new Date(copy.archive.createdAt),
      tables: totals.length,
      rows: sum('rows'),
      bytes: sum('bytes'),
      sizeBytes,
      sha256: hash.digest('hex'),
    }
  } finally {
    await copy.close()
  }
}

async function isKnown({ kernel }: TransferDependencies, id: string): Promise<boolean> {
  const { rows } = await kernel.database.sql(
    'select from multitenancy.backups where id = $1 union all select from multitenancy.transfers where id = $1',
    [id],
  )
  return rows.length > 0
}

const exists = (id: string) => BackupExists(`Backup "${id}" is already registered.`)
