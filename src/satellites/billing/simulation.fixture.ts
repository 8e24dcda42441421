/**
 * A provider and two tenancies with the same tenants. The reference receives all events immediately and in order, the
 * other one as the test decides. At the end, both must have the same state and have published the same events.
 *
 * Equal seeds result in equal simulations. The databases are created once and emptied for each simulation.
 */
import Stripe from 'stripe'
import { type Provider, type ProviderOptions, startProvider } from '../../../test/support/provider/provider.ts'
import { createReceivers } from '../../http/receivers.ts'
import { InstallTenant } from '../../tenants/tenant/job-types.ts'
import { type Random, seededRandom } from '../../testing/base/seeded-random.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type BillingTenancy, PLANS, SECRET } from './billing.fixture.ts'
import { eventRecorder } from './event-recorder.fixture.ts'
import { type BillingOptions, billing } from './index.ts'
import { CustomerLifecycle } from './lifecycle.fixture.ts'

const PAUSES = [{}, { seconds: 1 }, { hours: 2 }, { days: 1 }, { days: 3 }, { days: 8 }, { days: 16 }]

export type ProviderEvents = Provider['events']

export interface SimulatedTenancy {
  readonly url: string
  readonly tenancy: BillingTenancy
  receive(events: ProviderEvents): Promise<void>
  /** Unprocessed events, oldest first. */
  waiting(): Promise<string[]>
  failed(): Promise<string[]>
  /** Stored state of all tenants. */
  known(): Promise<Record<string, unknown>>
  /** Published events including repetitions, sorted. */
  publishedEvents(): Promise<string[]>
}

export interface Simulation {
  readonly seed: number
  readonly random: Random
  readonly provider: Provider
  readonly options: BillingOptions
  readonly lifecycles: readonly CustomerLifecycle[]
  readonly reference: SimulatedTenancy
  readonly other: SimulatedTenancy
  /**
   * Applies a random step to each history, advances the clock, and delivers the events to the reference, in order per
   * customer.
   * @returns the new events
   */
  goOn(): Promise<ProviderEvents>
  end(): Promise<void>
}

export interface Simulations {
  open(seed: number, lifecycles: number): Promise<Simulation>
  end(): Promise<void>
}

export async function openSimulations(postgresUrl: string): Promise<Simulations> {
  // These tenancies install the tenants, without billing.
  const bases = await Promise.all([1, 2].map(() => testTenancy(postgresUrl, { role: 'api' })))
  return {
    open: (seed, lifecycles) => openSimulation(bases, seed, lifecycles),
    async end() {
      await Promise.all(bases.map((base) => base.end()))
    },
  }
}

async function openSimulation(
  bases: readonly TestTenancy<[]>[],
  seed: number,
  lifecycles: number,
): Promise<Simulation> {
  const random = seededRandom(seed)
  const provider = await startProvider({
    start: new Date('2026-01-31T10:00:00Z'),
    afterRetries: random.pick<NonNullable<ProviderOptions['afterRetries']>>(['cancel', 'unpaid', 'past_due']),
    retryDays: random.pick([
      [3, 5, 7],
      [1, 2],
      [2, 9, 20],
    ]),
  })
  const options = optionsFor(provider, random)
  const ids = Array.from({ length: lifecycles }, (_, index) => `payer-${seed}-${index}`)
  const [reference, other] = await Promise.all(bases.map((base) => openSimulatedTenancy(base, provider, options, ids)))
  if (!reference || !other) throw new Error('a simulation has two tenancies')
  const around = { ...surroundings(provider, options, reference.tenancy), random }
  const all = ids.map((id) => new CustomerLifecycle(id, around))
  let receivedCount = 0
  return {
    seed,
    random,
    provider,
    options,
    lifecycles: all,
    reference,
    other,
    async goOn() {
      for (const life of all) for (let times = random.below(3); times > 0; times--) await life.step()
      provider.advance(random.pick(PAUSES))
      const { processing, dunning } = reference.tenancy.billing
      const events = provider.events.slice(receivedCount)
      receivedCount = provider.events.length
      await reference.receive(events)
      const inOrder = async (some: ProviderEvents) => {
        for (const { id } of some) await processing.process(id, true)
      }
      const ofOne = Map.groupBy(events, ({ data }) => ('customer' in data.object ? data.object.customer : null))
      await Promise.all([...ofOne.values()].map(inOrder))
      await dunning.sweep()
      return events
    },
    async end() {
      await Promise.all([reference.tenancy.stop(), other.tenancy.stop()])
      await provider.close()
    },
  }
}

