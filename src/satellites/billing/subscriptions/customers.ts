/** Maps customers of the provider to tenants. A tenant has at most one open mapping. */
import { currentDeadline, withoutDeadline } from '../../../kernel/base/deadline.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import { DAY_MS } from '../../../kernel/store/counters.ts'
import { assertTenantOpen, tenantStatus } from '../../../tenants/registry/tenant-assertions.ts'
import { sendRejected } from '../inbox/inbox.ts'
import { type BillingDependencies, lockCustomer, queryOf } from '../model/dependencies.ts'
import { PaymentError } from '../model/provider.ts'
import type { CustomerRow } from '../model/tables.ts'
import { meteredSince } from './paid-quotas.ts'
import { ENDED, lockPayer } from './subscriptions.ts'

/**
 * `taken`: the tenant has another customer; `foreign`: the customer belongs to another tenant; `gone`: the tenant is
 * purged.
 */
export type Mapped = 'mapped' | 'taken' | 'foreign' | 'gone'

/** A tenant whose metered usage is billed, from `mappedAt` on. */
export interface Payer {
  readonly tenantId: string
  readonly mappedAt: Date
}

/** Open mappings, and mappings closed within the last day by a tenant deletion, whose last usage is still reported. */
const PAYERS = `
  select tenant_id as "tenantId", min(mapped_at) as "mappedAt"
  from multitenancy.billing_customers join multitenancy.tenants on tenants.id = tenant_id
  where (closed_at is null or (status = 'deleted' and closed_at > $1)) and ($2::text is null or tenant_id = $2)
  group by tenant_id order by tenant_id`

