/**
 * Branding of a tenant: name, logo, colours, sender of mail, style sheet. One row for each tenant.
 *
 * An update locks the tenant first. So no deletion runs concurrently, and each change is recorded with the state that it replaced.
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

  /** All members are null without settings. Works for deleted tenants. @throws E_TENANT_NOT_FOUND */
  async get(tenantId: string): Promise<BrandingSettings> {
    await assertTenantExists(this.#kernel.database, tenantId)
    return this.#read(tenantId)
  }

  /** As `get`, and locks the state until the present transaction ends. */
  async lock(tenantId: string): Promise<BrandingSettings> {
    await lockExistingTenant(this.#kernel.database, tenantId)
    return this.#read(tenantId)
  }

  /**
   * Replaces the complete state: an absent member becomes null.
   *
   * @throws E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_INVALID_REQUEST
   * @example await tenancy.branding.update('acme', { displayName: 'Acme Ltd', primaryColor: '#1a2b3c' })
   */
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

  /** Copies the branding of the source to a clone, in the transaction that activates the clone. */
  async copy(sourceId: string, tenantId: string): Promise<void> {
    const settings = await this.#read(sourceId)
    if (MEMBERS.some((member) => settings[member] !== null)) await this.#write(tenantId, settings)
  }

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
