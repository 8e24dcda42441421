/** Reports subscriptions of the host that lag behind the stream of the audit log: series and findings. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { recordChange } from '../src/kernel/events/changes.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { fakeClock } from '../src/testing/base/clock.ts'
import { eventually, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { type Receiver, startReceiver } from './support/receiver.ts'

type Satellites = [ReturnType<typeof auditLogs>, ReturnType<typeof webhooks>]

const clock = fakeClock(new Date())
let opened: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>
let receiver: Receiver

beforeAll(async () => {
  opened = await testTenancy<Satellites>(inject('postgresUrl'), {
    satellites: [auditLogs(), webhooks()],
    egress: { allowPrivateNetworks: true, allowHttp: true },
    role: 'api',
    clock,
  })
  tenancy = opened.tenancy
  receiver = await startReceiver()
})
afterEach(async () => {
  receiver.respondWith(() => ({}))
  const { data } = await tenancy.webhooks.list(null)
  for (const { webhookId } of data) await tenancy.webhooks.delete(null, webhookId)
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})

async function seal(): Promise<void> {
  await tenancy.transaction(() =>
    recordChange(tenancy.kernel.events, { action: 'tests.change', tenantId: 'acme', target: 'acme' }),
  )
  await tenancy.auditLogs.sealer.seal()
}
const subscribe = async () =>
  (await tenancy.webhooks.create(null, { url: `${receiver.url}/a-secret-path`, events: ['audit.entries'] })).webhookId

/** Sends all entries that the receiver accepts. */
async function send(): Promise<void> {
  const end = new AbortController()
  const running = tenancy.webhooks.streams.send(end.signal).finally(() => end.abort())
  while (!end.signal.aborted) await tenancy.webhooks.retry()
  await running
}
/** Of a new process, which has no cached value. */
const lag = async () => {
  const exposed = await (await opened.open()).series.expose()
  return Number(/^multitenancy_webhook_stream_lag_seconds\{stream="audit\.entries"\} (.*)$/m.exec(exposed)?.[1])
}
const findings = async () =>
  (await tenancy.doctor.examine()).checks.filter(({ code }) => code === 'webhooks.stream-behind')

test('without a subscription there is no lag', async () => {
  await seal()
  expect(await lag()).toBe(0)
  expect(await findings()).toEqual([])
})

test('the lag is the age of the oldest entry that the receiver has not accepted', async () => {
  const webhookId = await subscribe()
  await seal()
  await send()
  expect(await lag()).toBe(0)
  const since = clock.now()
  await seal()
  clock.advance(14 * 60_000)
  await seal()
  expect(await lag()).toBe(14 * 60)
  expect(await findings()).toEqual([])
  clock.advance(60_000)
  expect(await lag()).toBe(15 * 60)
  expect(await findings()).toMatchObject([
    {
      severity: 'warn',
      message: `Not accepted since ${since.toISOString()}: audit.entries by subscription ${webhookId} of the host (${receiver.url}).`,
      remedy: expect.stringContaining(`tenantry webhooks:deliveries:list ${webhookId}`),
    },
  ])
  await send()
  expect(await lag()).toBe(0)
  expect(await findings()).toEqual([])
})

test('the series has the subscription with the greatest lag, each late subscription has a finding', async () => {
  await subscribe()
  await seal()
  await send()
  clock.advance(3_600_000)
  await seal()
  const later = await subscribe()
  expect(await lag()).toBeGreaterThanOrEqual(3_600)
  expect(await findings()).toMatchObject([{ message: expect.stringContaining(later) }])
  clock.advance(900_000)
  expect(await findings()).toHaveLength(2)
})

test('a subscription that was disabled after a failure lags, one that an operator disabled does not', async () => {
  const webhookId = await subscribe()
  receiver.respondWith(() => ({ status: 410 }))
  await seal()
  await send()
  await eventually(async () => expect((await tenancy.webhooks.get(null, webhookId)).enabled).toBe(false))
  clock.advance(900_000)
  expect(await lag()).toBeGreaterThanOrEqual(900)
  expect(await findings()).toHaveLength(1)
  await tenancy.webhooks.update(null, webhookId, { enabled: true })
  await tenancy.webhooks.update(null, webhookId, { enabled: false })
  expect(await lag()).toBe(0)
  expect(await findings()).toEqual([])
})
