/**
 * What a guarded route asks when somebody wants to act in the name of one of the tenant's users. Framework-free, as the guard is; the
 * hosts' adapters (http/hosts) put it after the guard, answer what it throws, and run the handler in the context of both.
 */
import type { ActiveImpersonation } from '../../kernel/base/context.ts'

export interface ImpersonatedRequest {
  readonly method: string
  /** Without its query. */
  readonly path: string
  /** The request as the host knows it: where it is the same object, what asks for a second time is let in by the first entry. */
  readonly raw?: object
}

export interface ImpersonationAuthenticator {
  /**
   * Also for the guard's `authorize`, with the request that it is given. Answers when the token is of a session of this tenant that is on, and the request is recorded; only then may it be carried out.
   * Rejects with what it is to be answered instead.
   */
  authenticate(tenantId: string, token: string, request: ImpersonatedRequest): Promise<ActiveImpersonation>
}

/** The part of `tenancy.impersonation` that a host's routes need. */
export interface Impersonating {
  /** For a route, once and not per request. Throws when nothing would record what is done. */
  authenticator(): ImpersonationAuthenticator
}
