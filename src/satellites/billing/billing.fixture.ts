/**
 * A tenancy with billing and a separate fake provider that share one clock, with access to received events, jobs and
 * log.
 */

import { type Provider, type ProviderOptions, startProvider } from '../../../test/support/provider/provider.ts'
import { postgresStore } from '../../drivers/store/postgres.ts'
import { createHttp, type Http } from '../../http/app.ts'
import { createReceivers } from '../../http/receivers.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { EventOf, EventType } from '../../kernel/events/events.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { InstallTenant } from '../../tenants/tenant/job-types.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type BillingOptions, billing } from './index.ts'
import { events as typedEvents } from './model/events.ts'

export const SECRET = 'whsec_of_the_endpoint'
export const PLANS = {
  defaultPlan: 'free',
  definitions: {
    free: { limits: { calls: 1_000 } },
    pro: { limits: { calls: 100_000 } },
    scale: { limits: {} },
  },
}
const TOKEN = 'token-of-an-admin-0123456789'
/** Not near the boundary of a month or a day. */
const START = new Date('2026-03-10T12:00:00Z')
/** The events that docs/billing.md lists for an endpoint. */
const CHOSEN_EVENTS: ReadonlySet<string> = new Set([
  'checkout.session.completed',
  'customer.subscription.created',
  'customer.subscription.updated',
  'customer.subscription.paused',
  'customer.subscription.resumed',
  'customer.subscription.deleted',
  'customer.subscription.trial_will_end',
  'invoice.payment_succeeded',
  'invoice.paid',
  'invoice.payment_failed',
  'invoice.voided',
  'customer.deleted',
])

/** Options that differ from the fixture's defaults. */
export type SomeOptions = Omit<Partial<BillingOptions>, 'stripe'> & {
  readonly stripe?: Partial<BillingOptions['stripe']>
}

export type BillingSatellites = [ReturnType<typeof billing>]
export type BillingTenancy = Tenancy<BillingSatellites>

export interface OpenBilling extends TestTenancy<BillingSatellites> {
  readonly provider: Provider
  readonly prices: { readonly pro: string; readonly scale: string; readonly unmapped: string }
  readonly options: BillingOptions
  /** Published typed events of billing, in order, as `[name, payload]`. */
  readonly receivedEvents: [string, Record<string, any>][]
  /** Logged lines. */
  readonly log: string[]
  /** An active tenant, installed without a worker. */
  tenant(): Promise<string>
  /** A tenant with a completed checkout. */
  subscriber(price?: 'pro' | 'scale', trialDays?: number): Promise<Subscriber>
  post(
    body: string | Uint8Array,
    headers?: Record<string, string>,
    ip?: string,
  ): Promise<{ status: number; json: any; headers: Headers }>
  /**
   * Delivers events to the receiver concurrently. Default: the undelivered events that the endpoint has chosen. Returns
   * the statuses.
   */
  deliver(events?: Provider['events']): Promise<number[]>
  /** Excludes the events so far from the default of `deliver`. */
  skip(): void
  /** Processes all waiting events, oldest first. */
  process(tenancy?: BillingTenancy): Promise<void>
  /** `deliver`, then `process`. */
  deliverAndProcess(): Promise<void>
  call(method: string, path: string, body?: unknown): Promise<{ status: number; json: any; headers: Headers }>
  inbox(): Promise<any[]>
}

export interface Subscriber {
  readonly tenantId: string
  readonly customerId: string
  readonly subscriptionId: string
}

