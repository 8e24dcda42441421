/** A service with all satellites and with data for the tasks of operators. Each device has its own tenants, which the other leaves alone. */
import { createReceivers } from '../../src/http/receivers.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { webhooks } from '../../src/satellites/webhooks/index.ts'
import { satellites } from '../../src/service/main.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { eventually, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Provider, startProvider } from '../support/provider/provider.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type OpenedConsole, serveConsole } from './console.fixture.ts'

const SECRET = 'whsec_of_the_tasks'
const PRICE = 'price_pro'
const DAY_MS = 86_400_000
/** The second period of a monthly subscription has begun, and the payment is retried. */
const SUBSCRIBED_BEFORE_DAYS = 32
const SETTLED_WITHIN_MS = 60_000
const OUTAGE = 3

export interface TaskData extends OpenedConsole {
  readonly receiver: Receiver
  /** The receiver accepts deliveries again. */
  recover(): void
  /** Ids of failed deliveries by the path of their receiver. */
  readonly failed: ReadonlyMap<string, readonly string[]>
  /** The newest entry of an operation in the audit log of a tenant. */
  audited(id: string, action: string): Promise<any>
}

type BillingTenancy = Tenancy<[ReturnType<typeof billing>]>

/** @param tenants one for each device @param postgresUrl `inject('postgresUrl')` */
export async function openTasks(postgresUrl: string, tenants: readonly string[]): Promise<TaskData> {
  let isDown = true
  const receiver = await startReceiver(() => ({ status: isDown ? 503 : 200, body: '{"busy":true}' }))
  const provider = await startProvider({ start: new Date(Date.now() - SUBSCRIBED_BEFORE_DAYS * DAY_MS) })
  provider.price({ id: PRICE, product: provider.product({ name: 'Pro' }).id, amount: 2_900, interval: 'month' })
  const made = await testTenancy<readonly Satellite[]>(postgresUrl, {
    satellites: allSatellites(provider),
    plans: {
      defaultPlan: 'free',
      definitions: { free: { limits: { exports: 10 } }, pro: { limits: { exports: 100 } } },
    },
    egress: { allowPrivateNetworks: true, allowHttp: true },
  })
  const opened = await serveConsole({
    tenancy: made.tenancy,
    async end() {
      await made.end()
      await provider.close()
      await receiver.close()
    },
  })
  const { call } = opened
  const failed = new Map<string, string[]>()
  const blocked = { id: 'initech', name: 'Initech GmbH', domains: ['initech.example'], metadata: { crmId: 'crm-4711' } }
  await call('POST', '/tenants', blocked)
  await call('PUT', '/tenants/initech/suspend')
  for (const [index, id] of tenants.entries()) {
    await call('POST', '/tenants', { id, name: `${id} Corp` })
    await call('PUT', `/tenants/${id}/quotas/usage`, { quota: 'exports', value: 10 - index })
    for (const path of ['single', 'outage']) {
      failed.set(
        `${path}-${id}`,
        await failDeliveries(opened, id, `${receiver.url}/${path}-${id}`, path === 'outage' ? OUTAGE : 1),
      )
    }
  }
  await call('PUT', `/tenants/${tenants[0]}/feature-flags/new-editor`, { enabled: true, rolloutPercent: 0 })
  await (made.tenancy as any).quotas.usageRecords.write()
  await owe(opened, provider, 'debtor')
  return {
    ...opened,
    receiver,
    recover() {
      isDown = false
      receiver.forget()
    },
    failed,
    audited: async (id, action) => (await call('GET', `/tenants/${id}/audit-logs?action=${action}&limit=1`)).data[0],
  }
}

/** Failed deliveries end after one attempt. */
function allSatellites(provider: Provider): Satellite[] {
  const stripe = { apiKey: provider.apiKey, webhookSecret: SECRET, endpoint: provider.url, maxNetworkRetries: 0 }
  const configured: readonly Satellite[] = [
    billing({ stripe, products: { [PRICE]: 'pro' } }),
    webhooks({ maxAttempts: 1 }),
  ]
  return satellites.map((one) => configured.find(({ name }) => name === one.name) ?? one)
}

/** Dispatches events of their own name to a new subscription, and waits until the deliveries have failed. Returns their ids. */
async function failDeliveries({ call }: OpenedConsole, id: string, url: string, count: number): Promise<string[]> {
  const event = `export.failed_${count}`
  const { webhookId } = await call('POST', `/tenants/${id}/webhooks`, { url, events: [event] })
  for (let number = 1; number <= count; number++) {
    await call('POST', `/tenants/${id}/dispatch`, { event, payload: { number } })
  }
  return eventually(async () => {
    const { data } = await call('GET', `/tenants/${id}/webhooks/${webhookId}/deliveries?state=failed`)
    if (data.length < count) throw new Error('not failed yet')
    return data.map((delivery: { id: string }) => delivery.id)
  }, SETTLED_WITHIN_MS)
}

/** A tenant whose second payment has failed. */
async function owe({ tenancy, call }: OpenedConsole, provider: Provider, id: string): Promise<void> {
  await call('POST', '/tenants', { id, name: 'Debtor Ltd' })
  const customerId = await (tenancy as unknown as BillingTenancy).billing.ensureCustomer(id)
  provider.setPaymentMethod(customerId, 'good')
  provider.subscribe(customerId, PRICE)
  provider.setPaymentMethod(customerId, 'declines')
  provider.advance({ days: SUBSCRIBED_BEFORE_DAYS })
  const receivers = createReceivers(tenancy)
  for (const event of provider.events) {
    const { body, headers } = provider.signed(event, { secret: SECRET, at: new Date() })
    await receivers.fetch(
      new Request('http://localhost/webhooks/stripe', { method: 'POST', body, headers: { ...headers } }),
    )
  }
  await eventually(async () => {
    const { data } = await call('GET', '/billing?dunning=open')
    if (data.length === 0) throw new Error('not in dunning yet')
  }, SETTLED_WITHIN_MS)
}
