/**
 * Authenticates impersonation of a tenant's users on guarded routes. Framework-free; the adapters of hosts (http/hosts)
 * call it after the guard, respond with its errors, and run the handler in the context of both.
 */
import type { ActiveImpersonation } from '../../kernel/base/context.ts'

export interface ImpersonatedRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** The host's request object: a second authentication of the same object uses the first audit entry. */
  readonly raw?: object
}

export interface ImpersonationAuthenticator {
  /**
   * Also for the guard's `authorize`, with its request. Resolves if the token belongs to an active session of this
   * tenant and the request is recorded. Rejects with the error for the response.
   */
  authenticate(tenantId: string, token: string, request: ImpersonatedRequest): Promise<ActiveImpersonation>
}

/** The part of `tenancy.impersonation` that routes of a host need. */
export interface Impersonating {
  /** Called once per route. Throws if requests would not be recorded. */
  authenticator(): ImpersonationAuthenticator
}
