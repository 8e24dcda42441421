/** Creates and caches the handles of tenants. A handle contains no storage location. */
import { CompiledQuery, Kysely, WithSchemaPlugin } from 'kysely'
import { LRUCache } from 'lru-cache'
import { enterOutbox } from '../../kernel/outbox/joining.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { PostStatement } from '../isolation/outbox.ts'
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
    const { outbox } = this.#dependencies
    const posts: Posts = {
      statement: (kind, payload) => outbox.statement(driver, tenant.id, kind, payload),
      prepare: () => outbox.prepare(driver, location),
    }
    const handle = handleOver(tenantSource(tenant.id, this.#dependencies), driver, location, posts)
    this.#kept.set(tenant.id, { handle, locator: location.locator })
    return handle
  }
}

const NOT_AWAITED = 'statements requires a function that returns the promise of its calls.'

/** Creates statements that post to the outbox. */
interface Posts {
  statement(kind: string, payload: object): PostStatement
  prepare(): Promise<void>
}

/** @param posts absent: calls inside a transaction do not join it */
export function handleOver(
  source: TenantSource,
  { capabilities, schemaOf }: IsolationDriver,
  location: StorageLocation,
  posts?: Posts,
): TenantHandle {
  const { tenantId } = location
  const sourceOf = () => source
  const dialect = tenantDialect(sourceOf, capabilities.engine)
  const unqualified = new Kysely<any>({ dialect })
  const qualified = schemaOf ? unqualified.withPlugin(new WithSchemaPlugin(schemaOf(location))) : unqualified
  const db = rejectSettings(qualified)
  let pool: TenantHandle['pool'] | undefined
  let module: TenantPg | undefined
  return rejectSettings({
    id: tenantId,
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
    transaction: (work) =>
      db.transaction().execute((inside) => {
        const run = async () => await work(rejectSettings(inside))
        if (!posts) return run()
        const post = async (kind: string, payload: object) => {
          const { text, values } = posts.statement(kind, payload)
          await inside.executeQuery(CompiledQuery.raw(text, [...values]))
        }
        return enterOutbox({ tenantId, post }, run)
      }),
    async statements(calls) {
      const statements: PostStatement[] = []
      const post = async (kind: string, payload: object) => {
        if (posts) statements.push(posts.statement(kind, payload))
      }
      const called: unknown = enterOutbox({ tenantId, post }, calls)
      if (typeof (called as PromiseLike<unknown> | undefined)?.then !== 'function') throw new TypeError(NOT_AWAITED)
      await called
      await posts?.prepare()
      return statements
    },
  })
}
