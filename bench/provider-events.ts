/** Creates and posts signed events of the payment provider: unique ids, each a price change of a subscription. */
import { Pool } from 'undici'
import { startProvider } from '../test/support/provider/provider.ts'
import { inFlight } from './webhooks.ts'

export const SECRET = 'whsec_of_the_benchmark'
export const PATH = '/webhooks/stripe'

export interface Posted {
  readonly body: string
  readonly headers: { readonly 'content-type': string; readonly 'stripe-signature': string }
}

/** Creates `count` events, signed now: receivers reject signatures that are older than five minutes. */
export type Signer = (count: number) => Posted[]

export async function withSigner<T>(work: (sign: Signer) => Promise<T>): Promise<T> {
  await using provider = await startProvider()
  const [basic, pro] = ['Basic', 'Pro'].map((name, n) => {
    const product = provider.product({ name })
    return provider.price({ product: product.id, amount: 900 * (n + 1), interval: 'month' })
  })
  const { id } = provider.subscribe(provider.customer({ email: 'ada@example.com' }).id, basic?.id ?? '')
  provider.changePrice(id, pro?.id ?? '')
  const changed = provider.events.findLast(({ type }) => type === 'customer.subscription.updated')
  if (!changed) throw new Error('the subscription did not change')
  let made = 0
  return work((count) =>
    Array.from({ length: count }, () => {
      made += 1
      const event = { ...changed, id: `evt_bench${String(made).padStart(12, '0')}`, livemode: true }
      return provider.signed(event, { secret: SECRET, at: new Date() })
    }),
  )
}

/** Events per second, with one connection for each request in flight. Throws if a response is not 200. */
export async function eventsPerSecond(url: string, events: readonly Posted[]): Promise<number> {
  const pool = new Pool(url, { connections: null })
  const started = performance.now()
  await inFlight(events.length, async (n) => {
    const { body, headers } = events[n] as Posted
    const response = await pool.request({ method: 'POST', path: PATH, headers: { ...headers }, body })
    const text = await response.body.text()
    if (response.statusCode !== 200) throw new Error(`${url}: ${response.statusCode} ${text}`)
  })
  const perSecond = events.length / ((performance.now() - started) / 1_000)
  await pool.close()
  return perSecond
}
