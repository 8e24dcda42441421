/**
 * Billing of all tenants that have or had a subscription, by tenant id: pages and exports. A tenant has its running subscription or its
 * last one, as in the billing of one tenant. A filter by state first reads the index of that state, so a rare state is as fast as a
 * common one.
 */
import { type ExportFormat, formatsOf } from '../../kernel/api/export-format.ts'
import { keysetQuery, type PageOf, type PageOptions } from '../../kernel/api/page.ts'
import { hasPlan } from '../../tenants/registry/search.ts'
import type { TenantTables } from '../../tenants/tenant/tables.ts'
import { toTenant } from '../../tenants/tenant/tenant.ts'
import { openCases } from './dunning/suspensions.ts'
import type { BillingDependencies } from './model/dependencies.ts'
import type { SubscriptionStatus } from './model/provider.ts'
import type { BillingTables } from './model/tables.ts'
import { toDunning, toSubscription } from './read-models.ts'
import { type BillingSummary, DUNNING_STATES } from './resource.ts'
import { ENDED } from './subscriptions/subscriptions.ts'

export const ROWS_AT_ONCE = 200
const BY_TENANT = { columns: ['tenants.id'], direction: 'asc' } as const

export const FORMATS = formatsOf<BillingSummary>({
  tenantId: ({ tenantId }) => tenantId,
  name: ({ name }) => name,
  plan: ({ plan }) => plan,
  customerId: ({ customerId }) => customerId,
  subscriptionId: ({ subscription }) => subscription?.id ?? null,
  status: ({ subscription }) => subscription?.status ?? null,
  subscribedPlan: ({ subscription }) => subscription?.plan ?? null,
  periodEnd: ({ subscription }) => subscription?.periodEnd ?? null,
  cancelAt: ({ subscription }) => subscription?.cancelAt ?? null,
  dunning: ({ dunning }) => dunning?.state ?? null,
  dunningSince: ({ dunning }) => dunning?.since ?? null,
  attempt: ({ dunning }) => (dunning ? String(dunning.attempt) : null),
  graceUntil: ({ dunning }) => dunning?.graceUntil ?? null,
})

export interface BillingFilter {
  /** State of the open dunning case; `open`: any. */
  readonly dunning?: 'open' | (typeof DUNNING_STATES)[number] | undefined
  readonly status?: SubscriptionStatus | undefined
  /** Present plan of the tenant. */
  readonly plan?: string | undefined
}

interface Row {
  readonly id: string
  readonly subscriptionId: string
}

export class BillingList {
  readonly #dependencies: BillingDependencies

  constructor(dependencies: BillingDependencies) {
    this.#dependencies = dependencies
  }

