/**
 * Carries the actor and the request in the async context, for log lines, audit entries and events. Each entry point sets it: HTTP, command
 * line, job, the host's code.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Actor {
  /**
   * `admin` holds a token, `cli` is an operator's terminal, `host` is the embedding program, `user` is a user of the host,
   * `system` is Tenantry itself. `impersonator` is one of these who acts in the name of a tenant's user; the name names both.
   */
  readonly type: 'admin' | 'cli' | 'host' | 'user' | 'system' | 'impersonator'
  readonly id: string
  readonly name: string
}

/** An impersonation of a tenant's user: actor, user, reason and latest end. */
export interface ActiveImpersonation {
  readonly sessionId: string
  readonly userId: string
  /** Started it. */
  readonly actor: Actor
  readonly reason: string
  readonly expiresAt: string
}

/** Permissions of a caller of the admin API. kernel/api/permissions.ts computes them from patterns. */
export interface Grant {
  /** Lists of patterns: its own, then those of the tokens that created it. An operation must be permitted by each list. */
  readonly bounds: readonly [readonly string[], ...(readonly string[])[]]
  /** Names of the permitted operations. */
  readonly operations: ReadonlySet<string>
  /** Ids of the tenants that it is limited to; null: all, and operations of no tenant. */
  readonly tenants: readonly string[] | null
  /** End of the token; null: none. */
  readonly expiresAt: Date | null
  /** Id of a token of the database. */
  readonly tokenId?: string | undefined
  /** The session of a browser, if the request has its cookie. */
  readonly session?: { readonly id: string; readonly expiresAt: Date } | undefined
}

export interface Context {
  readonly requestId: string | null
  readonly actor: Actor
  readonly ip: string | null
  /** The tenant that the work is for, where it is for one; `NO_TENANT` where no tenant's storage may be used at all. */
  readonly tenantId?: string | null
  /** The trace that the work is part of, as a valid header `traceparent`. */
  readonly traceparent?: string | undefined
  /** Where the work is done in the name of a tenant's user; `actor` names both then. */
  readonly impersonation?: ActiveImpersonation
  /** Permissions of the token, in a request to the admin API. Absent: the host's code or a command on the database, without limits. */
  readonly grant?: Grant
}

/** Not an id: work for no tenant matches no tenant. */
export const NO_TENANT = ''

export const HOST: Actor = { type: 'host', id: 'host', name: 'host' }
export const SYSTEM: Actor = { type: 'system', id: 'system', name: 'tenantry' }

const DEFAULT: Context = { requestId: null, actor: HOST, ip: null }
const storage = new AsyncLocalStorage<Context>()

/** The context of the work in progress; the host itself when no edge has set one. */
export const currentContext = (): Context => storage.getStore() ?? DEFAULT

/** Runs `work` in exactly this context. For the edges of Tenantry; hosts use `runInContext`. */
export const enterContext = <T>(context: Context, work: () => T): T => storage.run(context, work)

/** The part of the context that a host may change. A key that is absent or undefined keeps its value. */
export type ContextChanges = Partial<Pick<Context, 'requestId' | 'actor' | 'ip'>>

const CHANGEABLE: readonly string[] = ['requestId', 'actor', 'ip'] satisfies (keyof ContextChanges)[]

/**
 * Runs `work` in the current context with these changes. The tenant stays, and so does an impersonation, whose actor names the
 * impersonator. Throws a TypeError for any other key.
 *
 *   await runInContext({ actor: { type: 'user', id: 'u1', name: 'ann@acme.example' } }, () => tenancy.tenants.suspend('acme'))
 */
export function runInContext<T>(changes: ContextChanges, work: () => T): T {
  const other = Object.keys(changes).find((key) => !CHANGEABLE.includes(key))
  if (other !== undefined) {
    throw new TypeError(
      `runInContext changes requestId, actor and ip only, not ${other}. tenancy.run enters a tenant, tenancy.withoutTenant leaves it.`,
    )
  }
  const outer = currentContext()
  const { requestId = outer.requestId, ip = outer.ip } = changes
  const actor = outer.impersonation ? outer.actor : (changes.actor ?? outer.actor)
  return enterContext({ ...outer, requestId, actor, ip }, work)
}

/**
 * Runs `work` as Tenantry, outside of the caller's context. Work for several callers, or after a caller, has neither the request, the
 * tenant, the transaction nor the span of the first caller.
 */
export const asSystem: <T>(work: () => T) => T = storage.run({ requestId: null, actor: SYSTEM, ip: null }, () =>
  AsyncLocalStorage.snapshot(),
)

/** Returns the context of an impersonation: each change in it names the actor and the user. */
export function impersonated(context: Context, impersonation: ActiveImpersonation): Context {
  const { actor, userId } = impersonation
  const both: Actor = { type: 'impersonator', id: actor.id, name: `${actor.name} as ${userId}` }
  return { ...context, actor: both, impersonation }
}
