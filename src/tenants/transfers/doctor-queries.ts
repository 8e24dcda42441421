/** Queries of the doctor for problems with transfers and backups. */
import { installedTenants } from '../registry/installed.ts'
import { toTenant } from '../tenant/tenant.ts'
import { type BackupRunDependencies, retentionOf } from './backups/scheduler.ts'
import { archivesOf } from './kinds/backup.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'

const HOUR_MS = 3_600_000
/** Time without progress after which a transfer is stuck. */
const STUCK_MS = 10 * 60_000
/** Multiple of the backup interval after which a backup is missed. */
const LATE = 2
const LOOKED_UP_AT_ONCE = 500

export interface StuckTransfer {
  readonly id: string
  readonly tenantId: string
  readonly kind: string
  readonly since: Date
}

/** A tenant whose scheduled backups are missed or fail. */
export interface TroubledBackups {
  readonly tenantId: string
  readonly everyHours: number
  /** Time of the last completed backup. */
  readonly last: Date | null
  /** Whether the last completed backup is older than allowed. */
  readonly isStale: boolean
  /** Failures since the last completed backup, and the code of the newest one. */
  readonly failed: number
  readonly failureCode: string | null
}

export interface BackupSummary {
  /** Creation time of the newest completed backup of a schedule. */
  readonly newest: Date | null
  /** Tenants whose newest attempts have failed. */
  readonly failing: number
  /** Tenants whose last completed backup is older than allowed. */
  readonly overdue: number
}

/** A file that is not the archive of a backup. */
export interface OrphanedFile {
  readonly key: string
  /** Whether an attempt of a known backup wrote it, so that no other installation can need it. */
  readonly isOurs: boolean
}

/** A completed backup without its archive. */
export interface MissingArchive {
  readonly key: string
  readonly tenantId: string
  readonly backupId: string
}

export class TransferState {
  readonly #dependencies: TransferDependencies
  readonly #run: BackupRunDependencies

  constructor(dependencies: TransferDependencies, run: BackupRunDependencies) {
    this.#dependencies = dependencies
    this.#run = run
  }

