/** What is wrong with transfers and backups, for the doctor. */
import type { TenantTables } from '../tables.ts'
import { toTenant } from '../tenant.ts'
import { archivesOf } from './backup.ts'
import { type BackupRunParts, retentionOf } from './backup-run.ts'
import type { TransferParts } from './parts.ts'

const HOUR_MS = 3_600_000
/** Nobody has been at work on it for longer. */
const STUCK_MS = 10 * 60_000
/** Of the interval between two backups, before one is missed. */
const LATE = 2

export interface StuckTransfer {
  readonly id: string
  readonly tenantId: string
  readonly kind: string
  readonly since: Date
}

export interface StaleTenant {
  readonly tenantId: string
  readonly everyHours: number
  /** Of the last backup that is complete. */
  readonly last: Date | null
}

/** A file that is no backup's archive. */
export interface StrayFile {
  readonly key: string
  /** Whether an attempt at a backup that is known here wrote it, so that nobody else can need it. */
  readonly isOurs: boolean
}

export class TransferState {
  readonly #parts: TransferParts
  readonly #run: BackupRunParts

  constructor(parts: TransferParts, run: BackupRunParts) {
    this.#parts = parts
    this.#run = run
  }

  async stuck(): Promise<StuckTransfer[]> {
    const { rows } = await this.#parts.kernel.database.sql(
      `select id, tenant_id as "tenantId", kind, coalesce(started_at, created_at) as since from multitenancy.transfers
       where state = 'running' and lease_until < now() - $1 * interval '1 millisecond' order by id`,
      [STUCK_MS],
    )
    return rows
  }

  /** Tenants whose last complete backup is older than it should be. */
  async *stale(): AsyncIterable<StaleTenant> {
    const { kernel } = this.#parts
    const { plans, settings } = this.#run
    const rows = await kernel.database
      .query<TenantTables>()
      .selectFrom('tenants')
      .selectAll('tenants')
      .select(({ selectFrom }) =>
        selectFrom('backups')
          .select(({ fn }) => fn.max<Date>('backups.createdAt').as('last'))
          .whereRef('backups.tenantId', '=', 'tenants.id')
          .where('backups.completedAt', 'is not', null)
          .where('backups.deletedAt', 'is', null)
          .as('last'),
      )
      .where('status', 'in', ['active', 'suspended'])
      .orderBy('id')
      .execute()
    for (const row of rows) {
      const { everyHours } = retentionOf(settings, (await plans.resolve(toTenant(row))).backups)
      if (everyHours === undefined) continue
      const before = kernel.clock.now().getTime() - everyHours * LATE * HOUR_MS
      const since = row.last ?? row.activatedAt ?? row.createdAt
      if (since.getTime() < before) yield { tenantId: row.id, everyHours, last: row.last }
    }
  }

  /** Undefined when the archives can be read and written. */
  async archivesFailure(): Promise<unknown> {
    try {
      await this.#parts.archives?.start()
      return undefined
    } catch (error) {
      return error
    }
  }

  /** Files where archives are kept that are not those of a backup here, and of none that is being made. */
  async *strayFiles(): AsyncIterable<StrayFile> {
    const { archives } = this.#parts
    if (!archives) return
    for await (const { key } of archives.list()) {
      const kind = await this.#kindOf(key)
      if (kind !== 'kept') yield { key, isOurs: kind === 'ours' }
    }
  }

  /** Removes one of them, unless it has become an archive meanwhile. */
  async removeStray(key: string): Promise<boolean> {
    if ((await this.#kindOf(key)) !== 'ours') return false
    await archivesOf(this.#parts).delete(key)
    return true
  }

  /**
   * `kept`: of a backup, or of one that is being made. `ours`: of an attempt at a backup that is known. Else it may be another installation's, or newer than this database, if that was brought back from a dump.
   */
  async #kindOf(key: string): Promise<'kept' | 'ours' | 'unknown'> {
    const [tenantId = '', file = ''] = key.split('/')
    const [backupId = '', attempt = ''] = file.split('.')
    const { rows } = await this.#parts.kernel.database.sql(
      `select backups.archive,
         transfers.state in ('pending', 'running') and transfers.attempts::text = $3 as "isBeingMade",
         backups.id is not null as "isKnown"
       from multitenancy.tenants
       left join multitenancy.backups on backups.tenant_id = tenants.id and backups.id::text = $2
       left join multitenancy.transfers on transfers.id = backups.id
       where tenants.id = $1`,
      [tenantId, backupId, attempt],
    )
    const [known] = rows
    if (!known) return 'unknown'
    if (known.archive === key || known.isBeingMade) return 'kept'
    return known.isKnown ? 'ours' : 'unknown'
  }
}
