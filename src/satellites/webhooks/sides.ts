/** The two owners of subscriptions, and what operations and commands of both share. */
import { z } from 'zod'
import { Reply } from '../../kernel/api/operation.ts'
import { TenantNotFound, TenantState } from '../../tenants/tenant/errors.ts'
import { TenantId } from '../../tenants/tenant/tenant.ts'
import type { Delivery } from './model/delivery.ts'
import type { Owner } from './subscriptions/subscriptions.ts'

export const webhookId = z.uuid().meta({ description: 'Identifier of a subscription' })

/** Parsed parameters. */
type Params = Readonly<Record<string, unknown>>

export interface Side {
  readonly names: string
  readonly path: string
  /** Path of a replay over all subscriptions. */
  readonly replayPath: string
  readonly owner: z.ZodRawShape
  readonly ofOwner: string
  /** Prefix of the commands, and their arguments. */
  readonly command: string
  readonly args: Readonly<Record<string, string>>
  readonly ownerOf: (params: Params) => Owner
  /** Errors of every operation, and of those that write. */
  readonly absent: readonly (typeof TenantNotFound)[]
  readonly closed: readonly (typeof TenantState)[]
}

export const TENANT: Side = {
  names: 'webhook',
  path: '/tenants/{id}/webhooks',
  replayPath: '/tenants/{id}/replay-failed',
  owner: { id: TenantId },
  ofOwner: 'of a tenant',
  command: 'tenant:webhooks',
  args: { id: 'id of the tenant' },
  ownerOf: ({ id }) => String(id),
  absent: [TenantNotFound],
  closed: [TenantState],
}

export const HOST: Side = {
  names: 'hostWebhook',
  path: '/webhooks',
  replayPath: '/replay-failed',
  owner: {},
  ofOwner: 'of the host',
  command: 'webhooks',
  args: {},
  ownerOf: () => null,
  absent: [],
  closed: [],
}

/** Arguments of commands. */
export const ofWebhook = { webhookId: { name: 'webhook', summary: 'id of the subscription' } }

export const filled = (path: string, params: Params): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => String(params[name] ?? ''))

export const accepted = (path: string, params: Params, delivery: Delivery): Reply<Delivery> =>
  new Reply(202, delivery, { location: `${filled(path, params)}/${delivery.webhookId}/deliveries/${delivery.id}` })
