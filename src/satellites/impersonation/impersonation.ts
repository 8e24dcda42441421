/**
 * Impersonation: an admin acts in the name of a tenant's user, for a reason, for an hour at most. Whoever has the session's token
 * does so at the host's routes, by its middleware.
 *
 * 1. A token is of one tenant and one user, and is answered once; its hash alone is kept.
 * 2. Each request is recorded, committed, before it is carried out, with both actors; what cannot be recorded is refused.
 * 3. What is ended is over at once: the entry of a request is written while its session is held, so none follows the entry of its end.
 *    Nobody holds one for long: the server ends a transaction that has gone silent, and who ends a session does not wait for ever.
 * 4. Deleting a tenant ends its sessions, in the same transaction; restoring it brings none back.
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
import { isDatabaseUnavailable } from '../../kernel/database/database.ts'
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

/** Then the request is refused, whatever becomes of its entry. */
const RECORD_TIMEOUT_MS = 5_000
const PATH_LENGTH = 2_000

/** As whom a request was let in. */
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
   * Begins a session; its token is answered this once. `actor` says who acts, where it is not who the context names.
   * `E_TENANT_NOT_FOUND`, `E_TENANT_STATE` when deleted, `E_FORBIDDEN` in the name of a user, or a 400.
   */
  async start(tenantId: string, request: NewImpersonationBy): Promise<ImpersonationWithToken> {
    const {
      userId,
      reason,
      actor: named,
      durationSeconds = this.#durations.defaultSeconds,
    } = parsed(NewImpersonationBy, request)
    const { maxSeconds } = this.#durations
    if (durationSeconds > maxSeconds) throw invalid([{ path: 'durationSeconds', message: `at most ${maxSeconds}` }])
    const context = currentContext()
    if (context.impersonation) throw Forbidden('An impersonation cannot be begun in the name of a user.')
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

  /** Ends a session for whatever comes after; one that is over stays as it is. `E_NOT_FOUND` */
  async end(sessionId: string): Promise<Impersonation> {
    const { database } = this.#kernel
    const isOurs = !database.inTransaction
    const end = async () => {
      if (isOurs) await this.#sessions.limit()
      return this.#end(sessionId)
    }
    const row = isUuid(sessionId) ? await database.transaction(end) : undefined
    if (!row) throw NotFound('There is no such impersonation.')
    return toImpersonation(row)
  }

  /** A tenant's, the newest first; those of a deleted tenant until it is purged. `E_TENANT_NOT_FOUND` */
  async list(tenantId: string, { limit = 50, ...options }: Partial<ListOptions> = {}): Promise<PageOf<Impersonation>> {
    await assertTenantExists(this.#kernel.database, tenantId)
    return this.#sessions.list(tenantId, { ...options, limit })
  }

  /** The session of a token, while it is on; records nothing. `E_IMPERSONATION_INVALID`, `E_DEPENDENCY_UNAVAILABLE` */
  async verify(tenantId: string, token: string): Promise<ActiveImpersonation> {
    const tokenHash = hashOf(token)
    try {
      const row = tokenHash === undefined ? undefined : await this.#sessions.find(tenantId, tokenHash)
      return active(row)
    } catch (error) {
      throw isDatabaseUnavailable(error) ? this.#kernel.resilience.rejection('database', error) : error
    }
  }

  /** For a route, once and not per request. Throws when nobody listens to changes, as when the audit log is off. */
  authenticator(): ImpersonationAuthenticator {
    if (!this.#kernel.events.hasHandlersWithin(ChangeRecorded)) {
      throw new Error('impersonation: nothing would record its requests; the tenancy needs the satellite auditLogs')
    }
    return { authenticate: (tenantId, token, request) => this.#authenticateOnce(tenantId, token, request) }
  }

  /** In the transaction that deletes the tenant, whose entry in the audit log is that of their end, too. */
  async endAll(tenantId: string): Promise<void> {
    for (const row of await this.#sessions.end({ tenantId })) await this.#say(row, 'tenant-deleted')
  }

  /** Removes what a purged tenant had; the audit log keeps what happened. */
  /** The guard's `authorize` and the middleware may both ask: of one request there is one entry. */
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
      return await withTimeout(authenticated, RECORD_TIMEOUT_MS, () => new Error('the entry was not written in time'))
    } catch (error) {
      if (error instanceof TenancyError) throw error
      this.#kernel.log.warn({ err: error }, 'a request in the name of a user could not be recorded, and was refused')
      throw this.#kernel.resilience.rejection('database', error)
    }
  }

  #record(tenantId: string, impersonation: ActiveImpersonation, method: string, path: string): Promise<void> {
    const { userId, reason } = impersonation
    const action = 'impersonations.request'
    const change = { action, tenantId, target: `user:${userId}`, after: { method, path, reason } }
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

const notValid = () => ImpersonationInvalid('The token is of no impersonation of this tenant that is on.')

function active(row: ImpersonationRow | undefined): ActiveImpersonation {
  if (!row) throw notValid()
  return toActive(row)
}
