/**
 * Sends a signed test event to an endpoint and looks for it in the inbox, so that the response of another server does
 * not count as success.
 */
import { randomUUID } from 'node:crypto'
import { DependencyUnavailable, invalid } from '../../kernel/base/errors.ts'
import type { Billing } from './billing.ts'
import { queryOf } from './model/dependencies.ts'
import { TEST_TYPE } from './model/provider.ts'

export interface Probed {
  readonly eventId: string
  /** Status of the response; null if the event was passed to the receiver without HTTP. */
  readonly status: number | null
  readonly received: boolean
  readonly durationMs: number
}

const TIMEOUT_MS = 10_000

export async function probe(billing: Billing, url: string): Promise<Probed> {
  const target = URL.parse(url)
  if (!target || !/^https?:$/.test(target.protocol))
    throw invalid([{ path: 'url', message: 'must be an http or https URL' }])
  const { eventId, body, signature } = await event(billing)
  const started = performance.now()
  // The operator chose the URL, which may be local, so the egress rules for tenants do not apply.
  const response = await fetch(target, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'stripe-signature': signature },
    body,
    redirect: 'manual',
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((cause) => {
    throw DependencyUnavailable(`No server responded at ${target.origin}${target.pathname}. Check the URL.`, { cause })
  })
  await response.body?.cancel()
  return { eventId, status: response.status, ...(await outcome(billing, eventId, started)) }
}

/** Passes the event to the receiver with an allowed address, behind the configured number of proxies. */
export async function probeHere(billing: Billing): Promise<Probed> {
  const { allowedIps, trustProxy } = billing.dependencies.settings.webhook
  const { eventId, body, signature } = await event(billing)
  const started = performance.now()
  const ip = allowedIps?.[0]?.split('/')[0] ?? '127.0.0.1'
  const hops = Array.from({ length: trustProxy }, () => ip).join(', ')
  await billing.receiver.receive({
    headers: new Headers({ 'stripe-signature': signature, 'x-forwarded-for': hops }),
    ip,
    body: async () => Buffer.from(body),
  })
  return { eventId, status: null, ...(await outcome(billing, eventId, started)) }
}

async function event({ dependencies }: Billing) {
  const eventId = `evt_test_${randomUUID().replaceAll('-', '')}`
  const signed = await dependencies.payments.signed({
    id: eventId,
    object: 'event',
    type: TEST_TYPE,
    created: Math.floor(dependencies.kernel.clock.now().getTime() / 1000),
    livemode: dependencies.payments.isLive,
    data: { object: {} },
  })
  return { eventId, ...signed }
}

async function outcome({ dependencies }: Billing, eventId: string, started: number) {
  const row = await queryOf(dependencies)
    .selectFrom('billingInbox')
    .select('eventId')
    .where('eventId', '=', eventId)
    .executeTakeFirst()
  return { received: row !== undefined, durationMs: Math.round(performance.now() - started) }
}
