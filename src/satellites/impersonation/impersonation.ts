/**
 * Sessions in which an administrator acts for a tenant's user: with a reason, for an hour at most, at the host's routes.
 *
 * 1. A token belongs to one tenant and one user. It is returned once; only its hash is stored.
 * 2. Each request commits an entry with both actors before it runs. A request that cannot be recorded is rejected.
 * 3. An ended session is invalid immediately: a request holds the session while its entry is written, so no entry follows the end.
 *    The server ends a transaction that holds a session for too long, and the end of a session waits for a limited time.
 * 4. The deletion of a tenant ends its sessions in the same transaction. A restore starts none again.
 */

import type { PageOf } from '../../kernel/api/page.ts'
import {
  type ActiveImpersonation,
  type Actor,
  currentContext,
  enterContext,
  impersonated,
} from '../../kernel/base/context.ts'
import { invalid, NotFound, TenancyError } from '../../kernel/base/errors.ts'
import { isUuid } from '../../kernel/base/ids.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import { type Change, ChangeRecorded, recordChange } from '../../kernel/events/changes.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import type { ImpersonatedRequest, ImpersonationAuthenticator } from '../../tenants/guard/impersonation-hook.ts'
import { assertTenantExists, lockTenant } from '../../tenants/registry/tenant-assertions.ts'
import { Forbidden, ImpersonationInvalid } from './errors.ts'
import { ImpersonationEnded, ImpersonationStarted } from './events.ts'
import { type Impersonation, type ImpersonationWithToken, toActive, toImpersonation } from './resource.ts'
import { type ListOptions, Sessions } from './sessions.ts'
import { type Durations, NewImpersonationBy } from './settings.ts'
import type { ImpersonationRow } from './tables.ts'
import { hashOf, newToken } from './token.ts'

/** Time limit of an entry. After it, the request is rejected. */
const RECORD_TIMEOUT_MS = 5_000
const PATH_LENGTH = 2_000

type ListAllOptions = Partial<ListOptions> & { readonly tenantId?: string | undefined }

/** Session and actor of an accepted request. */
interface Authenticated {
  readonly tenantId: string
  readonly token: string
  readonly impersonation: ActiveImpersonation
}

export class Impersonations {
  readonly #kernel: Kernel
  readonly #sessions: Sessions
  readonly #durations: Durations
  readonly #authenticated = new WeakMap<object, Authenticated>()

  constructor(kernel: Kernel, durations: Durations) {
    this.#kernel = kernel
    this.#sessions = new Sessions(kernel)
    this.#durations = durations
  }

  /**
   * Starts a session and returns its token, once. `actor` names the administrator, by default the actor of the context.
   *
   * @throws E_TENANT_NOT_FOUND, E_TENANT_STATE for a deleted tenant, E_FORBIDDEN in the name of a user, E_INVALID_REQUEST
   * @example
   * const { token } = await tenancy.impersonation.start('acme', { userId: 'u-1', reason: 'Ticket 4711' })
   */
  async start(tenantId: string, request: NewImpersonationBy): Promise<ImpersonationWithToken> {
    const {
      userId,
      reason,
      actor: named,
      durationSeconds = this.#durations.defaultSeconds,
    } = parsed(NewImpersonationBy, request)
    const { maxSeconds } = this.#durations
    if (durationSeconds > maxSeconds)
      throw invalid([{ path: 'durationSeconds', message: `must be at most ${maxSeconds}` }])
    const context = currentContext()
    if (context.impersonation) throw Forbidden('An impersonated user cannot start an impersonation.')
    const actor: Actor = named ? { type: 'host', id: named.id, name: named.name ?? named.id } : context.actor
    const token = newToken()
    const { database, events } = this.#kernel
    const begin = async (): Promise<ImpersonationRow> => {
      await lockTenant(database, tenantId)
      const session = { tenantId, userId, reason, tokenHash: hashOf(token) ?? '' }
      const by = { actorType: actor.type, actorId: actor.id, actorName: actor.name }
      const row = await this.#sessions.insert({ ...session, ...by }, durationSeconds)
      const expiresAt = row.expiresAt.toISOString()
      await recordChange(events, { ...changeOf('start', row), after: { userId, reason, expiresAt } })
      await events.publish(ImpersonationStarted, { tenantId, sessionId: row.id, userId, reason, expiresAt })
      return row
    }
    const row = await enterContext({ ...context, actor }, () => database.transaction(begin))
    return { ...toImpersonation(row), token }
  }

  /** Ends a session. An expired or ended session stays unchanged. @throws E_NOT_FOUND */
  async end(sessionId: string): Promise<Impersonation> {
    const { database } = this.#kernel
    const isOurs = !database.inTransaction
    const end = async () => {
      if (isOurs) await this.#sessions.limit()
      return this.#end(sessionId)
    }
    const row = isUuid(sessionId) ? await database.transaction(end) : undefined
    if (!row) throw NotFound('Impersonation not found.')
    return toImpersonation(row)
  }

