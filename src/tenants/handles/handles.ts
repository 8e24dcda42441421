/** Creates and caches the handles of tenants. A handle contains no storage location. */
import { Kysely, WithSchemaPlugin } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { Located } from '../registry/registry.ts'
import { keyOf, pathOf } from '../tenant/resource-names.ts'
import type { TenantHandle } from './handle.ts'
import { tenantDialect } from './kysely.ts'
import { type TenantPg, tenantPg } from './pg-module.ts'
import { tenantPool } from './pg-pool.ts'
import { rejectSettings } from './rejected-settings.ts'
import { type ImportSource, type SourceDependencies, type TenantSource, tenantSource } from './router.ts'

const KEPT_HANDLES = 10_000

export class Handles {
  readonly #dependencies: SourceDependencies
  readonly #kept = new LRUCache<string, { handle: TenantHandle; locator: string }>({ max: KEPT_HANDLES })

  constructor(dependencies: SourceDependencies) {
    this.#dependencies = dependencies
  }

  /** The target of a tenant's statements, usable or not: each statement checks that. */
  source(id: string): ImportSource {
    return tenantSource(id, this.#dependencies)
  }

  of({ tenant, location }: Located): TenantHandle {
    const kept = this.#kept.get(tenant.id)
    if (kept?.locator === location.locator) return kept.handle
    const driver = this.#dependencies.storage.driver(location.isolation)
    const handle = handleOver(tenantSource(tenant.id, this.#dependencies), driver, location)
    this.#kept.set(tenant.id, { handle, locator: location.locator })
    return handle
  }
}

export function handleOver(
  source: TenantSource,
  { capabilities, schemaOf }: IsolationDriver,
  location: StorageLocation,
): TenantHandle {
  const sourceOf = () => source
  const dialect = tenantDialect(sourceOf, capabilities.engine)
  const unqualified = new Kysely<any>({ dialect })
  const qualified = schemaOf ? unqualified.withPlugin(new WithSchemaPlugin(schemaOf(location))) : unqualified
  const db = rejectSettings(qualified)
  let pool: TenantHandle['pool'] | undefined
  let module: TenantPg | undefined
  return rejectSettings({
    id: location.tenantId,
    db,
    dialect,
    get pool() {
      pool ??= tenantPool(source)
      return pool
    },
    get pg() {
      module ??= tenantPg(sourceOf)
      return module
    },
    key: (name) => keyOf(location.tenantId, name),
    path: (name) => pathOf(location.tenantId, name),
    transaction: (work) => db.transaction().execute((inside) => work(rejectSettings(inside))),
  })
}
