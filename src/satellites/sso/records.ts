/**
 * Stores the settings of single sign-on, one row for each tenant.
 *
 * - A write locks the tenant first. So no deletion runs concurrently, and writes follow one another.
 * - The secret is encrypted with the tenant's id, and is sent only to the provider. It is removed when issuer or client changes.
 *   Otherwise an administrator without access to the secret could have it sent to another issuer.
 * - The path of a callback belongs to one issuer, because responses do not always name their provider (mix-up). Only the path, because
 *   `finish` may be behind a proxy. A lock serializes writers of one path. A deleted tenant keeps its path, because it may be restored.
 */
import type { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { lockExistingTenant, lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import { tenantNotFound } from '../../tenants/tenant/errors.ts'
import { TENANT_ID } from '../../tenants/tenant/tenant.ts'
import { SsoNotEnabled, SsoRedirectUriTaken } from './errors.ts'
import { DEFAULT_SCOPES, isLoopbackHttp, SsoRequest, type SsoSettings } from './settings.ts'
import type { SsoRow, SsoTables } from './tables.ts'

/** An unresponsive database would delay a login and occupy its connection for minutes. */
const TIMEOUT_MS = 5_000

/** One row for an existing tenant, without a version if it has no settings. */
const FIND = {
  name: 'tenantry_find_sso',
  text: `select t.id as "tenantId", s.issuer, s.client_id as "clientId", s.client_secret as "clientSecret", s.scopes,
      s.redirect_uri as "redirectUri", s.allowed_domains as "allowedDomains", s.enabled, s.enforced, s.version, s.updated_at as "updatedAt"
    from multitenancy.tenants t left join multitenancy.sso s on s.tenant_id = t.id where t.id = $1 and t.purged_at is null`,
  timeoutMs: TIMEOUT_MS,
}
const LOCK_PATH = `select pg_advisory_xact_lock(hashtextextended('tenantry sso callback ' || $1, 0))`
const TAKEN = `select tenant_id as "tenantId" from multitenancy.sso where tenant_id <> $1 and issuer <> $2
  and coalesce(nullif(regexp_replace(redirect_uri, '^[^:]*://[^/]*', ''), ''), '/') = $3 limit 1`

/** Enabled settings that a login needs. */
export interface Enabled {
  readonly tenantId: string
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | null
  readonly scopes: readonly string[]
  readonly redirectUri: string
  readonly allowedDomains: readonly string[]
  readonly version: number
}

type State = Omit<SsoRow, 'tenantId' | 'version' | 'updatedAt'>

const NOTHING: State = {
  issuer: null,
  clientId: null,
  clientSecret: null,
  scopes: DEFAULT_SCOPES,
  redirectUri: null,
  allowedDomains: [],
  enabled: false,
  enforced: false,
}

export class SsoRecords {
  readonly #kernel: Kernel

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async get(tenantId: string): Promise<SsoSettings> {
    const found = await this.#find(tenantId)
    if (!found) throw tenantNotFound(tenantId)
    return shown(found.row ?? NOTHING)
  }

  /** As `get`, and locks the state until the present transaction ends. */
  async lock(tenantId: string): Promise<SsoSettings> {
    await lockExistingTenant(this.#kernel.database, tenantId)
    return this.get(tenantId)
  }

  async update(tenantId: string, request: z.input<typeof SsoRequest>): Promise<SsoSettings> {
    const { provider: _, clientSecret, ...desired } = parsed(SsoRequest, request)
    const { egress } = this.#kernel
    if (desired.issuer !== null) egress.check(desired.issuer)
    if (desired.redirectUri !== null && isLoopbackHttp(desired.redirectUri)) egress.check(desired.redirectUri)
    return this.#changing(tenantId, 'sso.update', async (before) => {
      const isSameClient = before.issuer === desired.issuer && before.clientId === desired.clientId
      const isClient = desired.issuer !== null && desired.clientId !== null
      if (before.clientSecret !== null && clientSecret === undefined && isClient && !isSameClient) {
        throw invalid([{ path: 'clientSecret', message: 'is required (or null) with another issuer or clientId' }])
      }
      await this.#assertFree(tenantId, desired)
      const kept = isSameClient ? before.clientSecret : null
      return {
        ...desired,
        clientSecret: clientSecret === undefined ? kept : this.#encrypted(tenantId, clientSecret, kept),
      }
    })
  }

  /** Changes only the switches, so it can be enabled again. */
  disable(tenantId: string): Promise<SsoSettings> {
    return this.#changing(tenantId, 'sso.disable', async (before) => ({ ...before, enabled: false, enforced: false }))
  }

  async row(tenantId: string): Promise<SsoRow | undefined> {
    return (await this.#find(tenantId))?.row
  }

  /** @throws E_SSO_NOT_ENABLED */
  async enabled(tenantId: string): Promise<Enabled> {
    const row = await this.row(tenantId)
    if (!row?.enabled || row.issuer === null || row.clientId === null || row.redirectUri === null) {
      throw SsoNotEnabled('Single sign-on is not enabled for this tenant.')
    }
    const { issuer, clientId, redirectUri } = row
    return { ...row, issuer, clientId, redirectUri }
  }

  /** Whether it is enabled and enforced; undefined for an unknown tenant. */
  async isEnforced(tenantId: string): Promise<boolean | undefined> {
    const found = await this.#find(tenantId)
    return found && found.row?.enabled === true && found.row.enforced
  }

  /** @throws if its application key is not configured */
  decryptSecret({ tenantId, clientSecret }: Pick<SsoRow, 'tenantId' | 'clientSecret'>): string | undefined {
    return clientSecret === null ? undefined : this.#kernel.secrets.decrypt(clientSecret, bindingOf(tenantId))
  }

  /** Whether the secret, if any, is encrypted with the present application key. */
  isCurrent({ clientSecret }: Pick<SsoRow, 'clientSecret'>): boolean {
    return clientSecret === null || this.#kernel.secrets.isCurrent(clientSecret)
  }

  /** Rows with a secret or enabled ones, without deleted tenants. */
  async all(): Promise<readonly SsoRow[]> {
    return this.#rows()
      .where(({ or, eb }) => or([eb('enabled', '=', true), eb('clientSecret', 'is not', null)]))
      .where(
        'tenantId',
        'in',
        this.#kernel.database
          .query<{ tenants: { id: string; status: string } }>()
          .selectFrom('tenants')
          .select('id')
          .where('status', '!=', 'deleted'),
      )
      .orderBy('tenantId')
      .execute()
  }

  async #changing(tenantId: string, action: string, next: (before: State) => Promise<State>): Promise<SsoSettings> {
    const { database, events, clock } = this.#kernel
    return database.transaction(async () => {
      await lockTenant(database, tenantId)
      const row = await this.row(tenantId)
      const before: State = row ?? NOTHING
      const after = await next(before)
      const [was, is] = [shown(before), shown(after)]
      const changed = MEMBERS.filter((member) => JSON.stringify(was[member]) !== JSON.stringify(is[member]))
      const isSecretReplaced = before.clientSecret !== after.clientSecret && was.clientSecretSet && is.clientSecretSet
      if (changed.length === 0 && !isSecretReplaced) return was
      const set = { ...after, version: (row?.version ?? 0) + 1, updatedAt: clock.now() }
      await database
        .query<SsoTables>()
        .insertInto('sso')
        .values({ tenantId, ...set })
        .onConflict((conflict) => conflict.column('tenantId').doUpdateSet(set))
        .execute()
      await recordChange(events, {
        action,
        tenantId,
        target: `sso:${tenantId}`,
        before: pick(was, changed),
        after: { ...pick(is, changed), ...(isSecretReplaced ? { clientSecretReplaced: true } : {}) },
      })
      return is
    })
  }

  /** @throws E_DEPENDENCY_UNAVAILABLE */
  async #find(tenantId: string): Promise<{ readonly row: SsoRow | undefined } | undefined> {
    if (!TENANT_ID.test(tenantId)) return undefined
    const { database, resilience } = this.#kernel
    const [row] = (await resilience.whileAvailable(database.sql(FIND, [tenantId]))).rows
    return row && { row: row.version === null ? undefined : row }
  }

  /** Locks the path of the callback until the transaction ends. */
  async #assertFree(tenantId: string, { issuer, redirectUri }: Pick<State, 'issuer' | 'redirectUri'>): Promise<void> {
    if (issuer === null || redirectUri === null) return
    const { database, log } = this.#kernel
    const path = pathOf(redirectUri)
    await database.sql(LOCK_PATH, [path])
    const [taken] = (await database.sql(TAKEN, [tenantId, issuer, path])).rows
    if (!taken) return
    log.info(
      { tenantId, takenBy: taken.tenantId, path },
      'a callback was rejected because a tenant of another issuer has its path',
    )
    throw SsoRedirectUriTaken('A tenant with another issuer has the path of this redirectUri. Choose another path.')
  }

  /** Keeps the ciphertext of an equal secret, so that setting it again changes nothing. */
  #encrypted(tenantId: string, secret: string | null, kept: string | null): string | null {
    if (secret === null) return null
    return kept !== null && this.#opens(tenantId, kept, secret)
      ? kept
      : this.#kernel.secrets.encrypt(secret, bindingOf(tenantId))
  }

  #opens(tenantId: string, clientSecret: string, secret: string): boolean {
    try {
      return this.decryptSecret({ tenantId, clientSecret }) === secret
    } catch {
      return false // undecryptable: the new secret replaces it
    }
  }

  #rows() {
    return this.#kernel.database.query<SsoTables>().selectFrom('sso').selectAll()
  }
}

/** Of a callback. */
export const pathOf = (redirectUri: string): string => new URL(redirectUri).pathname

/** Context that the encrypted secret is bound to. */
export const bindingOf = (tenantId: string): string => `sso ${tenantId}`

const shown = ({
  issuer,
  clientId,
  clientSecret,
  scopes,
  redirectUri,
  allowedDomains,
  enabled,
  enforced,
}: State): SsoSettings => ({
  provider: 'oidc',
  issuer,
  clientId,
  clientSecretSet: clientSecret !== null,
  scopes,
  redirectUri,
  allowedDomains,
  enabled,
  enforced,
})

const MEMBERS = Object.keys(shown(NOTHING)) as (keyof SsoSettings)[]

const pick = (settings: SsoSettings, members: readonly (keyof SsoSettings)[]): Partial<SsoSettings> =>
  Object.fromEntries(members.map((member) => [member, settings[member]]))
