/** Finds deliveries and subscriptions for the search of an operator: by their ids, and subscriptions also by part of the URL. */
import { isUuid } from '../../kernel/base/ids.ts'
import { foundBy } from '../../kernel/shares/search.ts'

/** Length of a trigram: the index has none for a shorter part. */
const SHORTEST_PART = 3

/** The operation for a subscription of a tenant, or of the host. */
const operationOf = (name: string) =>
  `case when s.tenant_id is null then 'hostWebhook${name}' else 'webhook${name}' end`

const SUBSCRIPTION = `select s.id, s.tenant_id as "tenantId", s.url as title, ${operationOf('s.get')} as operation,
  json_strip_nulls(json_build_object('id', s.tenant_id, 'webhookId', s.id)) as params`

export const searchProviders = [
  foundBy({
    name: 'deliveries',
    kind: 'delivery',
    accepts: isUuid,
    sql: `select d.id, s.tenant_id as "tenantId", d.event || ': ' || d.state as title, 'id' as matched,
        ${operationOf('Deliveries.get')} as operation,
        json_strip_nulls(json_build_object('id', s.tenant_id, 'webhookId', s.id, 'deliveryId', d.id)) as params
      from multitenancy.webhook_deliveries d join multitenancy.webhook_subscriptions s on s.id = d.webhook_id
      where d.id = $1 and s.deleted_at is null`,
  }),
  foundBy({
    name: 'webhooks',
    kind: 'webhook',
    accepts: isUuid,
    sql: `${SUBSCRIPTION}, 'id' as matched from multitenancy.webhook_subscriptions s where s.id = $1 and s.deleted_at is null`,
  }),
  foundBy({
    name: 'webhookUrls',
    kind: 'webhook',
    compares: 'name',
    accepts: (q) => q.length >= SHORTEST_PART,
    sql: `${SUBSCRIPTION}, 'url' as matched from multitenancy.webhook_subscriptions s
      where s.url ilike '%' || replace(replace(replace($1, '\\', '\\\\'), '%', '\\%'), '_', '\\_') || '%' and s.deleted_at is null`,
  }),
]
