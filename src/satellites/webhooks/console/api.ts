/** Subscriptions and deliveries as the screens see them: of a tenant, or of the host. */
import type { OperationName, Result } from '../../../console/api/contract.ts'
import { href } from '../../../console/routing/links.ts'
import { useParams } from '../../../console/routing/router.tsx'

/** Id of the tenant that has a subscription. Null: the host. */
export type Owner = string | null
export type Webhook = Result<'webhooks.get'>
export type Delivery = Result<'webhookDeliveries.list'>['data'][number]
/** Owner and address of the subscription are members of the list over tenants only. */
export type ListedDelivery = Delivery & { readonly owner?: Owner; readonly url?: string | null }
export type DeliveryDetail = Result<'webhookDeliveries.get'>
export type Attempt = DeliveryDetail['attempts'][number]

/** Operations of the host have the same input without the tenant, and the same result. */
const OF_HOST = {
  'webhooks.list': 'hostWebhooks.list',
  'webhooks.create': 'hostWebhooks.create',
  'webhooks.get': 'hostWebhooks.get',
  'webhooks.update': 'hostWebhooks.update',
  'webhooks.delete': 'hostWebhooks.delete',
  'webhooks.rotateSecret': 'hostWebhooks.rotateSecret',
  'webhooks.test': 'hostWebhooks.test',
  'webhooks.replayFailed': 'hostWebhooks.replayFailed',
  'webhooks.replayAllFailed': 'hostWebhooks.replayAllFailed',
  'webhooks.replayMissing': 'hostWebhooks.replayMissing',
  'webhookDeliveries.list': 'hostWebhookDeliveries.list',
  'webhookDeliveries.get': 'hostWebhookDeliveries.get',
  'webhookDeliveries.replay': 'hostWebhookDeliveries.replay',
} as const satisfies Partial<Record<OperationName, OperationName>>

type SharedName = keyof typeof OF_HOST

/** @example useOperation(operationOf(owner, 'webhooks.get'), { params: paramsOf(owner, webhookId) }) */
export const operationOf = <Name extends SharedName>(owner: Owner, name: Name): Name =>
  owner === null ? (OF_HOST[name] as OperationName as Name) : name

/** The path of an operation of the host has no `{id}`, so its value is not used. */
export const paramsOf = (owner: Owner, webhookId: string) => ({ id: owner ?? '', webhookId })

export const useOwner = (): Owner => useParams().id ?? null

/** Path of the subscriptions, of one of them, or of one of its deliveries. */
export function pathOf(owner: Owner, webhookId?: string, deliveryId?: string): string {
  const list = owner === null ? '/webhooks' : `/tenants/${encodeURIComponent(owner)}/webhooks`
  if (webhookId === undefined) return list
  return deliveryId === undefined ? `${list}/${webhookId}` : `${list}/${webhookId}/deliveries/${deliveryId}`
}

export const hrefOf = (owner: Owner, webhookId?: string, deliveryId?: string, search = {}): string =>
  href(pathOf(owner, webhookId, deliveryId), search)

/** The owner of the subscription of a delivery. A tenant's subscription receives events of this tenant only. */
export const ownerOf = ({ owner, tenantId }: ListedDelivery): Owner => (owner === undefined ? tenantId : owner)

/** Kinds of objects, which actions have as target. */
export const kindOf = (owner: Owner, kind: 'webhook' | 'webhooks' | 'delivery'): string =>
  owner === null ? `host-${kind}` : kind

/** The subscriptions of an owner, as an object of actions. */
export interface Webhooks {
  readonly owner: Owner
}