export class Customers {
  readonly #dependencies: BillingDependencies
  /** Customers that this process is creating, by tenant. */
  readonly #making = new Map<string, Promise<string>>()

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
  }

  /** Customer of the open mapping. */
  async of(tenantId: string): Promise<string | undefined> {
    const row = await queryOf(this.#dependencies)
      .selectFrom('billingCustomers')
      .select('customerId')
      .where('tenantId', '=', tenantId)
      .where('closedAt', 'is', null)
      .executeTakeFirst()
    return row?.customerId
  }

  /** Open mappings, and mappings of deleted customers that have a stored subscription without an end. */
  all(): Promise<Pick<CustomerRow, 'tenantId' | 'customerId'>[]> {
    return queryOf(this.#dependencies)
      .selectFrom('billingCustomers as customer')
      .select(['tenantId', 'customerId'])
      .where(({ or, and, eb, exists, selectFrom }) =>
        or([
          eb('closedAt', 'is', null),
          and([
            eb('closedAs', '=', 'deleted'),
            exists(
              selectFrom('billingSubscriptions as subscription')
                .select('id')
                .whereRef('subscription.customerId', '=', 'customer.customerId')
                .where('status', 'not in', ENDED),
            ),
          ]),
        ]),
      )
      .orderBy('tenantId')
      .orderBy('mappedAt')
      .execute()
  }

  async payers(): Promise<Payer[]> {
    return this.#payers(null)
  }

  /** Undefined if the tenant's usage is not billed. */
  async payer(tenantId: string): Promise<Payer | undefined> {
    const [payer] = await this.#payers(tenantId)
    return payer
  }

  /** Customer that pays for the usage of the tenant: its current one, or its last one. */
  async payerOf(tenantId: string): Promise<string | undefined> {
    const { rows } = await this.#dependencies.kernel.database.sql(
      `select customer_id as "customerId" from multitenancy.billing_customers where tenant_id = $1
       order by closed_at desc nulls first limit 1`,
      [tenantId],
    )
    return rows[0]?.customerId
  }

  /** Includes closed mappings, because events may be late. */
  async tenantOf(customerId: string): Promise<string | undefined> {
    const row = await queryOf(this.#dependencies)
      .selectFrom('billingCustomers')
      .select('tenantId')
      .where('customerId', '=', customerId)
      .executeTakeFirst()
    return row?.tenantId
  }

  /** Throws `tenant_not_resolvable` if the tenant has never existed. @param action action of the change record */
  async map(tenantId: string, customerId: string, action = 'billing.map'): Promise<Mapped> {
    const { database, clock, events } = this.#dependencies.kernel
    await lockPayer(this.#dependencies, tenantId)
    const status = await tenantStatus(database, tenantId)
    if (status === undefined) throw new PaymentError('tenant_not_resolvable')
    if (status === 'purged') return 'gone'
    // Before the mapping, so that all usage of the new customer is billed.
    await meteredSince(this.#dependencies)
    const { rows } = await database.sql(
      `insert into multitenancy.billing_customers (customer_id, tenant_id, mapped_at) values ($1, $2, $3)
       on conflict do nothing returning customer_id`,
      [customerId, tenantId, clock.now()],
    )
    if (rows.length === 0) {
      const present = await this.of(tenantId)
      if (present === undefined) return 'foreign'
      return present === customerId ? 'mapped' : 'taken'
    }
    await recordChange(events, {
      action,
      tenantId,
      target: `tenant:${tenantId}`,
      after: { customerId },
    })
    return 'mapped'
  }

  /**
   * The tenant's customer; creates one at the provider if there is none. Throws `E_TENANT_NOT_FOUND`, `E_TENANT_STATE`.
   */
  async ensure(tenantId: string, action: string): Promise<string> {
    const { database } = this.#dependencies.kernel
    await assertTenantOpen(database, tenantId)
    const known = await this.of(tenantId)
    if (known !== undefined) return known
    if (database.inTransaction) return this.#made(tenantId, action)
    const deadline = currentDeadline()
    if (deadline) deadline.mayHaveCommitted = true
    let making = this.#making.get(tenantId)
    if (!making) {
      // Without the deadline of the first caller: others wait for it, each within its own.
      making = withoutDeadline(() => this.#made(tenantId, action)).finally(() => this.#making.delete(tenantId))
      this.#making.set(tenantId, making)
    }
    return making
  }

  /**
   * Whether the customer continues at the provider without the tenant. Events of a detached customer have no effect.
   */
  async isDetached(customerId: string): Promise<boolean> {
    const row = await queryOf(this.#dependencies)
      .selectFrom('billingCustomers')
      .select('closedAs')
      .where('customerId', '=', customerId)
      .executeTakeFirst()
    return row?.closedAs === 'detached'
  }

  /**
   * Closes the mapping of a deleted customer and sends rejected events of a second one, or detaches the customer from
   * its tenant.
   */
  async close(customerId: string, closedAs: 'deleted' | 'detached' = 'deleted'): Promise<void> {
    const { database, clock, events } = this.#dependencies.kernel
    const payer = closedAs === 'deleted' ? await this.tenantOf(customerId) : undefined
    // A concurrent rejection of a second customer happens before this lock, or not at all.
    if (payer !== undefined) await lockPayer(this.#dependencies, payer)
    const { rows } = await database.sql(
      `update multitenancy.billing_customers set closed_at = $2, closed_as = $3 where customer_id = $1 and closed_at is null
       returning tenant_id as "tenantId"`,
      [customerId, clock.now(), closedAs],
    )
    for (const { tenantId } of rows) {
      const target = `tenant:${tenantId}`
      await recordChange(events, { action: 'billing.unmap', tenantId, target, before: { customerId }, after: null })
      if (closedAs === 'deleted') await sendRejected(this.#dependencies, tenantId)
    }
  }

  /** `close` in a transaction with the customer's lock. */
  async closeGone(customerId: string): Promise<void> {
    await this.#dependencies.kernel.database.transaction(async () => {
      await lockCustomer(this.#dependencies, customerId)
      await this.close(customerId)
    })
  }

  async #payers(tenantId: string | null): Promise<Payer[]> {
    const { database, clock } = this.#dependencies.kernel
    const { rows } = await database.sql(PAYERS, [new Date(clock.now().getTime() - DAY_MS), tenantId])
    return rows
  }

  async #made(tenantId: string, action: string): Promise<string> {
    const { database } = this.#dependencies.kernel
    const { rows } = await database.sql(
      'select count(*)::int as turn from multitenancy.billing_customers where tenant_id = $1',
      [tenantId],
    )
    const customerId = await this.#dependencies.payments.createCustomer(tenantId, rows[0].turn)
    return database.transaction(async () => {
      await lockCustomer(this.#dependencies, customerId)
      if ((await this.map(tenantId, customerId, action)) === 'mapped') return customerId
      const other = await this.of(tenantId)
      if (other !== undefined) return other // a concurrent checkout has mapped another customer
      throw new PaymentError('provider_rejected', { cause: new Error(`customer ${customerId} cannot be mapped`) })
    })
  }
}
