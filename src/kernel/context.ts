/**
 * Who is asking, in which request: carried in the async context, so that log lines, audit entries and events name them
 * without every function handing them on. Set at each edge (HTTP, command line, job, the host's own code), read anywhere.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Actor {
  /** `admin` holds a token, `cli` is an operator's terminal, `host` is the embedding program, `system` is Tenantry itself. */
  readonly type: 'admin' | 'cli' | 'host' | 'system'
  readonly id: string
  readonly name: string
}

export interface Context {
  readonly requestId: string | null
  readonly actor: Actor
  readonly ip: string | null
  /** The tenant that the work is for, where it is for one; `NO_TENANT` where no tenant's storage may be used at all. */
  readonly tenantId?: string | null
}

/** Not an id: what is for no tenant agrees with none. */
export const NO_TENANT = ''

export const HOST: Actor = { type: 'host', id: 'host', name: 'host' }
export const SYSTEM: Actor = { type: 'system', id: 'system', name: 'tenantry' }

const nobody: Context = { requestId: null, actor: HOST, ip: null }
const storage = new AsyncLocalStorage<Context>()

/** The context of the work in progress; the host itself when no edge has set one. */
export const currentContext = (): Context => storage.getStore() ?? nobody

export const runInContext = <T>(context: Context, work: () => T): T => storage.run(context, work)
