/**
 * Stores subscriptions and derives the tenant's plan. Written under the customer's lock; an older state replaces no
 * newer one.
 */
import { sql } from 'kysely'
import { tenantStatus } from '../../../tenants/registry/tenant-assertions.ts'
import { type BillingDependencies, queryOf } from '../model/dependencies.ts'
import { type Entitling, entitledPlan } from '../model/entitlement.ts'
import type { ProviderSubscription } from '../model/provider.ts'
import type { SubscriptionRow } from '../model/tables.ts'

/** Final statuses. */
export const ENDED = ['canceled', 'incomplete_expired'] as const

export const hasEnded = ({ status }: Pick<SubscriptionRow, 'status'>): boolean => ENDED.some((end) => end === status)

/**
 * Held until the transaction ends, so that only one transaction at a time changes the billing state of a tenant, also
 * with several customers. Acquired after the customer's lock.
 */
export async function lockPayer({ kernel }: BillingDependencies, tenantId: string): Promise<void> {
  await kernel.database.sql(`select pg_advisory_xact_lock(hashtextextended('tenantry billing tenant ' || $1, 0))`, [
    tenantId,
  ])
}

/** `isCurrent`: the state was read from the provider, and replaces any stored state regardless of `asOf`. */
export interface Seen {
  readonly asOf: Date
  readonly isCurrent: boolean
}

export class Subscriptions {
  readonly #dependencies: BillingDependencies

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
  }

  find(id: string): Promise<SubscriptionRow | undefined> {
    return queryOf(this.#dependencies)
      .selectFrom('billingSubscriptions')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
  }

  /** Subscriptions that are not detached, newest first. */
  ofTenant(tenantId: string): Promise<SubscriptionRow[]> {
    return this.#ofTenant(tenantId)
      .where('closedAs', 'is distinct from', 'detached')
      .orderBy('createdAt', 'desc')
      .orderBy('id', 'desc')
      .execute()
  }

  /** Subscriptions that continue at the provider without the tenant. */
  detachedFrom(tenantId: string): Promise<SubscriptionRow[]> {
    return this.#ofTenant(tenantId).where('closedAs', '=', 'detached').execute()
  }

  /** Time of the end or of the detachment; null while the subscription runs. */
  async endOf(id: string): Promise<Date | null> {
    const row = await this.#withCustomers()
      .select(['status', 'endedAt', 'asOf', 'closedAs', 'closedAt'])
      .where('id', '=', id)
      .executeTakeFirst()
    if (!row) return null
    const ends = [hasEnded(row) ? (row.endedAt ?? row.asOf) : null, row.closedAs === 'detached' ? row.closedAt : null]
    return ends.filter((end) => end !== null).toSorted((a, b) => a.getTime() - b.getTime())[0] ?? null
  }

  async write(tenantId: string, subscription: ProviderSubscription, { asOf, isCurrent }: Seen): Promise<void> {
    const { tenantId: _, items, ...members } = subscription
    const row = { ...members, items: JSON.stringify(items) as never, tenantId, asOf }
    const { id: __, createdAt: ___, tenantId: ____, asOf: _____, ...changing } = row
    await queryOf(this.#dependencies)
      .insertInto('billingSubscriptions')
      .values(row)
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet({ ...changing, asOf: sql`greatest(billing_subscriptions.as_of, excluded.as_of)` })
          .where((eb) => (isCurrent ? eb.lit(true) : eb('billingSubscriptions.asOf', '<=', sql<Date>`excluded.as_of`))),
      )
      .execute()
  }

  /**
   * Sets the tenant's plan from its subscriptions, unless the host decides plans or the tenant is deleted or purged.
   */
  async writePlan(tenantId: string): Promise<void> {
    const { kernel, tenants, plans } = this.#dependencies
    if (tenants.plans.isDecidedByHost) return
    const status = await tenantStatus(kernel.database, tenantId)
    if (status === undefined || status === 'purged' || status === 'deleted') return
    const plan = entitledPlan(await this.#entitling(tenantId), plans)
    const { metadata } = await tenants.get(tenantId)
    const present = metadata.plan ?? tenants.plans.describe().defaultPlan
    if (plan !== present) await tenants.setPlan(tenantId, plan)
  }

  #ofTenant(tenantId: string) {
    return this.#withCustomers().selectAll('billingSubscriptions').where('billingSubscriptions.tenantId', '=', tenantId)
  }

  #withCustomers() {
    return queryOf(this.#dependencies)
      .selectFrom('billingSubscriptions')
      .leftJoin('billingCustomers', 'billingCustomers.customerId', 'billingSubscriptions.customerId')
  }

  async #entitling(tenantId: string): Promise<Entitling[]> {
    const cases = await queryOf(this.#dependencies)
      .selectFrom('billingDunning')
      .select(['subscriptionId', 'state'])
      .where('tenantId', '=', tenantId)
      .where('closedAt', 'is', null)
      .execute()
    const isIn = (id: string, ...states: string[]) =>
      cases.some(({ subscriptionId, state }) => subscriptionId === id && states.includes(state))
    return (await this.ofTenant(tenantId)).map(({ id, status, items, createdAt }) => ({
      id,
      status,
      items,
      createdAt,
      isInDunning: isIn(id, 'retrying', 'grace'),
      isDowngraded: isIn(id, 'downgraded'),
    }))
  }
}
