/**
 * The audit log: an entry for each change, written in the transaction of the change. Either both are there or neither; a
 * change whose entry cannot be written does not happen.
 *
 * Lists and exports go from the newest to the oldest by (created_at, id), so entries that are added meanwhile stand above
 * what is being read: nothing is shown twice and nothing left out. `created_at` is when the change was made; a transaction
 * that commits late puts its entry where it belongs by that, which a reading in progress may already have passed.
 */
import type { ChangeRecorded } from '../../kernel/changes.ts'
import { currentContext } from '../../kernel/context.ts'
import type { EventOf } from '../../kernel/events.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { DEFAULT_LIMIT, type PageOf } from '../../kernel/page.ts'
import { TenantNotFound } from '../../tenants/errors.ts'
import { tenantStatus } from '../../tenants/existing.ts'
import { type AuditEntry, toEntry } from './entry.ts'
import { type ExportFormat, FORMATS } from './export-format.ts'
import type { AuditEntryRow, AuditTables } from './tables.ts'

/** Entries of an export that are in memory at a time. */
export const ENTRIES_AT_ONCE = 200

export interface AuditFilter {
  /** Inclusive. */
  readonly from?: Date
  /** Exclusive. */
  readonly to?: Date
  /** The operation's dotted name. */
  readonly action?: string
  /** The id or the name of who did it. */
  readonly actor?: string
}

export interface AuditFilterOfAll extends AuditFilter {
  readonly tenantId?: string
}

interface PageWish {
  readonly limit?: number
  readonly cursor?: string
}

/** Where a reading goes on: below this entry. */
interface Position {
  readonly createdAt: Date
  readonly id: string
}

export class AuditLogs {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Adds the entry of a change. By hand, because it is part of every change: its SQL is always the same. */
  async append(change: EventOf<typeof ChangeRecorded>): Promise<void> {
    const { actor, requestId, ip } = currentContext()
    await this.#kernel.database.sql(
      `insert into multitenancy.audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target,
         before, after, request_id, ip, outcome, created_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
      [
        change.id,
        change.tenantId,
        change.action,
        actor.type,
        actor.id,
        actor.name,
        change.target,
        change.before,
        change.after,
        requestId,
        ip,
        change.outcome,
        change.occurredAt,
      ],
    )
  }

  /** A page of a tenant's entries, a purged tenant's too. `E_TENANT_NOT_FOUND` when there never was such a tenant. */
  async list(tenantId: string, wish: AuditFilter & PageWish = {}): Promise<PageOf<AuditEntry>> {
    await this.#assertKnown(tenantId)
    return this.listAll({ ...wish, tenantId })
  }

  /** A page of all tenants' entries, and of those that concern none. */
  async listAll({
    limit = DEFAULT_LIMIT,
    cursor,
    ...filter
  }: AuditFilterOfAll & PageWish = {}): Promise<PageOf<AuditEntry>> {
    const { tenantId, from, to, action, actor } = filter
    const list = `auditLogs ${JSON.stringify([tenantId, from, to, action, actor])}`
    const [createdAt, id] = this.#kernel.cursors.decode(list, cursor) ?? []
    const after = createdAt && id ? { createdAt: new Date(createdAt), id } : undefined
    const rows = await this.#read(filter, limit + 1, after)
    return this.#kernel.cursors.page(list, rows, limit, toEntry, (row) => [row.createdAt.toISOString(), row.id])
  }

  /** All of a tenant's entries as text. `E_TENANT_NOT_FOUND` as in `list`. */
  async export(tenantId: string, format: ExportFormat, filter: AuditFilter = {}): Promise<AsyncIterable<string>> {
    await this.#assertKnown(tenantId)
    return this.exportAll(format, { ...filter, tenantId })
  }

  /**
   * Everybody's entries as text, in pieces of a few at most, each read when the one before is taken. The first is read before
   * this resolves, so that a database that is away is an error and not a stream that breaks off.
   */
  async exportAll(format: ExportFormat, filter: AuditFilterOfAll = {}): Promise<AsyncIterable<string>> {
    return this.#pieces(format, filter, await this.#read(filter, ENTRIES_AT_ONCE))
  }

  async *#pieces(
    format: ExportFormat,
    filter: AuditFilterOfAll,
    first: readonly AuditEntryRow[],
  ): AsyncGenerator<string> {
    const { head, line } = FORMATS[format]
    let rows = first
    yield head + rows.map((row) => line(toEntry(row))).join('')
    while (rows.length === ENTRIES_AT_ONCE) {
      rows = await this.#read(filter, ENTRIES_AT_ONCE, rows.at(-1))
      if (rows.length > 0) yield rows.map((row) => line(toEntry(row))).join('')
    }
  }

  async #read(filter: AuditFilterOfAll, limit: number, after?: Position): Promise<AuditEntryRow[]> {
    const { tenantId, from, to, action, actor } = filter
    let query = this.#kernel.database
      .query<AuditTables>()
      .selectFrom('auditEntries')
      .selectAll()
      .orderBy('createdAt', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
    if (tenantId !== undefined) query = query.where('tenantId', '=', tenantId)
    if (from) query = query.where('createdAt', '>=', from)
    if (to) query = query.where('createdAt', '<', to)
    if (action !== undefined) query = query.where('action', '=', action)
    if (actor !== undefined) {
      query = query.where(({ eb, or }) => or([eb('actorId', '=', actor), eb('actorName', '=', actor)]))
    }
    if (after) {
      query = query.where(({ eb, refTuple, tuple }) =>
        eb(refTuple('createdAt', 'id'), '<', tuple(after.createdAt, after.id)),
      )
    }
    return query.execute()
  }

  /** A host may record a change for an id that is no tenant's; what was recorded can be read. */
  async #assertKnown(tenantId: string): Promise<void> {
    if ((await tenantStatus(this.#kernel.database, tenantId)) !== undefined) return
    const [entry] = await this.#read({ tenantId }, 1)
    if (!entry) throw TenantNotFound(`There is no tenant "${tenantId}", and never was.`)
  }
}