  async stuck(): Promise<StuckTransfer[]> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `select id, tenant_id as "tenantId", kind, coalesce(started_at, created_at) as since from multitenancy.transfers
       where state = 'running' and lease_until < now() - $1 * interval '1 millisecond' order by id`,
      [STUCK_MS],
    )
    return rows
  }

  /** Tenants whose last completed backup is older than allowed, or whose latest backups have failed. @param only id of the only tenant */
  async *troubled(only?: string): AsyncIterable<TroubledBackups> {
    const { kernel, storage } = this.#dependencies
    const { plans, settings } = this.#run
    const byTenant = async <Row>(text: string, ids: readonly string[]) =>
      new Map((await kernel.database.sql(text, [ids])).rows.map(({ id, ...row }) => [id as string, row as Row]))
    for await (const rows of installedTenants(kernel.database, only)) {
      const ids = rows.map(({ id }) => id)
      const last = await byTenant<{ at: Date }>(LAST_COMPLETE, ids)
      const failures = await byTenant<{ count: number; code: string | null }>(FAILED_SINCE, ids)
      for (const row of rows) {
        const { everyHours } = retentionOf(settings, (await plans.resolve(toTenant(row))).backups)
        if (everyHours === undefined || !storage.supportsCopies(row.isolation)) continue
        const before = kernel.clock.now().getTime() - everyHours * LATE * HOUR_MS
        const of = last.get(row.id)?.at ?? null
        const isStale = (of ?? row.activatedAt ?? row.createdAt).getTime() < before
        const { count: failed = 0, code: failureCode = null } = failures.get(row.id) ?? {}
        if (isStale || failed > 0) yield { tenantId: row.id, everyHours, last: of, isStale, failed, failureCode }
      }
    }
  }

  async backupSummary(): Promise<BackupSummary> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `select max(created_at) as newest from multitenancy.backups
       where is_scheduled and completed_at is not null and deleted_at is null`,
    )
    let failing = 0
    let overdue = 0
    for await (const { failed, isStale } of this.troubled()) {
      if (failed > 0) failing += 1
      if (isStale) overdue += 1
    }
    return { newest: rows[0].newest, failing, overdue }
  }

  /** Backups whose archives this process cannot read, as it has no backup storage configured. */
  async unreachable(): Promise<number> {
    if (this.#dependencies.archives) return 0
    const { rows } = await this.#dependencies.kernel.database.sql(
      'select count(*) as count from multitenancy.backups where archive is not null',
    )
    return rows[0].count
  }

  /** Undefined if archives can be read and written. */
  async archivesFailure(): Promise<unknown> {
    try {
      await this.#dependencies.archives?.check()
      return undefined
    } catch (error) {
      return error
    }
  }

  /**
   * Differences between files and backups: files of no backup or running attempt, and backups without a file. Keeps the
   * keys of all files in memory.
   */
  async *disagreements(): AsyncIterable<OrphanedFile | MissingArchive> {
    const { archives, kernel } = this.#dependencies
    if (!archives) return
    const { rows: started } = await kernel.database.sql('select now() as at')
    const seen = new Set<string>()
    let keys: string[] = []
    for await (const { key } of archives.list()) {
      seen.add(key)
      if (keys.push(key) < LOOKED_UP_AT_ONCE) continue
      yield* await this.#orphansAmong(keys)
      keys = []
    }
    yield* await this.#orphansAmong(keys)
    let last = NO_ID
    for (;;) {
      const { rows } = await kernel.database.sql(COMPLETE, [last, started[0].at, LOOKED_UP_AT_ONCE])
      for (const { key, tenantId, backupId } of rows) if (!seen.has(key)) yield { key, tenantId, backupId }
      if (rows.length < LOOKED_UP_AT_ONCE) return
      last = rows.at(-1)?.backupId
    }
  }

  /** Removes an orphaned file, unless it has become the archive of a backup. */
  async removeOrphan(key: string): Promise<boolean> {
    const [orphan] = await this.#orphansAmong([key])
    if (!orphan?.isOurs) return false
    await archivesOf(this.#dependencies).delete(key)
    return true
  }

  async #orphansAmong(keys: readonly string[]): Promise<OrphanedFile[]> {
    const parsed = keys.map((key) => {
      const [tenantId = '', file = ''] = key.split('/')
      const [backupId = '', attempt = ''] = file.split('.')
      return { key, tenantId, backupId, attempt }
    })
    return (await this.#dependencies.kernel.database.sql(ORPHANED, [JSON.stringify(parsed)])).rows
  }
}

const LAST_COMPLETE = `
  select tenant_id as id, max(created_at) as at from multitenancy.backups
  where tenant_id = any ($1) and completed_at is not null and deleted_at is null group by tenant_id`

/** A tenant has one backup at a time, so backups end in the order of their requests. */
const FAILED_SINCE = `
  select backup.tenant_id as id, count(*) as count,
    (array_agg(transfer.failure->>'code' order by backup.created_at desc, backup.id desc))[1] as code
  from multitenancy.backups backup join multitenancy.transfers transfer on transfer.id = backup.id
  left join (${LAST_COMPLETE}) complete on complete.id = backup.tenant_id
  where backup.tenant_id = any ($1) and transfer.state = 'failed' and backup.deleted_at is null
    and backup.created_at > coalesce(complete.at, '-infinity')
  group by backup.tenant_id`

const NO_ID = '00000000-0000-0000-0000-000000000000'
/** Backups completed before the files were listed. */
const COMPLETE = `
  select archive as key, tenant_id as "tenantId", id as "backupId" from multitenancy.backups
  where id > $1 and archive is not null and deleted_at is null
    and exists (select from multitenancy.transfers where transfers.id = backups.id and finished_at < $2)
  order by id limit $3`

/**
 * Files that are not the archive of a completed or running backup. Ours: written by an attempt of a known backup.
 * Other files may belong to another installation, or be newer than a backoffice restored from a dump.
 */
const ORPHANED = `
  select file.key, backup.id is not null as "isOurs"
  from json_to_recordset($1::json) as file (key text, "tenantId" text, "backupId" text, attempt text)
  left join multitenancy.backups backup on backup.tenant_id = file."tenantId" and backup.id::text = file."backupId"
  left join multitenancy.transfers transfer on transfer.id = backup.id
  where backup.archive is distinct from file.key
    and (transfer.state in ('pending', 'running') and transfer.attempts::text = file.attempt) is not true
  order by file.key`
