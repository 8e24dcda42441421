/**
 * Stores flags. A write locks its tenant, so writes follow one another, and commits with its record, its event and its notification to
 * all processes. A write without a change has none of these.
 */
import { randomUUID } from 'node:crypto'
import type { PageOf, PageOptions } from '../../kernel/api/page.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertTenantExists, lockExistingTenant, lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import type { FlagChanges } from './cache/changes.ts'
import type { SharedFlags } from './cache/shared.ts'
import { FlagNotFound } from './model/errors.ts'
import { FeatureFlagChanged } from './model/events.ts'
import {
  type FeatureFlag,
  type FlagFilter,
  FlagKey,
  type FlagRequest,
  type FlagSettings,
  sameSettings,
  settingsIn,
  settingsOf,
  toFlag,
} from './model/flag.ts'
import type { FlagRow, FlagTables } from './model/tables.ts'
import { type FlagPreview, PreviewRequest, previewOf } from './preview.ts'

export interface FlagWritten {
  readonly flag: FeatureFlag
  readonly isCreated: boolean
}

export class FlagRecords {
  readonly #kernel: Kernel
  readonly #changes: FlagChanges
  readonly #shared: SharedFlags | undefined

  constructor(kernel: Kernel, changes: FlagChanges, shared: SharedFlags | undefined) {
    this.#kernel = kernel
    this.#changes = changes
    this.#shared = shared
  }

  async list(tenantId: string, page: PageOptions): Promise<PageOf<FeatureFlag>> {
    const { database, cursors } = this.#kernel
    await assertTenantExists(database, tenantId)
    const order = { columns: ['key'], direction: 'asc' } as const
    const keyset = { name: 'featureFlags', filters: [tenantId], order, item: toFlag }
    return cursors.keysetPage(this.#rows(tenantId), keyset, page)
  }

  /** Flags of all tenants with this key. */
  async listTenants(key: string, { enabled, ...page }: FlagFilter & PageOptions): Promise<PageOf<FeatureFlag>> {
    let rows = this.#kernel.database.query<FlagTables>().selectFrom('featureFlags').selectAll().where('key', '=', key)
    if (enabled !== undefined) rows = rows.where('enabled', '=', enabled)
    const order = { columns: ['tenantId'], direction: 'asc' } as const
    const keyset = { name: 'featureFlags.tenants', filters: [key, enabled], order, item: toFlag }
    return this.#kernel.cursors.keysetPage(rows, keyset, page)
  }

  async preview(tenantId: string, key: string, request: PreviewRequest): Promise<FlagPreview> {
    const { bucketKeys, ...edits } = parsed(PreviewRequest, request)
    await assertTenantExists(this.#kernel.database, tenantId)
    const present = (await this.#row(tenantId, parsed(FlagKey, key, 'key'))) ?? { enabled: false, rolloutPercent: null }
    const { enabled, rolloutPercent } = { ...present, ...edits }
    return previewOf({ key, enabled, rolloutPercent }, bucketKeys)
  }

  async get(tenantId: string, key: string): Promise<FeatureFlag> {
    await assertTenantExists(this.#kernel.database, tenantId)
    const row = await this.#row(tenantId, key)
    if (!row) throw notFound(tenantId, key)
    return toFlag(row)
  }

  async lock(tenantId: string, key: string): Promise<FeatureFlag | undefined> {
    await lockExistingTenant(this.#kernel.database, tenantId)
    const row = await this.#row(tenantId, key)
    return row && toFlag(row)
  }

  async set(tenantId: string, key: string, request: FlagRequest): Promise<FlagWritten> {
    const settings = settingsOf(request)
    return this.#write('featureFlags.set', tenantId, parsed(FlagKey, key, 'key'), () => settings)
  }

  async edit(tenantId: string, key: string, edits: Partial<FlagSettings>): Promise<FlagWritten> {
    return this.#write('featureFlags.edit', tenantId, parsed(FlagKey, key, 'key'), (before) =>
      settingsOf({ enabled: false, ...(before && settingsIn(before)), ...edits }),
    )
  }

  async delete(tenantId: string, key: string): Promise<void> {
    const { database } = this.#kernel
    await database.transaction(async () => {
      await lockTenant(database, tenantId)
      const before = await this.#row(tenantId, key)
      if (!before) throw notFound(tenantId, key)
      await this.#remove(tenantId).where('key', '=', key).execute()
      await this.#say('featureFlags.delete', before, settingsIn(before), null)
    })
  }

  async copy(sourceId: string, tenantId: string): Promise<void> {
    const rows = await this.#rows(sourceId).execute()
    if (rows.length === 0) return
    const now = this.#kernel.clock.now()
    const copies = rows.map((row) => ({ ...row, id: randomUUID(), tenantId, createdAt: now, updatedAt: now }))
    await this.#kernel.database.query<FlagTables>().insertInto('featureFlags').values(copies).execute()
    await this.#announce(
      tenantId,
      rows.map(({ key }) => key),
    )
  }

  /** Clears the caches of all processes after a purge. Entries in the store are purged with the tenant, or expire. */
  async forget(tenantId: string): Promise<void> {
    await this.#changes.notify(tenantId, undefined)
  }

  async #write(
    action: string,
    tenantId: string,
    key: string,
    next: (before: FlagRow | undefined) => FlagSettings,
  ): Promise<FlagWritten> {
    const { database, clock } = this.#kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId)
      const before = await this.#row(tenantId, key)
      const settings = next(before)
      if (before && sameSettings(before, settings)) return { flag: toFlag(before), isCreated: false }
      const now = clock.now()
      const row: FlagRow = {
        ...(before ?? { id: randomUUID(), tenantId, key, createdAt: now }),
        ...settings,
        updatedAt: now,
      }
      await this.#put(row)
      await this.#say(action, row, before ? settingsIn(before) : null, settings)
      return { flag: toFlag(row), isCreated: before === undefined }
    })
  }

  async #say(
    action: string,
    { tenantId, key }: FlagRow,
    before: FlagSettings | null,
    after: FlagSettings | null,
  ): Promise<void> {
    const { events } = this.#kernel
    await recordChange(events, { action, tenantId, target: `featureFlag:${key}`, before, after })
    await this.#announce(tenantId, [key])
    await events.publish(FeatureFlagChanged, { tenantId, key, before, after })
  }

  async #announce(tenantId: string, keys: readonly string[]): Promise<void> {
    await this.#shared?.announce(tenantId, keys)
    await this.#changes.notify(tenantId, keys, async () => this.#shared?.settle(tenantId, keys))
  }

  async #put({ id, tenantId, key, createdAt, ...settings }: FlagRow): Promise<void> {
    await this.#kernel.database
      .query<FlagTables>()
      .insertInto('featureFlags')
      .values({ id, tenantId, key, createdAt, ...settings })
      .onConflict((conflict) => conflict.columns(['tenantId', 'key']).doUpdateSet(settings))
      .execute()
  }

  #row(tenantId: string, key: string): Promise<FlagRow | undefined> {
    return this.#rows(tenantId).where('key', '=', key).executeTakeFirst()
  }

  #rows(tenantId: string) {
    return this.#kernel.database
      .query<FlagTables>()
      .selectFrom('featureFlags')
      .selectAll()
      .where('tenantId', '=', tenantId)
  }

  #remove(tenantId: string) {
    return this.#kernel.database.query<FlagTables>().deleteFrom('featureFlags').where('tenantId', '=', tenantId)
  }
}

const notFound = (tenantId: string, key: string) => FlagNotFound(`Flag "${key}" of tenant "${tenantId}" not found.`)
