/**
 * The audit log: one entry for each change, written in the transaction of the change.
 *
 * Lists and exports go from the newest to the oldest entry by (created_at, id), so concurrent inserts cause no gaps or repeats.
 * `created_at` is the time of the change. A transaction that commits late inserts its entry at that time, which a concurrent read may
 * have passed already.
 */
import { sql } from 'kysely'
import type { ExportFormat } from '../../kernel/api/export-format.ts'
import { keysetQuery, NEWEST_FIRST, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { NotFound } from '../../kernel/base/errors.ts'
import { isUuid } from '../../kernel/base/ids.ts'
import type { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { NIL_UUID, type TimelineRequest } from '../../kernel/shares/contributions.ts'
import { tenantStatus } from '../../tenants/registry/tenant-assertions.ts'
import { tenantNotFound } from '../../tenants/tenant/errors.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import { reportMac, waitingMac } from './chain.ts'
import { COLUMNS, MEMBERS, valuesOf } from './columns.ts'
import { FORMATS } from './export-format.ts'
import { DataKeys } from './fields/data-keys.ts'
import { decryptFields, type EntryFields, encryptFields } from './fields/fields.ts'
import { type FacetFilter, type Facets, facetsOf } from './history/facets.ts'
import { MAX_ENTRIES, ofStates, type TenantAt, type Times, tenantAt } from './history/tenant-at.ts'
import { type AuditEntry, toEntry } from './model/entry.ts'
import { entryOf } from './model/entry-of-change.ts'
import { isAhead } from './model/seal-watermark.ts'
import { type AuditTables, inOurTime, type SealedEntryRow, STORED_REQUEST, STORED_TARGET } from './model/tables.ts'
import { Months } from './months.ts'
import { FailedVerifications } from './overview/failed-verification.ts'
import { SealKeyStore } from './seal-key-store.ts'
import { Sealer } from './sealer.ts'
import { auditStream } from './stream.ts'
import { type Verification, Verifier, type VerifyOptions } from './verification.ts'

/** Entries of an export in memory at a time. */
export const ENTRIES_AT_ONCE = 200

/** A prepared statement, because every change runs it. */
const INSERT = {
  name: 'append-audit-entry',
  text: `insert into multitenancy.audit_entries (${COLUMNS.join(', ')}, mac)
    values (${[...COLUMNS, 'mac'].map((_, index) => `$${index + 1}`).join(', ')})`,
}

export interface AuditFilter {
  /** Inclusive. */
  readonly from?: Date
  /** Exclusive. */
  readonly to?: Date
  /** Dotted name of the operation. */
  readonly action?: string
  /** Id or name of the actor. */
  readonly actor?: string
  /** The changed object: `webhook:<id>`. */
  readonly target?: string
  readonly requestId?: string
}

export interface AuditFilterOfAll extends AuditFilter {
  readonly tenantId?: string
}

type KnownTenants = Pick<Tenants, 'registry' | 'plans'>

export class AuditLogs {
  readonly sealer: Sealer
  readonly months: Months
  readonly failedVerifications: FailedVerifications
  readonly dataKeys: DataKeys
  /** Of the backoffice. */
  readonly database: Kernel['database']
  readonly #kernel: Kernel
  readonly #keyStore: SealKeyStore
  readonly #verifier: Verifier
  readonly #tenants: KnownTenants
  readonly #isEncrypting: boolean

  /**
   * @param retentionDays undefined: entries are kept without a limit
   * @param fields whether new entries of tenants are encrypted with a key per tenant
   */
  constructor(kernel: Kernel, tenants: KnownTenants, retentionDays?: number, fields: 'keep' | 'encrypt' = 'keep') {
    this.#kernel = kernel
    this.#tenants = tenants
    this.#isEncrypting = fields === 'encrypt'
    this.database = kernel.database
    this.dataKeys = new DataKeys(kernel)
    this.#keyStore = new SealKeyStore(kernel)
    this.sealer = new Sealer(kernel, this.#keyStore)
    this.months = new Months(kernel, this.#keyStore, retentionDays)
    this.#verifier = new Verifier(kernel, this.#keyStore)
    this.failedVerifications = new FailedVerifications(kernel)
    kernel.streams.register(auditStream(kernel.database, (entries) => this.#decrypted(entries)))
  }

  /** Adds the entry of a change. */
  async append(change: EventOf<typeof ChangeRecorded>): Promise<void> {
    const entry = entryOf(change, currentContext())
    const isEncrypted = this.#isEncrypting && entry.tenantId !== null
    const stored = isEncrypted ? encryptFields(entry, await this.dataKeys.forWriting(entry.tenantId ?? '')) : entry
    const values = valuesOf(stored)
    const mac = waitingMac(await this.#keyStore.key(), values)
    await this.#kernel.database.sql(INSERT, [...values, mac])
  }

  /** A page of a tenant's entries, also of a purged tenant. @throws E_TENANT_NOT_FOUND for an id without a tenant and without entries */
  async list(tenantId: string, options: AuditFilter & PageOptions = {}): Promise<PageOf<AuditEntry>> {
    await this.#assertKnown(tenantId)
    return this.listAll({ ...options, tenantId })
  }

  /** A page of all entries, including those without a tenant. */
  async listAll({ limit, cursor, ...filter }: AuditFilterOfAll & PageOptions = {}): Promise<PageOf<AuditEntry>> {
    const { tenantId, from, to, action, actor, target, requestId } = filter
    const filters = [tenantId, from, to, action, actor, target, requestId]
    const keyset = { name: 'auditLogs', filters, order: NEWEST_FIRST, item: (row: SealedEntryRow) => row }
    const page = await this.#kernel.cursors.keysetPage(this.#query(filter), keyset, { limit, cursor })
    return { ...page, data: (await this.#decrypted(page.data)).map(toEntry) }
  }

  /** @throws E_NOT_FOUND */
  async get(entryId: string): Promise<AuditEntry> {
    const row = isUuid(entryId) ? await this.#entry(entryId) : undefined
    if (!row) throw NotFound('Audit entry not found.')
    const [entry] = await this.#decrypted([row])
    return toEntry(entry ?? row)
  }

  /** Actions, actors and targets of the newest entries, the most frequent first: values for filters. */
  facets(filter: FacetFilter = {}): Promise<Facets> {
    return facetsOf(this.database, this.dataKeys, filter)
  }

  /**
   * A tenant and its objects at a time, reconstructed from the log, and the changes from then to `until`. It is as complete as the log.
   *
   * @throws E_TENANT_NOT_FOUND as `list`
   * @example const { objects } = await tenancy.auditLogs.at('acme', { time: new Date('2026-11-20') })
   */
  async at(tenantId: string, times: Times): Promise<TenantAt> {
    await this.#assertKnown(tenantId)
    const { registry, plans } = this.#tenants
    const present = (await registry.find(tenantId))?.tenant // before the entries: they have the state before a later change
    const query = this.#query({ tenantId }).where(ofStates)
    const stored = await keysetQuery(query, NEWEST_FIRST, undefined, MAX_ENTRIES + 1).execute()
    const now = this.#kernel.clock.now()
    return tenantAt({ tenantId, present, plans, now, stored, entries: await this.#decrypted(stored) }, times)
  }

  /** All entries of a tenant as text. @throws E_TENANT_NOT_FOUND as `list` */
  async export(tenantId: string, format: ExportFormat, filter: AuditFilter = {}): Promise<AsyncIterable<string>> {
    await this.#assertKnown(tenantId)
    return this.exportAll(format, { ...filter, tenantId })
  }

  /**
   * All entries as text, in parts that are read on demand. The first part is read before this resolves, so an unavailable database is
   * an error and not an interrupted stream.
   */
  async exportAll(format: ExportFormat, filter: AuditFilterOfAll = {}): Promise<AsyncIterable<string>> {
    return this.#pieces(format, filter, await this.#read(filter, ENTRIES_AT_ONCE))
  }

  /** Verifies the chains of seals and reports tampering. @throws E_TENANT_NOT_FOUND as `list` */
  async verify(options: VerifyOptions = {}): Promise<Verification> {
    if (options.tenantId !== undefined) await this.#assertKnown(options.tenantId)
    const verification = await this.#verifier.verify(options)
    await this.failedVerifications.keep(verification, options.tenantId)
    return verification
  }

  /** Entries of a tenant for its timeline. */
  async changes({ tenantId, before, from, limit, actions }: TimelineRequest): Promise<AuditEntry[]> {
    const ofTenant = this.#query({ tenantId, ...(from ? { from } : {}) })
    const query = actions ? ofTenant.where('action', 'in', actions) : ofTenant
    const after = { createdAt: before.at, id: before.id || NIL_UUID }
    return (await this.#decrypted(await keysetQuery(query, NEWEST_FIRST, after, limit).execute())).map(toEntry)
  }

  /** Signs the report of an erasure with the key of the seals. */
  async signReport(text: string): Promise<string> {
    return reportMac(await this.#keyStore.key(), text)
  }

  /** Entries that have waited longer than `minutes` for their seals, and the state of the seal key. */
  async sealing(minutes: number) {
    return { ...(await this.unsealed(minutes)), ...(await this.#keyStore.state()) }
  }

  /** Number of entries that have waited longer than `minutes` for their seals, and the time of the oldest. */
  async unsealed(minutes: number): Promise<{ waiting: number; since: Date | null }> {
    const { database } = this.#kernel
    const { rows } = await database.sql(
      `select count(*)::int as waiting, min(created_at) as since from multitenancy.audit_entries e
       where created_at < $1 and ${inOurTime('e')} and ${isAhead('e')}
         and not exists (select from multitenancy.audit_seals s where s.entry_id = e.id)`,
      [new Date(this.#kernel.clock.now().getTime() - minutes * 60_000)],
    )
    return rows[0]
  }

  async *#pieces(
    format: ExportFormat,
    filter: AuditFilterOfAll,
    first: readonly SealedEntryRow[],
  ): AsyncGenerator<string> {
    const { head, line } = FORMATS[format]
    let rows = first
    const text = async () => (await this.#decrypted(rows)).map((row) => line(toEntry(row))).join('')
    yield head + (await text())
    while (rows.length === ENTRIES_AT_ONCE) {
      rows = await this.#read(filter, ENTRIES_AT_ONCE, rows.at(-1))
      if (rows.length > 0) yield await text()
    }
  }

  #decrypted<Entry extends EntryFields>(entries: readonly Entry[]): Promise<Entry[]> {
    return decryptFields(this.dataKeys, entries)
  }

  #read(filter: AuditFilterOfAll, limit: number, after?: SealedEntryRow): Promise<SealedEntryRow[]> {
    return keysetQuery(this.#query(filter), NEWEST_FIRST, after, limit).execute()
  }

  /** A sealed entry is found by its seal, another one among those that the sealer would read. */
  async #entry(id: string): Promise<SealedEntryRow | undefined> {
    const { database } = this.#kernel
    const { rows: seals } = await database.sql(
      'select created_at as "createdAt" from multitenancy.audit_seals where entry_id = $1',
      [id],
    )
    const entries = this.#query({}).where('id', '=', id)
    const sealed = seals.length > 0 ? entries.where('createdAt', '=', seals[0].createdAt) : undefined
    const ahead = entries.where(sql.raw<boolean>(isAhead('audit_entries')))
    return (await sealed?.executeTakeFirst()) ?? ahead.executeTakeFirst()
  }

  #query({ tenantId, from, to, action, actor, target, requestId }: AuditFilterOfAll) {
    let query = this.#kernel.database
      .query<AuditTables>()
      .selectFrom('auditEntries')
      .select(MEMBERS)
      .select(({ selectFrom }) =>
        selectFrom('auditSeals').select('hash').whereRef('entryId', '=', 'auditEntries.id').as('hash'),
      )
      .where(sql.raw<boolean>(inOurTime('audit_entries')))
    if (tenantId !== undefined) query = query.where('tenantId', '=', tenantId)
    if (from) query = query.where('createdAt', '>=', from)
    if (to) query = query.where('createdAt', '<', to)
    if (action !== undefined) query = query.where('action', '=', action)
    if (actor !== undefined) {
      query = query.where(({ eb, or }) => or([eb('actorId', '=', actor), eb('actorName', '=', actor)]))
    }
    if (target !== undefined) {
      query = query.where('target', '=', target).where(sql`${sql.raw(STORED_TARGET)}`, '=', sql`left(${target}, 256)`)
    }
    if (requestId !== undefined) {
      query = query
        .where('requestId', '=', requestId)
        .where(sql`${sql.raw(STORED_REQUEST)}`, '=', sql`left(${requestId}, 128)`)
    }
    return query
  }

  /** A host may record a change for an id without a tenant; such entries are readable. */
  async #assertKnown(tenantId: string): Promise<void> {
    if ((await tenantStatus(this.#kernel.database, tenantId)) !== undefined) return
    const [entry] = await this.#read({ tenantId }, 1)
    if (!entry) throw tenantNotFound(tenantId, ', and the audit log has no entry of it')
  }
}
