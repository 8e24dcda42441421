/** Two tenancies on one database: one changes tenants, the other reads its cache. */
import type { EventOf } from '../../kernel/events/events.ts'
import { DependencyDegraded } from '../../kernel/resilience/resilience.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { notificationsReceived, testTenancy } from '../../testing/base/tenancy.ts'
import type { Registry } from './registry.ts'

export const UNAVAILABLE = { code: 'E_DEPENDENCY_UNAVAILABLE', status: 503, retryAfterSeconds: 5 }

export interface CacheEnvironment {
  readonly here: Tenancy
  /** Represents another process. */
  readonly there: Tenancy
  /** Registry of the other process, as are all reads below. */
  readonly registry: Registry
  readonly degraded: EventOf<typeof DependencyDegraded>[]
  sql(text: string, values?: readonly unknown[]): Promise<{ rows: any[] }>
  /** Changes a tenant without a notification, invisible to caches. */
  renameInSecret(id: string, name: string): Promise<unknown>
  createInSecret(id: string, of: string): Promise<unknown>
  /** Resolves when the other process has received all notifications of earlier commits. */
  notificationsReceived(): Promise<void>
  nameOf(id: string): Promise<string | undefined>
  ownerOf(domain: string): Promise<string | undefined>
  end(): Promise<void>
}

/** @param wayTo returns the URL by which the other process reaches the database */
export async function openCacheEnvironment(
  serverUrl: string,
  wayTo: (url: string) => string | Promise<string> = (url) => url,
): Promise<CacheEnvironment> {
  const opened = await testTenancy(serverUrl)
  const here: Tenancy = opened.tenancy
  const there: Tenancy = await opened.open({ database: { url: await wayTo(opened.url) }, role: 'api' })
  const { registry } = there.tenants
  const degraded: EventOf<typeof DependencyDegraded>[] = []
  there.on(DependencyDegraded, (event) => void degraded.push(event))
  const sql = (text: string, values: readonly unknown[] = []) => here.kernel.database.sql(text, values)
  return {
    here,
    there,
    registry,
    degraded,
    sql,
    renameInSecret: (id, name) => sql('update multitenancy.tenants set name = $2 where id = $1', [id, name]),
    createInSecret: (id, of) =>
      sql(
        `insert into multitenancy.tenants
           (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at, activated_at)
         select $1, name, status, metadata, domains, isolation, placement, $1, created_at, updated_at, activated_at
         from multitenancy.tenants where id = $2`,
        [id, of],
      ),
    notificationsReceived: () => notificationsReceived(there),
    nameOf: async (id) => (await registry.find(id))?.tenant.name,
    ownerOf: async (domain) => (await registry.findByDomain(domain))?.tenant.id,
    end: () => opened.end(),
  }
}
