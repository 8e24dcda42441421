/**
 * How a tenant presents itself: name, logo, colours, where its mail comes from. One row per tenant, made by the first write.
 *
 * A write locks the tenant first: it cannot be deleted meanwhile, and of two writes one comes after the other, so that each
 * change is recorded with what really was there before.
 */
import type { z } from 'zod'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { assertTenantExists, lockExistingTenant, lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import { BrandingRequest, type BrandingSettings, MEMBERS, NO_BRANDING } from './settings.ts'
import type { BrandingTables } from './tables.ts'

export class Branding {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** All null while nothing is set. `E_TENANT_NOT_FOUND`; a deleted tenant still has its brand. */
  async get(tenantId: string): Promise<BrandingSettings> {
    await assertTenantExists(this.#kernel.database, tenantId)
    return this.#read(tenantId)
  }

  /** As `get`; it stays so until the transaction in progress ends. */
  async lock(tenantId: string): Promise<BrandingSettings> {
    await lockExistingTenant(this.#kernel.database, tenantId)
    return this.#read(tenantId)
  }

  /** Full state: what is left out becomes null. `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when deleted, or a 400. */
  async update(tenantId: string, request: z.input<typeof BrandingRequest>): Promise<BrandingSettings> {
    const after = parsed(BrandingRequest, request)
    const { database, events } = this.#kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId)
      const before = await this.#read(tenantId)
      const changed = MEMBERS.filter((member) => before[member] !== after[member])
      if (changed.length === 0) return before
      await this.#write(tenantId, after)
      await recordChange(events, {
        action: 'branding.update',
        tenantId,
        target: `branding:${tenantId}`,
        before: pick(before, changed),
        after: pick(after, changed),
      })
      return after
    })
  }

  /** Gives a clone what the tenant has that it was made from; in the transaction that makes it active. */
  async copy(sourceId: string, tenantId: string): Promise<void> {
    const settings = await this.#read(sourceId)
    if (MEMBERS.some((member) => settings[member] !== null)) await this.#write(tenantId, settings)
  }

  /** Removes what a purged tenant had. */
  async #read(tenantId: string): Promise<BrandingSettings> {
    const row = await this.#kernel.database
      .query<BrandingTables>()
      .selectFrom('branding')
      .select(MEMBERS)
      .where('tenantId', '=', tenantId)
      .executeTakeFirst()
    return row ?? NO_BRANDING
  }

  async #write(tenantId: string, settings: BrandingSettings): Promise<void> {
    const row = { ...settings, updatedAt: this.#kernel.clock.now() }
    await this.#kernel.database
      .query<BrandingTables>()
      .insertInto('branding')
      .values({ tenantId, ...row })
      .onConflict((conflict) => conflict.column('tenantId').doUpdateSet(row))
      .execute()
  }
}

const pick = (settings: BrandingSettings, members: readonly (keyof BrandingSettings)[]): Partial<BrandingSettings> =>
  Object.fromEntries(members.map((member) => [member, settings[member]]))