export async function openBilling(
  postgresUrl: string,
  {
    options = {},
    config = {},
    provider: providerOptions = {},
    events = 'chosen',
  }: {
    options?: SomeOptions
    config?: Partial<TenancyConfig<BillingSatellites>>
    provider?: ProviderOptions
    /** Events that the endpoint has chosen: the events that billing processes, or all. */
    events?: 'chosen' | 'all'
  } = {},
): Promise<OpenBilling> {
  const provider = await startProvider({ start: START, ...providerOptions })
  const priceOf = (name: string, amount: number) =>
    provider.price({ product: provider.product({ name }).id, amount, interval: 'month' })
  const [pro, scale, unmapped] = [priceOf('Pro', 2_900), priceOf('Scale', 29_900), priceOf('Other', 100)]
  const settings: BillingOptions = {
    products: { [pro.id]: 'pro', [scale.product as string]: 'scale' },
    ...options,
    stripe: {
      apiKey: provider.apiKey,
      webhookSecret: SECRET,
      endpoint: provider.url,
      maxNetworkRetries: 0,
      ...options.stripe,
    },
  }
  const log: string[] = []
  const opened = await testTenancy<BillingSatellites>(postgresUrl, {
    satellites: [billing(settings)],
    plans: PLANS,
    role: 'api',
    clock: { now: () => provider.now() },
    store: postgresStore({ clockOffsetMs: () => provider.now().getTime() - Date.now() }),
    logger: createLogger({ level: 'info', write: (line: string) => log.push(line) } as never),
    ...config,
  })
  const { tenancy } = opened
  const receivedEvents: OpenBilling['receivedEvents'] = []
  for (const type of typedEvents as readonly EventType[]) {
    tenancy.on(type, (event: EventOf<EventType>) => void receivedEvents.push([type.name, event as Record<string, any>]))
  }
  const receivers = createReceivers(tenancy)
  // At its first use: a tenancy has one HTTP application, and a test may make its own.
  let made: Http | undefined
  const http = () => (made ??= createHttp(tenancy, { adminTokens: [{ name: 'admin', token: TOKEN }] }))
  let given = 0

  const open: OpenBilling = {
    ...opened,
    provider,
    prices: { pro: pro.id, scale: scale.id, unmapped: unmapped.id },
    options: settings,
    receivedEvents,
    log,
    async tenant() {
      const { id } = await tenancy.tenants.create({ name: 'Payer' })
      await tenancy.tenants.installation.install(id, { isLast: true })
      await tenancy.kernel.jobs.cancel(InstallTenant, id)
      return id
    },
    async subscriber(price = 'pro', trialDays) {
      const tenantId = await open.tenant()
      const { id } = await tenancy.billing.checkout(tenantId, {
        priceId: open.prices[price],
        successUrl: 'https://app.example/paid',
        cancelUrl: 'https://app.example/plans',
        ...(trialDays ? { trialDays } : {}),
      })
      const session = provider.completeCheckout(id as string)
      await open.deliverAndProcess()
      return { tenantId, customerId: session.customer as string, subscriptionId: session.subscription as string }
    },
    async post(body, headers = {}, ip) {
      const response = await receivers.fetch(
        new Request('http://localhost/webhooks/stripe', { method: 'POST', body: body as never, headers }),
        { ip },
      )
      return { status: response.status, json: await response.json(), headers: response.headers }
    },
    async deliver(chosen) {
      const those =
        chosen ?? provider.events.slice(given).filter(({ type }) => events === 'all' || CHOSEN_EVENTS.has(type))
      if (!chosen) given = provider.events.length
      const post = async (event: (typeof those)[number]) => {
        const { body, headers } = provider.signed(event, { secret: SECRET, at: new Date() })
        return (await open.post(body, { ...headers })).status
      }
      return Promise.all(those.map(post))
    },
    skip() {
      given = provider.events.length
    },
    async process(by = tenancy) {
      for (;;) {
        const { rows } = await tenancy.kernel.database.sql(
          `select event_id as "eventId" from multitenancy.billing_inbox where status = 'waiting' order by created_at, event_id`,
        )
        if (rows.length === 0) return
        for (const { eventId } of rows) await by.billing.processing.process(eventId, true)
      }
    },
    async deliverAndProcess() {
      await open.deliver()
      await open.process()
    },
    async call(method, path, body) {
      const response = await http().fetch(
        new Request(`http://localhost${http().prefix}${path}`, {
          method,
          headers: { 'x-admin-token': TOKEN, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      )
      const { status, headers } = response
      return { status, json: status === 204 ? undefined : await response.json(), headers }
    },
    async inbox() {
      const { rows } = await tenancy.kernel.database.sql(
        `select event_id as "eventId", type, status, error_code as "errorCode", attempts, payload
         from multitenancy.billing_inbox order by created_at, event_id`,
      )
      return rows
    },
    async end() {
      await opened.end()
      await provider.close()
    },
  }
  return open
}

export const namesOf = (receivedEvents: OpenBilling['receivedEvents']): string[] => receivedEvents.map(([name]) => name)
