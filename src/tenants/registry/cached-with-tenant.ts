/**
 * Caches a value of each tenant with the registry's cache entry of the tenant. So a change of the tenant, in any process, also ends the
 * value. Without notifications a value lives for five seconds, as the entry does.
 */
import { withoutDeadline } from '../../kernel/base/deadline.ts'
import { tenantNotFound } from '../tenant/errors.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import type { Registry } from './registry.ts'

export class CachedWithTenant<Value> {
  readonly #registry: Pick<Registry, 'peek' | 'find'>
  readonly #load: (tenantId: string) => Promise<Value>
  /** By cache entry of the registry. */
  readonly #values = new WeakMap<object, Promise<Value>>()

  constructor(registry: Pick<Registry, 'peek' | 'find'>, load: (tenantId: string) => Promise<Value>) {
    this.#registry = registry
    this.#load = load
  }

  /** Concurrent callers share a load. In a transaction, the registry returns a new entry each time. @throws E_TENANT_NOT_FOUND */
  async get(tenantId: string): Promise<{ readonly tenant: TenantRecord; readonly value: Value }> {
    const located = this.#registry.peek(tenantId) ?? (await this.#registry.find(tenantId))
    if (!located) throw tenantNotFound(tenantId)
    let loading = this.#values.get(located)
    if (!loading) {
      loading = withoutDeadline(() => this.#load(tenantId))
      this.#values.set(located, loading)
      loading.catch(() => this.#values.delete(located))
    }
    return { tenant: located.tenant, value: await loading }
  }
}
