/**
 * Benchmark of sending webhooks, from dispatch to settled, with durable rows and 64 dispatches in flight.
 *
 * - References: a loop over one shared undici pool with an HMAC; and the same with one row each, the minimum for
 *   durable delivery.
 * - Also: many events to five subscriptions each, and the effect of one unresponsive endpoint on twenty responsive
 *   ones.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { alternate, type Bench, median, type Result, RUNS } from '../measure.ts'
import { serve } from '../serve.ts'
import { baselineLoop, delivered, inFlight, outboxLoop, PAYLOAD, type Sending, withWebhooks } from '../webhooks.ts'

const TENANTS = 32
const SUBSCRIPTIONS = 5
const GOOD = 20
const MIB = 1024 * 1024

export const webhookSending = {
  name: 'webhook sending',
  async run({ postgresUrl, quick, say }: Bench): Promise<Result[]> {
    const receiver = await serve('webhook-receiver', {})
    try {
      const events = quick ? 500 : 5_000
      return [
        ...(await dispatchToSettled(postgresUrl, receiver.url, events, quick ? 1 : RUNS)),
        ...(await toFive(postgresUrl, receiver.url, quick ? 1_000 : 10_000, say)),
        await besideOneThatHangs(postgresUrl, receiver.url, quick ? 1_000 : 10_000, quick ? 1 : 3),
      ]
    } finally {
      await receiver.close()
    }
  },
}

const idOf = (n: number): string => `tenant-${(n % TENANTS) + 1}`

/** Milliseconds until `count` more deliveries have succeeded. */
async function sent(tenancy: Sending, count: number, dispatch: () => Promise<void>): Promise<number> {
  const before = await delivered(tenancy)
  const started = performance.now()
  await dispatch()
  while ((await delivered(tenancy)) < before + count) await nextTurn()
  return performance.now() - started
}

const dispatchToSettled = (postgresUrl: string, url: string, events: number, runs: number): Promise<Result[]> =>
  withWebhooks(postgresUrl, TENANTS, { concurrency: 64 }, async (tenancy, databaseUrl) => {
    for (let n = 0; n < TENANTS; n++) await tenancy.webhooks.create(idOf(n), { url: `${url}/${n}`, events: ['*'] })
    const ours = async () => {
      const dispatch = () => inFlight(events, (n) => tenancy.webhooks.dispatch(idOf(n), 'invoice.paid', PAYLOAD))
      return events / ((await sent(tenancy, events, dispatch)) / 1_000)
    }
    const baseline = () => baselineLoop(`${url}/baseline`, events)
    const outbox = () => outboxLoop(`${url}/outbox`, events, databaseUrl)
    for (const warm of [ours, baseline, outbox]) await warm()
    const measured = await alternate(runs, { baseline, outbox, ours })
    const name = 'webhooks, dispatch to settled'
    const against = 'a bare loop, undici and HMAC'
    const to = (reference: number) => ({
      unit: 'deliveries/s',
      ours: measured.ours,
      reference,
      ratio: measured.ours / reference,
    })
    return [
      { name, against, ...to(measured.baseline), goal: 0.5 },
      { name, against: `${against}, one row inserted and updated each`, ...to(measured.outbox) },
    ]
  })

const toFive = (postgresUrl: string, url: string, events: number, say: (text: string) => void): Promise<Result[]> =>
  withWebhooks(postgresUrl, TENANTS, {}, async (tenancy) => {
    for (let n = 0; n < TENANTS; n++) {
      for (let m = 0; m < SUBSCRIPTIONS; m++) {
        await tenancy.webhooks.create(idOf(n), { url: `${url}/${n}/${m}`, events: ['*'] })
      }
    }
    const part = events / 5
    const rates: number[] = []
    const heaps: number[] = []
    for (let round = 0; round < 6; round++) {
      const dispatch = () => inFlight(part, (n) => tenancy.webhooks.dispatch(idOf(n), 'invoice.paid', PAYLOAD))
      const took = await sent(tenancy, part * SUBSCRIPTIONS, dispatch)
      if (round === 0) continue // warm-up
      rates.push((part * SUBSCRIPTIONS) / (took / 1_000))
      global.gc?.()
      heaps.push(process.memoryUsage().heapUsed)
      say(
        `${part} events to ${SUBSCRIPTIONS} each: ${Math.round(took)} ms, heap ${Math.round((heaps.at(-1) ?? 0) / MIB)} MiB`,
      )
    }
    const [first = 0, last = 0] = [rates[0], rates.at(-1)]
    return [
      {
        name: `${events} events to ${SUBSCRIPTIONS} subscriptions each, the last fifth`,
        against: 'the first fifth',
        unit: 'deliveries/s',
        ours: last,
        reference: first,
        ratio: last / first,
        goal: 0.8,
      },
      {
        name: `${events} events to ${SUBSCRIPTIONS} subscriptions each`,
        value: `${Math.round(median(rates))} deliveries/s, heap ${heaps.map((heap) => Math.round(heap / MIB)).join(', ')} MiB after each fifth`,
      },
    ]
  })

const besideOneThatHangs = (postgresUrl: string, url: string, events: number, runs: number): Promise<Result> =>
  withWebhooks(postgresUrl, GOOD + 1, {}, async (tenancy) => {
    const good = (n: number) => `tenant-${(n % GOOD) + 1}`
    const hanging = `tenant-${GOOD + 1}`
    for (let n = 0; n < GOOD; n++) await tenancy.webhooks.create(good(n), { url: `${url}/${n}`, events: ['*'] })
    await tenancy.webhooks.create(hanging, { url: `${url}/never`, events: ['*'] })
    const measure = (isBeside: boolean) => async () => {
      const dispatch = () =>
        inFlight(events, (n) => {
          const to = isBeside && n % GOOD === 0 ? [good(n), hanging] : [good(n)]
          return Promise.all(to.map((tenantId) => tenancy.webhooks.dispatch(tenantId, 'invoice.paid', PAYLOAD)))
        })
      return events / ((await sent(tenancy, events, dispatch)) / 1_000)
    }
    await measure(false)()
    // The unresponsive requests stay open, so this side runs last.
    const alone: number[] = []
    const beside: number[] = []
    for (let run = 0; run < runs; run++) alone.push(await measure(false)())
    for (let run = 0; run < runs; run++) beside.push(await measure(true)())
    const [ours, reference] = [median(beside), median(alone)]
    return {
      name: `${GOOD} responsive endpoints and an unresponsive one`,
      against: 'without it',
      unit: 'deliveries/s',
      ours,
      reference,
      ratio: ours / reference,
      goal: 0.9,
    }
  })