  /** @throws E_INVALID_REQUEST for an unknown plan, E_PLAN_RESOLVED_BY_HOST for a plan if the host decides plans */
  async list({ limit, cursor, ...filter }: BillingFilter & PageOptions = {}): Promise<PageOf<BillingSummary>> {
    const { dunning, status, plan } = filter
    const keyset = { name: 'billing', filters: [dunning, status, plan], order: BY_TENANT, item: (row: Row) => row }
    const { cursors } = this.#dependencies.kernel
    const page = await cursors.keysetPage(this.#query(filter), keyset, { limit, cursor })
    return { ...page, data: await this.#summaries(page.data) }
  }

  /** All items as text. The first part is read before this resolves. */
  async export(format: ExportFormat, filter: BillingFilter = {}): Promise<AsyncIterable<string>> {
    const { head, line } = FORMATS[format]
    const read = (after?: Row): Promise<Row[]> =>
      keysetQuery(this.#query(filter), BY_TENANT, after, ROWS_AT_ONCE).execute()
    const text = async (rows: readonly Row[]) => (await this.#summaries(rows)).map(line).join('')
    const first = await read()
    const firstText = head + (await text(first))
    return (async function* () {
      yield firstText
      for (let rows = first; rows.length === ROWS_AT_ONCE; ) {
        rows = await read(rows.at(-1))
        if (rows.length > 0) yield await text(rows)
      }
    })()
  }

  #query({ dunning, status, plan }: BillingFilter) {
    let query = this.#dependencies.kernel.database
      .query<BillingTables & TenantTables>()
      .selectFrom('tenants')
      .innerJoinLateral(
        ({ selectFrom }) =>
          selectFrom('billingSubscriptions as s')
            .leftJoin('billingCustomers as c', 'c.customerId', 's.customerId')
            .selectAll('s')
            .whereRef('s.tenantId', '=', 'tenants.id')
            .where('c.closedAs', 'is distinct from', 'detached')
            .orderBy(({ eb }) => eb('s.status', 'in', ENDED))
            .orderBy('s.createdAt', 'desc')
            .orderBy('s.id', 'desc')
            .limit(1)
            .as('shown'),
        (join) => join.onTrue(),
      )
      .select(['tenants.id', 'shown.id as subscriptionId'])
      .where('tenants.purgedAt', 'is', null)
    if (status !== undefined) {
      query = query
        .where('shown.status', '=', status)
        .where(({ eb, selectFrom }) =>
          eb('tenants.id', 'in', selectFrom('billingSubscriptions').select('tenantId').where('status', '=', status)),
        )
    }
    if (dunning !== undefined) {
      const states = dunning === 'open' ? DUNNING_STATES : [dunning]
      query = query
        .where(({ eb, selectFrom }) =>
          eb('tenants.id', 'in', selectFrom('billingDunning').select('tenantId').where('closedAt', 'is', null)),
        )
        .where(({ eb, selectFrom }) =>
          eb(
            selectFrom('billingDunning')
              .select('state')
              .whereRef('tenantId', '=', 'tenants.id')
              .where('closedAt', 'is', null)
              .where('state', '!=', 'recovered')
              .orderBy('periodEnd', 'desc')
              .limit(1),
            'in',
            states,
          ),
        )
    }
    return plan === undefined ? query : query.where(hasPlan(this.#dependencies.tenants.plans.condition(plan)))
  }

  async #summaries(rows: readonly Row[]): Promise<BillingSummary[]> {
    if (rows.length === 0) return []
    const { tenants, plans, kernel } = this.#dependencies
    const query = kernel.database.query<BillingTables & TenantTables>()
    const ids = rows.map(({ id }) => id)
    const subscriptionIds = rows.map(({ subscriptionId }) => subscriptionId)
    const [records, subscriptions, customers, cases] = await Promise.all([
      query.selectFrom('tenants').selectAll().where('id', 'in', ids).execute(),
      query.selectFrom('billingSubscriptions').selectAll().where('id', 'in', subscriptionIds).execute(),
      query
        .selectFrom('billingCustomers')
        .select(['tenantId', 'customerId'])
        .where('tenantId', 'in', ids)
        .where('closedAt', 'is', null)
        .execute(),
      openCases(this.#dependencies, ids),
    ])
    const recordOf = new Map(records.map((row) => [row.id, toTenant(row)]))
    const subscriptionOf = new Map(subscriptions.map((row) => [row.id, row]))
    const customerOf = new Map(customers.map(({ tenantId, customerId }) => [tenantId, customerId]))
    const caseOf = new Map(cases.toReversed().map((row) => [row.tenantId, row])) // the latest period wins
    const summaries = rows.map(async ({ id, subscriptionId }) => {
      const record = recordOf.get(id)
      const owed = caseOf.get(id)
      return (
        record && {
          tenantId: id,
          name: record.name,
          customerId: customerOf.get(id) ?? null,
          plan: (await tenants.plans.resolve(record)).plan,
          subscription: toSubscription(subscriptionOf.get(subscriptionId), plans),
          dunning: owed ? toDunning(owed) : null,
        }
      )
    })
    return (await Promise.all(summaries)).filter((one) => one !== undefined)
  }
}