function optionsFor(provider: Provider, random: Random): BillingOptions {
  const priceOf = (name: string, amount: number) =>
    provider.price({ product: provider.product({ name }).id, amount, interval: 'month' }).id
  return {
    stripe: { apiKey: provider.apiKey, webhookSecret: SECRET, endpoint: provider.url, maxNetworkRetries: 0 },
    products: { [priceOf('Pro', 2_900)]: 'pro', [priceOf('Scale', 29_900)]: 'scale' },
    dunning: {
      maxAttempts: random.pick([1, 2, 3]),
      graceDays: random.pick([0, 1, 7]),
      action: random.pick(['none', 'downgrade', 'suspend', 'suspend'] as const),
    },
  }
}

function surroundings(provider: Provider, { products }: BillingOptions, { billing }: BillingTenancy) {
  const mapped = Object.keys(products)
  const unmapped = provider.price({ product: provider.product({ name: 'Other' }).id, amount: 900, interval: 'month' })
  return {
    provider,
    stripe: new Stripe(provider.apiKey, provider.clientOptions),
    prices: [...mapped, ...mapped, unmapped.id],
    async checkout(tenantId: string, priceId: string, trialDays: number) {
      const { id } = await billing.checkout(tenantId, {
        priceId: mapped.includes(priceId) ? priceId : (mapped[0] ?? ''), // no other is sold
        successUrl: 'https://app.example/paid',
        cancelUrl: 'https://app.example/plans',
        ...(trialDays ? { trialDays } : {}),
      })
      return id as string
    },
  }
}

async function openSimulatedTenancy(
  base: TestTenancy<[]>,
  provider: Provider,
  options: BillingOptions,
  tenantIds: readonly string[],
): Promise<SimulatedTenancy> {
  const tenancy = (await base.open({
    satellites: [billing(options), eventRecorder()] as never,
    plans: PLANS,
    role: 'api',
    clock: { now: () => provider.now() },
  })) as unknown as BillingTenancy
  for (const id of tenantIds) {
    await base.tenancy.tenants.create({ id, name: 'Payer' })
    await base.tenancy.tenants.installation.install(id, { isLast: true })
    await base.tenancy.kernel.jobs.cancel(InstallTenant, id)
  }
  const { database } = tenancy.kernel
  for (const table of [
    'billing_inbox',
    'billing_dunning',
    'billing_subscriptions',
    'billing_customers',
    'recorded_events',
  ]) {
    await database.sql(`delete from multitenancy.${table}`)
  }
  const rows = async (query: string, values: readonly unknown[] = []): Promise<any[]> =>
    (await database.sql(query, values)).rows
  const idsOf = async (status: string) => {
    const found = await rows(
      'select event_id as id from multitenancy.billing_inbox where status = $1 order by created_at, event_id',
      [status],
    )
    return found.map(({ id }) => id as string)
  }
  const receivers = createReceivers(tenancy)
  return {
    url: base.url,
    tenancy,
    async receive(events) {
      const post = async (event: ProviderEvents[number]) => {
        const { body, headers } = provider.signed(event, { secret: SECRET, at: new Date() })
        const request = new Request('http://localhost/webhooks/stripe', {
          method: 'POST',
          body,
          headers: { ...headers },
        })
        const { status } = await receivers.fetch(request)
        if (status !== 200) throw new Error(`the receiver responded ${status}`)
      }
      await Promise.all(events.map(post))
    },
    waiting: () => idsOf('waiting'),
    failed: () => idsOf('failed'),
    async known() {
      return {
        tenants: await rows(
          `select id, status, coalesce(metadata ->> 'plan', 'free') as plan from multitenancy.tenants
           where id = any($1) order by id`,
          [tenantIds],
        ),
        customers: await rows(
          `select customer_id, tenant_id, closed_at is not null as closed from multitenancy.billing_customers order by 1`,
        ),
        subscriptions: await rows('select * from multitenancy.billing_subscriptions order by id'),
        dunning: await rows(
          `select subscription_id, period_end, tenant_id, invoices, state, grace_until, closed_at is not null as closed
           from multitenancy.billing_dunning order by 1, 2`,
        ),
        inbox: await rows('select event_id, status, error_code from multitenancy.billing_inbox order by 1'),
      }
    },
    async publishedEvents() {
      const published = await rows(
        `select name, payload - 'id' - 'occurredAt' - 'requestId' as payload from multitenancy.recorded_events
         where name <> 'BillingEventDeadLettered'`,
      )
      return published.map(({ name, payload }) => `${name} ${JSON.stringify(payload)}`).sort()
    },
  }
}