  /** Sessions of a tenant, the newest first; of a deleted tenant until its purge. @throws E_TENANT_NOT_FOUND */
  async list(tenantId: string, { limit = 50, ...options }: Partial<ListOptions> = {}): Promise<PageOf<Impersonation>> {
    await assertTenantExists(this.#kernel.database, tenantId)
    return this.#sessions.list(tenantId, { ...options, limit })
  }

  /** Sessions for the timeline of a tenant, the newest first. @param from inclusive */
  startedBefore(...range: Parameters<Sessions['startedBefore']>): Promise<ImpersonationRow[]> {
    return this.#sessions.startedBefore(...range)
  }

  /** As `list`, of all tenants or of one, which may be unknown. */
  async listAll({ limit = 50, tenantId, ...options }: ListAllOptions = {}): Promise<PageOf<Impersonation>> {
    return this.#sessions.list(tenantId, { ...options, limit })
  }

  /** The active session of a token; records nothing. @throws E_IMPERSONATION_INVALID, E_DEPENDENCY_UNAVAILABLE */
  async verify(tenantId: string, token: string): Promise<ActiveImpersonation> {
    const tokenHash = hashOf(token)
    if (tokenHash === undefined) return active(undefined)
    return active(await this.#kernel.resilience.whileAvailable(this.#sessions.find(tenantId, tokenHash)))
  }

  /** Prepares the check of a route, once for all requests. Throws if no listener records changes: the audit log is disabled. */
  authenticator(): ImpersonationAuthenticator {
    if (!this.#kernel.events.hasHandlersWithin(ChangeRecorded)) {
      throw new Error('impersonation: requests could not be recorded; the tenancy requires the satellite auditLogs')
    }
    return { authenticate: (tenantId, token, request) => this.#authenticateOnce(tenantId, token, request) }
  }

  /** Runs in the transaction that deletes the tenant; the audit entry of the deletion covers the ended sessions. */
  async endAll(tenantId: string): Promise<void> {
    for (const row of await this.#sessions.end({ tenantId })) await this.#say(row, 'tenant-deleted')
  }

  /** The guard's `authorize` and the middleware may both call this; one request has one entry. */
  async #authenticateOnce(tenantId: string, token: string, request: ImpersonatedRequest): Promise<ActiveImpersonation> {
    const { raw } = request
    const known = raw && this.#authenticated.get(raw)
    if (known && known.tenantId === tenantId && known.token === token) return known.impersonation
    const impersonation = await this.#authenticate(tenantId, token, request)
    if (raw) this.#authenticated.set(raw, { tenantId, token, impersonation })
    return impersonation
  }

  async #authenticate(tenantId: string, token: string, request: ImpersonatedRequest): Promise<ActiveImpersonation> {
    const tokenHash = hashOf(token)
    if (tokenHash === undefined) throw notValid()
    const { database } = this.#kernel
    const authenticated = database.outside(() =>
      database.transaction(async () => {
        await this.#sessions.limit()
        const impersonation = active(await this.#sessions.hold(tenantId, tokenHash))
        const path = request.path.replaceAll(token, '…').slice(0, PATH_LENGTH)
        await this.#record(tenantId, impersonation, request.method, path)
        return impersonation
      }),
    )
    try {
      return await withTimeout(
        authenticated,
        RECORD_TIMEOUT_MS,
        () => new Error('the entry was not written before the time limit'),
      )
    } catch (error) {
      if (error instanceof TenancyError) throw error
      this.#kernel.log.warn({ err: error }, 'a request in the name of a user could not be recorded, and was rejected')
      throw this.#kernel.resilience.rejection('database', error)
    }
  }

  #record(tenantId: string, impersonation: ActiveImpersonation, method: string, path: string): Promise<void> {
    const { userId, reason } = impersonation
    const action = 'impersonations.request'
    const change = { action, tenantId, target: `user:${userId}`, after: { method, path, reason }, isChange: false }
    return enterContext(impersonated(currentContext(), impersonation), () => recordChange(this.#kernel.events, change))
  }

  async #end(sessionId: string): Promise<ImpersonationRow | undefined> {
    const [ended] = await this.#sessions.end({ sessionId })
    if (!ended) return this.#sessions.get(sessionId)
    const { userId, endedAt } = ended
    const [before, after] = [
      { userId, endedAt: null },
      { userId, endedAt: endedAt?.toISOString() ?? null },
    ]
    await recordChange(this.#kernel.events, { ...changeOf('end', ended), before, after })
    await this.#say(ended, 'ended')
    return ended
  }

  async #say({ tenantId, id: sessionId, userId }: ImpersonationRow, cause: 'ended' | 'tenant-deleted'): Promise<void> {
    await this.#kernel.events.publish(ImpersonationEnded, { tenantId, sessionId, userId, cause })
  }
}

const changeOf = (verb: 'start' | 'end', { tenantId, id }: ImpersonationRow): Change => ({
  action: `impersonations.${verb}`,
  tenantId,
  target: `impersonation:${id}`,
})

const notValid = () => ImpersonationInvalid('The token belongs to no active impersonation of this tenant.')

function active(row: ImpersonationRow | undefined): ActiveImpersonation {
  if (!row) throw notValid()
  return toActive(row)
}
