/**
 * Settings of tenants: values and secrets that a host's code reads on each request.
 *
 *   value of the tenant ── else ──► `plans.<plan>.settings` ── else ──► default of the schema
 *
 * - Values are cached with the registry's entry of their tenant (cached-with-tenant.ts). Secrets are cached encrypted.
 * - A write locks its tenant and commits with its audit entry, its event and its notifications.
 * - A stored value that cannot be decrypted, or no longer matches its definition, is an error and never replaced by a default.
 */
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { Listeners } from '../../kernel/events/listeners.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { CachedWithTenant } from '../../tenants/registry/cached-with-tenant.ts'
import { lockExistingTenant, lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import type { Tenants } from '../../tenants/tenants.ts'
import {
  type Defined,
  type Definitions,
  fallbackOf,
  type SettingInput,
  type SettingValue,
  toText,
} from './definitions.ts'
import { SettingNotFound, SettingUnusable } from './errors.ts'
import { SettingChanged } from './events.ts'
import { decoded, encoded, holds, imageOf, matches } from './stored.ts'
import type { SettingRow, SettingTables } from './tables.ts'

const CHANNEL = 'multitenancy_settings'
const READ = {
  name: 'tenantry_read_settings',
  text: `select tenant_id as "tenantId", name, value, secret, updated_at as "updatedAt"
    from multitenancy.settings where tenant_id = $1`,
  timeoutMs: 5_000,
}

/** A setting of a tenant. */
export const Setting = z
  .object({
    name: z.string(),
    isSecret: z.boolean(),
    isSet: z.boolean().describe('Whether tenant, plan or default have a value'),
    source: z.enum(['tenant', 'plan', 'default']).nullable().describe('Origin of the value. Null without a value'),
    value: z.unknown().optional().describe('Absent for a secret, also of a former definition, and without a value'),
    updatedAt: z.iso
      .datetime()
      .nullable()
      .describe('Time of the last change by the tenant. Null without a value of the tenant'),
  })
  .meta({ id: 'Setting' })
export type Setting = z.output<typeof Setting>

/** @param tenantId undefined: changes of any tenant may have been missed */
export type SettingListener = (tenantId?: string, name?: string) => void

type Rows = ReadonlyMap<string, SettingRow>

export class Settings<Define extends Definitions = Definitions> {
  readonly kernel: Kernel
  readonly defined: ReadonlyMap<string, Defined>
  readonly #tenants: Tenants
  readonly #cached: CachedWithTenant<Rows>
  readonly #changes = new Listeners<Parameters<SettingListener>>()

  constructor(kernel: Kernel, tenants: Tenants, defined: ReadonlyMap<string, Defined>) {
    this.kernel = kernel
    this.defined = defined
    this.#tenants = tenants
    this.#cached = new CachedWithTenant(tenants.registry, (tenantId) => this.#read(tenantId))
  }

  /** Checks the settings of plans, and listens to changes of other processes. @throws E_INVALID_REQUEST */
  async start(): Promise<void> {
    for (const [plan, { settings = {} }] of Object.entries(this.#tenants.plans.describe().definitions)) {
      for (const [name, value] of Object.entries(settings)) {
        const path = `plans.definitions.${plan}.settings.${name}`
        const defined = this.defined.get(name)
        if (!defined) throw invalid([{ path, message: 'is not a defined setting' }])
        if (defined.isSecret) throw invalid([{ path, message: 'must not be a secret: plans are not encrypted' }])
        toText(defined, value, path)
      }
    }
    const emit: SettingListener = (...change) => this.#changes.emit(...change)
    await this.kernel.database.listen(CHANNEL, (change) => emit(...change.split(' ')), emit)
  }

  /**
   * The value for a tenant; undefined without a value and a default. Cached; in a transaction, it sees the transaction's changes.
   *
   * @throws E_TENANT_NOT_FOUND, E_SETTING_UNUSABLE, E_DEPENDENCY_UNAVAILABLE
   * @example const megabytes = await tenancy.settings.get('acme', 'upload.mb')
   */
  async get<Name extends keyof Define & string>(tenantId: string, name: Name): Promise<SettingValue<Define[Name]>> {
    const defined = this.#definition(name)
    const { tenant, value: rows } = await this.#cached.get(tenantId)
    const row = rows.get(name)
    const ofPlan = async () => (await this.#tenants.plans.resolve(tenant)).settings
    return (row ? this.#valueOf(defined, row) : fallbackOf(defined, await ofPlan())) as SettingValue<Define[Name]>
  }

  /** All defined settings of a tenant, by name, without secrets. Works for deleted tenants. @throws E_TENANT_NOT_FOUND */
  async list(tenantId: string): Promise<Setting[]> {
    const tenant = await this.#tenants.get(tenantId)
    const [rows, { settings }] = await Promise.all([this.#read(tenantId), this.#tenants.plans.resolve(tenant)])
    return [...this.defined.values()].map((defined) => shown(defined, rows.get(defined.name), settings))
  }

  /** As `list`, for one setting. @throws E_SETTING_NOT_FOUND */
  async describe(tenantId: string, name: string): Promise<Setting> {
    const position = [...this.defined.keys()].indexOf(this.#definition(name).name)
    return (await this.list(tenantId))[position] as Setting
  }

  /** As `describe`, and locks the tenant until the present transaction ends. */
  async lock(tenantId: string, name: string): Promise<Setting> {
    await lockExistingTenant(this.kernel.database, tenantId)
    return this.describe(tenantId, name)
  }

  /**
   * Sets the value of a tenant.
   *
   * @throws E_SETTING_NOT_FOUND, E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_INVALID_REQUEST
   * @example await tenancy.settings.set('acme', 'upload.mb', 50)
   */
  async set<Name extends keyof Define & string>(
    tenantId: string,
    name: Name,
    value: SettingInput<Define[Name]>,
  ): Promise<Setting> {
    const json = toText(this.#definition(name), value)
    await this.#change(tenantId, name, json)
    return this.describe(tenantId, name)
  }

  /** Deletes the value of a tenant: that of its plan or the default applies. Idempotent. @throws as `set` */
  async delete(tenantId: string, name: string): Promise<void> {
    await this.#change(tenantId, name, undefined)
  }

  /** The value, also of a secret, for operators. Each call is an audit entry. @throws as `get` */
  reveal(tenantId: string, name: string): Promise<{ name: string; isSet: boolean; value?: unknown }> {
    return this.kernel.database.transaction(async () => {
      const value: unknown = await this.get(tenantId, name)
      const target = targetOf(tenantId, name)
      await recordChange(this.kernel.events, { action: 'settings.reveal', tenantId, target, isChange: false })
      return { name, isSet: value !== undefined, value }
    })
  }

  /** Receives every change of settings by any process. Then `get` returns the new value. Returns a function that unsubscribes. */
  onChange(listener: SettingListener): () => void {
    return this.#changes.subscribe(listener)
  }

  #definition(name: string): Defined {
    const defined = this.defined.get(name)
    if (!defined)
      throw SettingNotFound(`Setting "${name}" not found. The host's settings({ define }) declares settings.`)
    return defined
  }

  /** @param json undefined deletes the value */
  async #change(tenantId: string, name: string, json: string | undefined): Promise<void> {
    const defined = this.#definition(name)
    const { database, events, secrets, clock } = this.kernel
    await database.transaction(async () => {
      await lockTenant(database, tenantId)
      const before = (await this.#read(tenantId)).get(name)
      if (json === undefined ? !before : before && holds(defined, before, json, secrets)) return
      const after = json === undefined ? undefined : encoded(defined, tenantId, json, secrets)
      const query = database.query<SettingTables>()
      await query.deleteFrom('settings').where('tenantId', '=', tenantId).where('name', '=', name).execute()
      if (after)
        await query
          .insertInto('settings')
          .values({ ...after, updatedAt: clock.now() })
          .execute()
      const isReplaced = defined.isSecret && before && after ? { isReplaced: true } : {}
      await recordChange(events, {
        action: after ? 'settings.set' : 'settings.delete',
        tenantId,
        target: targetOf(tenantId, name),
        before: imageOf(defined, before),
        after: after ? { ...imageOf(defined, after), ...isReplaced } : null,
      })
      await events.publish(SettingChanged, { tenantId, name, isSecret: defined.isSecret, isSet: after !== undefined })
      await this.#tenants.registry.changed(tenantId)
      await database.notify(CHANNEL, `${tenantId} ${name}`)
    })
  }

  #valueOf(defined: Defined, row: SettingRow): unknown {
    const json = decoded(row, this.kernel.secrets)
    if (json !== undefined && matches(defined, row, json)) return defined.schema.parse(JSON.parse(json))
    const reason = json === undefined ? 'cannot be decrypted' : 'does not match its definition'
    throw SettingUnusable(`Setting "${row.name}" of tenant "${row.tenantId}" ${reason}. Set it again, or delete it.`)
  }

  /** @throws E_DEPENDENCY_UNAVAILABLE */
  async #read(tenantId: string): Promise<Rows> {
    const { database, resilience } = this.kernel
    const { rows } = await resilience.whileAvailable(database.sql(READ, [tenantId]))
    return new Map((rows as SettingRow[]).map((row) => [row.name, row]))
  }
}

const targetOf = (tenantId: string, name: string): string => `setting:${tenantId}/${name}`

function shown(defined: Defined, row: SettingRow | undefined, ofPlan: Readonly<Record<string, unknown>>): Setting {
  const { name, isSecret } = defined
  const ofTenant = row && row.value !== null ? JSON.parse(row.value) : undefined
  const value = row ? ofTenant : fallbackOf(defined, ofPlan)
  const isSet = row !== undefined || value !== undefined
  const fallback = Object.hasOwn(ofPlan, name) ? 'plan' : 'default'
  return {
    name,
    isSecret,
    isSet,
    source: row ? 'tenant' : isSet ? fallback : null,
    ...(isSecret || value === undefined ? {} : { value }),
    updatedAt: row?.updatedAt.toISOString() ?? null,
  }
}
