/**
 * Updates name, metadata, domains and maintenance of tenants. The row is locked, so updates are serialized. Only actual
 * changes are recorded, and an update without changes writes nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import { sqlState, violatedConstraint } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { DomainTaken } from '../tenant/errors.ts'
import type { TenantRow, TenantTables } from '../tenant/tables.ts'
import { type TenantRecord, toTenant } from '../tenant/tenant.ts'
import type { Registry } from './registry.ts'
import { lockTenant } from './tenant-assertions.ts'

type UpdatableColumns = Pick<TenantRow, 'name' | 'metadata' | 'domains' | 'maintenance'>
type Key = keyof UpdatableColumns

const DEADLOCK = '40P01'

export interface TenantUpdate {
  /** The name of the operation; it may depend on the former values. */
  readonly action: string
  readonly next: (row: TenantRow, now: Date) => Partial<UpdatableColumns>
  /** Runs in the same transaction if something changed. */
  readonly changed: (keys: readonly Key[], before: TenantRow, after: TenantRow) => Promise<unknown>
}

export class TenantUpdates {
  readonly #kernel: Kernel
  readonly #registry: Registry

  constructor(kernel: Kernel, registry: Registry) {
    this.#kernel = kernel
    this.#registry = registry
  }

  run(id: string, { action, next, changed }: TenantUpdate): Promise<TenantRecord> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      const row = await lockTenant(database, id)
      const desired = next(row, clock.now())
      const keys = (Object.keys(desired) as Key[]).filter((key) => !isDeepStrictEqual(desired[key], row[key]))
      if (keys.length === 0) return toTenant(row)
      const updated = await database
        .query<TenantTables>()
        .updateTable('tenants')
        .set({ ...pick(desired, keys), updatedAt: clock.now() })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      await this.#registry.changed(id)
      await recordChange(events, {
        action,
        tenantId: id,
        target: `tenant:${id}`,
        before: pick(row, keys),
        after: pick(updated, keys),
      })
      await changed(keys, row, updated)
      return toTenant(updated)
    })
  }

  /** Replaces the domains of the tenant, or throws `E_DOMAIN_TAKEN`. */
  async claimDomains(tenantId: string, domains: readonly string[], hadSome = true): Promise<void> {
    const table = this.#kernel.database.query<TenantTables>()
    if (hadSome) await table.deleteFrom('tenantDomains').where('tenantId', '=', tenantId).execute()
    if (domains.length === 0) return
    try {
      await table
        .insertInto('tenantDomains')
        .values([...domains].sort().map((domain) => ({ domain, tenantId }))) // one order for all transactions prevents most deadlocks
        .execute()
    } catch (error) {
      // Two tenants that exchange domains concurrently can still deadlock. Then both requests are rejected.
      if (violatedConstraint(error) !== 'tenant_domains_pkey' && sqlState(error) !== DEADLOCK) throw error
      throw DomainTaken('One of the domains belongs to another tenant.', { cause: error })
    }
  }
}

const pick = (value: Partial<UpdatableColumns>, keys: readonly Key[]): Partial<UpdatableColumns> =>
  Object.fromEntries(keys.map((key) => [key, value[key]]))
