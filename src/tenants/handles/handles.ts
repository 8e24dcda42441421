/** Creates and caches the handles of tenants. A handle contains no storage location. */
import { CompiledQuery, Kysely, WithSchemaPlugin } from 'kysely'
import { LRUCache } from 'lru-cache'
import { enterOutbox, type JoinedOutbox } from '../../kernel/outbox/joining.ts'
import type { IsolationDriver, StorageLocation } from '../isolation/driver.ts'
import type { PostStatement } from '../isolation/outbox.ts'
import type { Plans } from '../registry/plans.ts'
import type { Located } from '../registry/registry.ts'
import { keyOf, pathOf } from '../tenant/resource-names.ts'
import type { TenantRecord } from '../tenant/tenant.ts'
import type { StorageHandle, Tenant } from './handle.ts'
import { tenantDialect } from './kysely.ts'
import { type TenantPg, tenantPg } from './pg-module.ts'
import { tenantPool } from './pg-pool.ts'
import { rejectSettings } from './rejected-settings.ts'
import { type ImportSource, type SourceDependencies, type TenantSource, tenantSource } from './router.ts'

const KEPT_HANDLES = 10_000

interface Dependencies extends SourceDependencies {
  readonly plans: Pick<Plans, 'nameOf'>
}

interface Kept {
  readonly storage: StorageHandle
  readonly locator: string
  readonly tenant: Tenant
}

export class Handles {
  readonly #dependencies: Dependencies
  readonly #kept = new LRUCache<string, Kept>({ max: KEPT_HANDLES })

  constructor(dependencies: Dependencies) {
    this.#dependencies = dependencies
  }

  /** The target of a tenant's statements, usable or not: each statement checks that. */
  source(id: string): ImportSource {
    return tenantSource(id, this.#dependencies)
  }

  /** A promise only if the host's `getPlan` resolves the plan. */
  of(located: Located): Tenant | Promise<Tenant> {
    const plan = this.#dependencies.plans.nameOf(located.tenant)
    return typeof plan === 'string' ? this.#with(located, plan) : plan.then((name) => this.#with(located, name))
  }

  /** Tenants with one storage location share its handle, so one pool. */
  #with({ tenant: record, location }: Located, plan: string): Tenant {
    const { id } = record
    const kept = this.#kept.get(id)
    const hasStorage = kept?.locator === location.locator
    if (hasStorage && kept.tenant.record === record && kept.tenant.plan === plan) return kept.tenant
    const storage = hasStorage ? kept.storage : this.#open(location)
    const tenant = tenantOf(storage, record, plan)
    this.#kept.set(id, { storage, locator: location.locator, tenant })
    return tenant
  }

  #open(location: StorageLocation): StorageHandle {
    const { tenantId } = location
    const { storage, outbox } = this.#dependencies
    const driver = storage.driver(location.isolation)
    const posts: Posts = {
      statement: (...entry) => outbox.statement(driver, tenantId, ...entry),
      prepare: () => outbox.prepare(driver, location),
    }
    return handleOver(tenantSource(tenantId, this.#dependencies), driver, location, posts)
  }
}

/** Frozen, because many requests share it. */
const tenantOf = (storage: StorageHandle, record: TenantRecord, plan: string): Tenant =>
  Object.freeze(
    Object.defineProperties({} as Tenant, {
      ...Object.getOwnPropertyDescriptors(storage),
      record: { value: record, enumerable: true },
      plan: { value: plan, enumerable: true },
    }),
  )

const NOT_AWAITED = 'statements requires a function that returns the promise of its calls.'

/** Creates statements that post to the outbox. */
interface Posts {
  statement(...entry: Parameters<JoinedOutbox['post']>): PostStatement
  prepare(): Promise<void>
}

/** @param posts absent: calls inside a transaction do not join it */
export function handleOver(
  source: TenantSource,
  { capabilities, schemaOf }: IsolationDriver,
  location: StorageLocation,
  posts?: Posts,
): StorageHandle {
  const { tenantId } = location
  const sourceOf = () => source
  const dialect = tenantDialect(sourceOf, capabilities.engine)
  const unqualified = new Kysely<any>({ dialect })
  const qualified = schemaOf ? unqualified.withPlugin(new WithSchemaPlugin(schemaOf(location))) : unqualified
  const db = rejectSettings(qualified)
  let pool: StorageHandle['pool'] | undefined
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
        const post: JoinedOutbox['post'] = async (...entry) => {
          const { text, values } = posts.statement(...entry)
          await inside.executeQuery(CompiledQuery.raw(text, [...values]))
        }
        return enterOutbox({ tenantId, post }, run)
      }),
    async statements(calls) {
      const statements: PostStatement[] = []
      const post: JoinedOutbox['post'] = async (...entry) => {
        if (posts) statements.push(posts.statement(...entry))
      }
      const called: unknown = enterOutbox({ tenantId, post }, calls)
      if (typeof (called as PromiseLike<unknown> | undefined)?.then !== 'function') throw new TypeError(NOT_AWAITED)
      await called
      await posts?.prepare()
      return statements
    },
  })
}
