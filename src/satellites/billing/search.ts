/** Finds customers and subscriptions of the provider for the search of an operator, by their ids. */
import { foundBy } from '../../kernel/shares/search.ts'

export const searchProviders = [
  foundBy({
    name: 'customers',
    kind: 'customer',
    operation: 'billing.get',
    accepts: (q) => q.startsWith('cus_'),
    sql: `select customer_id as id, tenant_id as "tenantId", coalesce('closed: ' || closed_as, 'open') as title, 'id' as matched,
        json_build_object('id', tenant_id) as params
      from multitenancy.billing_customers where customer_id = $1`,
  }),
  foundBy({
    name: 'subscriptions',
    kind: 'subscription',
    operation: 'billing.get',
    accepts: (q) => q.startsWith('sub_'),
    sql: `select id, tenant_id as "tenantId", status as title, 'id' as matched, json_build_object('id', tenant_id) as params
      from multitenancy.billing_subscriptions where id = $1`,
  }),
]
