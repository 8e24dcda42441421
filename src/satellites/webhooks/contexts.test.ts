/** The context of listeners: the tenant of the failed delivery, also with concurrent deliveries of other tenants. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { type Receiver, startReceiver } from '../../../test/support/receiver.ts'
import { type Context, currentContext, enterContext, SYSTEM } from '../../kernel/base/context.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import { WebhookDeliveryFailed } from './model/events.ts'
import { anyTenant, openWebhooks, type WebhooksSatellites, type WebhooksTenancy } from './webhooks.fixture.ts'

interface Seen {
  readonly of: string | null
  readonly context: Context
  readonly requestId: string | null
  readonly current: unknown
  readonly named: unknown
}

let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
let receiver: Receiver
let tenantIds: string[]
let ends: (() => void)[] = []
let held: (() => void)[] = []

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), { maxAttempts: 1, bridge: false })
  tenancy = opened.tenancy
  // All fail at the same time, so that consequences of several tenants are concurrent.
  receiver = await startReceiver((_, response) => {
    held.push(() => response.writeHead(500).end())
    if (held.length === tenantIds.length) for (const respond of held.splice(0)) respond()
    return undefined
  })
  tenantIds = [await anyTenant(tenancy), await anyTenant(tenancy), await anyTenant(tenancy)]
  for (const id of tenantIds)
    await tenancy.webhooks.create(id, { url: `${receiver.url}/${id}`, events: ['order.paid'] })
})
afterEach(() => {
  for (const end of ends) end()
  ends = []
  held = []
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})

function listening(when: 'within' | 'after'): readonly Seen[] {
  const seen: Seen[] = []
  const codeOf = (error: { code?: string }) => error.code
  const hear = async ({ tenantId, requestId }: EventOf<typeof WebhookDeliveryFailed>) => {
    const current = await tenancy.current().then(({ id }) => id, codeOf)
    const named = await tenancy.tenant(tenantId ?? '').then(({ id }) => id, codeOf)
    seen.push({ of: tenantId, requestId, context: currentContext(), current, named })
  }
  ends.push(tenancy.kernel.events.subscribe(WebhookDeliveryFailed, when, hear))
  return seen
}

/** A request of a user of a tenant. */
function inRequestOf<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
  const actor = { type: 'impersonator', id: 'bob', name: `Bob as Ann of ${tenantId}` } as const
  const context: Context = { requestId: `request of ${tenantId}`, actor, ip: '198.51.100.7' }
  return enterContext(context, () => tenancy.run(tenantId, work))
}

const dispatch = (tenantId: string) => tenancy.webhooks.dispatch(tenantId, 'order.paid', {})

const ways: Record<string, (tenantId: string) => Promise<unknown>> = {
  'by themselves': (tenantId) => inRequestOf(tenantId, () => dispatch(tenantId)),
  'in a transaction': (tenantId) => inRequestOf(tenantId, () => tenancy.transaction(() => dispatch(tenantId))),
  'by a tenant that waits for it': (tenantId) =>
    inRequestOf(tenantId, async () => {
      await tenancy.transaction(() => dispatch(tenantId))
      await tenancy.webhooks.retry()
    }),
}

for (const when of ['within', 'after'] as const) {
  for (const [how, send] of Object.entries(ways)) {
    test(`a listener ${when} the failure has the tenant of its event as context, dispatched ${how}`, async () => {
      const seen = listening(when)
      await Promise.all(tenantIds.map(send))
      await eventually(() => expect(seen).toHaveLength(tenantIds.length))
      expect(seen.toSorted((a, b) => ((a.of ?? '') < (b.of ?? '') ? -1 : 1))).toEqual(
        tenantIds.toSorted().map((id) => ({
          of: id,
          requestId: null,
          context: { requestId: null, actor: SYSTEM, ip: null },
          current: 'E_TENANT_MISMATCH',
          named: id,
        })),
      )
    })
  }
}
