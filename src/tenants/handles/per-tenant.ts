/**
 * Keeps one client of a library per tenant, for libraries that cannot share a client between tenants (Prisma).
 *
 *   absent ──use──► building ──► kept ──(least recently used and unused, dropped, deleted, moved, stop)──► retired ──unused──► disposed
 *     ▲                │
 *     └────(fails)─────┘
 *
 * - A use is a function and ends when its promise settles: hosts and jobs need no explicit end.
 * - A client in use is never evicted: more than `max` exist only while more than `max` are in use.
 * - Clients are built and disposed outside of the context of the causing request, as they outlive it.
 */
import { asSystem, currentContext, enterContext } from '../../kernel/base/context.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import type { Located } from '../registry/tenant-cache.ts'
import { tenantOfContext } from './agreement.ts'
import type { Tenant } from './handle.ts'

const MAX_CLIENTS = 200

export interface PerTenantOptions<Client> {
  /** Maximum number of clients; default 200. Clients in use are never disposed and can exceed it. */
  readonly max?: number
  /** Closes an unused client. An error is logged. */
  readonly dispose: (client: Client) => unknown
}

export interface PerTenant<Client> {
  /**
   * Runs `work` for a tenant, like `tenancy.run`, with the tenant's client. Do not use the client after the promise of
   * `work` has settled. Rejects with the errors of `tenancy.run` and of the build, which the next use repeats.
   *
   * @example
   *   const notes = await clients.of('acme', (prisma) => prisma.notes.findMany())
   */
  of<T>(id: string, work: (client: Client) => T | Promise<T>): Promise<T>
  /** The same for the tenant of the context; `E_TENANT_MISMATCH` if there is none. */
  current<T>(work: (client: Client) => T | Promise<T>): Promise<T>
  /** Retires the client of a tenant, or of all: the next use builds another one. Clients in use are disposed afterwards. */
  drop(id?: string): void
}

interface Dependencies {
  readonly run: <T>(id: string, work: (tenant: Tenant) => T | Promise<T>) => Promise<T>
  readonly registry: {
    find(id: string): Promise<Located | undefined>
    nextChange(id: string, signal: AbortSignal): Promise<void>
  }
  readonly log: Pick<Logger, 'warn'>
}

interface Entry<Client> {
  readonly tenant: Tenant
  readonly client: Promise<Client>
  readonly retired: AbortController
  readonly disposed: PromiseWithResolvers<void>
  uses: number
}

export class TenantClients<Client> implements PerTenant<Client> {
  readonly #dependencies: Dependencies
  readonly #build: (tenant: Tenant) => Client | Promise<Client>
  readonly #options: PerTenantOptions<Client>
  /** By tenant; the least recently used first. */
  readonly #kept = new Map<string, Entry<Client>>()
  /** Kept, or retired and not disposed yet. */
  readonly #alive = new Set<Entry<Client>>()
  #isStopped = false

  constructor(
    dependencies: Dependencies,
    build: (tenant: Tenant) => Client | Promise<Client>,
    options: PerTenantOptions<Client>,
  ) {
    this.#dependencies = dependencies
    this.#build = build
    this.#options = options
  }

  async of<T>(id: string, work: (client: Client) => T | Promise<T>): Promise<T> {
    return this.#dependencies.run(id, (tenant) => this.#use(tenant, work))
  }

  async current<T>(work: (client: Client) => T | Promise<T>): Promise<T> {
    return this.of(tenantOfContext(), work)
  }

  drop(id?: string): void {
    for (const entry of [...this.#kept.values()]) if (id === undefined || entry.tenant.id === id) this.#retire(entry)
  }

  /** Rejects new uses, and disposes every client after its uses have ended. Waits for at most `maxMs`. */
  async stop(maxMs: number): Promise<void> {
    this.#isStopped = true
    for (const entry of [...this.#kept.values()]) this.#retire(entry)
    const disposed = Promise.all([...this.#alive].map((entry) => entry.disposed.promise))
    await withTimeout(disposed, maxMs, () => new Error('clients of tenants are still in use'))
  }

  async #use<T>(tenant: Tenant, work: (client: Client) => T | Promise<T>): Promise<T> {
    if (this.#isStopped) throw new Error('The tenancy has stopped and provides no clients of tenants.')
    const entry = this.#begin(tenant)
    try {
      return await work(await entry.client)
    } finally {
      entry.uses--
      if (entry.retired.signal.aborted) this.#disposeUnused(entry)
      else this.#makeRoom()
    }
  }

  /** With qualified names, a moved tenant has another storage handle, which replaces the client. */
  #begin(tenant: Tenant): Entry<Client> {
    const kept = this.#kept.get(tenant.id)
    if (kept && kept.tenant.db !== tenant.db) this.#retire(kept)
    const entry = kept?.tenant.db === tenant.db ? kept : this.#create(tenant)
    entry.uses++
    this.#kept.delete(tenant.id)
    this.#kept.set(tenant.id, entry)
    this.#makeRoom()
    return entry
  }

  #create(tenant: Tenant): Entry<Client> {
    const client = asSystem(() =>
      enterContext({ ...currentContext(), tenantId: tenant.id }, async () => this.#build(tenant)),
    )
    const entry = {
      tenant,
      client,
      retired: new AbortController(),
      disposed: Promise.withResolvers<void>(),
      uses: 0,
    }
    this.#alive.add(entry)
    client.then(
      () => asSystem(() => this.#retireWithTenant(entry)),
      () => this.#retire(entry),
    )
    return entry
  }

  #makeRoom(): void {
    const { max = MAX_CLIENTS } = this.#options
    for (const entry of this.#kept.values()) {
      if (this.#kept.size <= max) return
      if (entry.uses === 0) this.#retire(entry)
    }
  }

  /** Retires the client after any process has deleted the tenant. */
  async #retireWithTenant(entry: Entry<Client>): Promise<void> {
    const { registry } = this.#dependencies
    const { signal } = entry.retired
    while (!signal.aborted) {
      const change = registry.nextChange(entry.tenant.id, signal)
      if (await this.#isDeleted(entry.tenant.id)) this.#retire(entry)
      await change
    }
  }

  /** False while the backoffice is unavailable. */
  async #isDeleted(id: string): Promise<boolean> {
    try {
      const located = await this.#dependencies.registry.find(id)
      return !located || located.tenant.status === 'deleted'
    } catch {
      return false
    }
  }

  #retire(entry: Entry<Client>): void {
    if (entry.retired.signal.aborted) return
    this.#kept.delete(entry.tenant.id)
    entry.retired.abort()
    this.#disposeUnused(entry)
  }

  /** Called when an entry is retired, and at the end of each later use: disposes it once it is unused. */
  #disposeUnused(entry: Entry<Client>): void {
    if (entry.uses === 0) asSystem(() => this.#dispose(entry))
  }

  async #dispose(entry: Entry<Client>): Promise<void> {
    const built = await entry.client.then(
      (client) => ({ client }),
      () => undefined, // its uses have got the error
    )
    try {
      if (built) await this.#options.dispose(built.client)
    } catch (error) {
      this.#dependencies.log.warn({ err: error, tenantId: entry.tenant.id }, 'could not dispose the client of a tenant')
    }
    this.#alive.delete(entry)
    entry.disposed.resolve()
  }
}
