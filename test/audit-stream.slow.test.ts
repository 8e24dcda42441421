/** Streams sealed audit entries to subscriptions of the host, over restarts, failures and concurrent processes. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { recordChange } from '../src/kernel/events/changes.ts'
import { auditLogs } from '../src/satellites/audit-logs/index.ts'
import { webhooks } from '../src/satellites/webhooks/index.ts'
import type { Tenancy } from '../src/tenancy/tenancy.ts'
import { eventually, type TestTenancy, testTenancy } from '../src/testing/base/tenancy.ts'
import { type Receiver, startReceiver } from './support/receiver.ts'

type Satellites = [ReturnType<typeof auditLogs>, ReturnType<typeof webhooks>]

let opened: TestTenancy<Satellites>
let tenancy: Tenancy<Satellites>
let receiver: Receiver
let path: string
beforeAll(async () => {
  opened = await testTenancy<Satellites>(inject('postgresUrl'), {
    satellites: [auditLogs(), webhooks()],
    egress: { allowPrivateNetworks: true, allowHttp: true },
    role: 'api',
  })
  tenancy = opened.tenancy
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver?.close()
  await opened?.end()
})
beforeEach(() => {
  path = `/${randomUUID()}`
  receiver.respondWith(() => ({}))
})
afterEach(async () => {
  const { data } = await tenancy.webhooks.list(null)
  for (const { webhookId } of data) await tenancy.webhooks.delete(null, webhookId)
})

const change = (tenantId: string | null, target: string, after: Record<string, unknown> = {}) =>
  tenancy.transaction(() => recordChange(tenancy.kernel.events, { action: 'tests.change', tenantId, target, after }))
const sealed = async (tenantId: string | null, ...targets: string[]) => {
  for (const target of targets) await change(tenantId, target)
  await tenancy.auditLogs.sealer.seal()
}
const subscribe = async (events = ['audit.entries']) =>
  (await tenancy.webhooks.create(null, { url: receiver.url + path, events })).webhookId
const batches = () => receiver.received.filter((one) => one.path === path).map(({ body }) => JSON.parse(body))
const entries = (): any[] => batches().flatMap(({ entries: some }) => some)
const targets = () => entries().map(({ target }) => target)

/** Runs the job until it has sent everything, with a worker that sends deliveries. */
async function stream(by = tenancy): Promise<void> {
  const end = new AbortController()
  const running = by.webhooks.streams.send(end.signal).finally(() => end.abort())
  while (!end.signal.aborted) {
    await by.webhooks.retry()
    await Promise.race([running, new Promise((resolve) => setTimeout(resolve, 10))])
  }
  await running
}
const positionOf = async (webhookId: string) =>
  (
    await tenancy.kernel.database.sql(
      `select position, delivery_id as "deliveryId" from multitenancy.webhook_streams where webhook_id = $1`,
      [webhookId],
    )
  ).rows[0]

describe('a subscription of the host to audit.entries', () => {
  test('receives every sealed entry once, in the order of the seals, with the seal of the log', async () => {
    await sealed('acme', 'first', 'second')
    await sealed('globex', 'third')
    await subscribe()
    await change('acme', 'unsealed')
    await stream()
    expect(targets().slice(-3)).toEqual(['first', 'second', 'third'])
    expect(entries().map(({ position }) => position)).toEqual(
      entries()
        .map(({ position }) => position)
        .toSorted((a, b) => a - b),
    )
    const [entry] = entries().slice(-3)
    const { data } = await tenancy.auditLogs.list('acme')
    expect(entry).toEqual({
      ...data.find(({ target }) => target === 'first'),
      position: expect.any(Number),
      sequence: 1,
      isTruncated: false,
    })
    const { length } = entries()
    await stream()
    expect(entries()).toHaveLength(length)
    await sealed('acme')
    await stream()
    expect(targets().at(-1)).not.toBe('third') // the subscription itself has an entry
    expect(targets()).toContain('unsealed')
    expect(new Set(entries().map(({ id }) => id)).size).toBe(entries().length)
  })

  test('receives batches that continue each other, in large numbers', async () => {
    const many = Array.from({ length: 1_100 }, (_, n) => `many:${n}`)
    await tenancy.transaction(async () => {
      for (const target of many) {
        await recordChange(tenancy.kernel.events, { action: 'tests.change', tenantId: 'many', target })
      }
    })
    await sealed(null)
    await subscribe()
    await stream()
    expect(batches().length).toBeGreaterThan(2)
    const [first, ...others] = batches()
    expect(first.previous).toBe(0)
    expect(others.map(({ previous }) => previous)).toEqual(
      batches()
        .slice(0, -1)
        .map(({ position }) => position),
    )
    const ofMany = entries().filter(({ tenantId }) => tenantId === 'many')
    expect(ofMany.map(({ sequence }) => sequence)).toEqual(many.map((_, n) => n + 1))
    expect(new Set(ofMany.map(({ target }) => target))).toEqual(new Set(many))
  })

  test('continues at its position in another process', async () => {
    const webhookId = await subscribe()
    await stream()
    const before = entries().length
    await sealed('acme', 'after the restart')
    const other = await opened.open()
    await stream(other)
    expect(targets().slice(before)).toContain('after the restart')
    expect(
      entries()
        .slice(before)
        .every(({ position }) => position > (batches()[0]?.position ?? 0)),
    ).toBe(true)
    expect((await positionOf(webhookId)).position).toBe(batches().at(-1)?.position)
  })

  test('receives a rejected batch again, and no later one before it is accepted', async () => {
    receiver.respondWith(() => ({ status: 500 }))
    const webhookId = await subscribe()
    await sealed('acme', 'rejected')
    await stream()
    await sealed('acme', 'later')
    await stream()
    expect(batches()).toHaveLength(1)
    expect((await positionOf(webhookId)).position).toBe(0)
    receiver.respondWith(() => ({}))
    const { deliveryId } = await positionOf(webhookId)
    await tenancy.webhooks.replay(null, webhookId, deliveryId)
    // A run that finds the retry before it is sent leaves the next batch to the next run.
    await eventually(async () => {
      await stream()
      const [rejected, again, ...rest] = batches()
      expect(again).toEqual(rejected)
      expect(rest.flatMap(({ entries: some }) => some).map(({ target }) => target)).toContain('later')
    })
  })

  test('receives the batch of a failed delivery in a new delivery, after its subscription is enabled again', async () => {
    receiver.respondWith(() => ({ status: 410 }))
    const webhookId = await subscribe()
    await stream()
    expect(batches()).toHaveLength(1)
    await eventually(async () => expect((await tenancy.webhooks.get(null, webhookId)).enabled).toBe(false))
    await stream()
    expect(batches()).toHaveLength(1)
    receiver.respondWith(() => ({}))
    await tenancy.webhooks.update(null, webhookId, { enabled: true })
    await stream()
    const [failed, again] = batches()
    expect(again.previous).toBe(failed.previous)
    expect(again.entries.slice(0, failed.entries.length)).toEqual(failed.entries)
  })

  test('receives each batch once while several processes send', async () => {
    await sealed('acme', 'a', 'b', 'c')
    const webhookId = await subscribe()
    const others = await Promise.all([opened.open(), opened.open(), opened.open()])
    const ids = await Promise.all(
      [tenancy, ...others].flatMap((one) => [
        one.webhooks.streams.advance(webhookId, 'audit.entries'),
        one.webhooks.streams.advance(webhookId, 'audit.entries'),
      ]),
    )
    expect(new Set(ids).size).toBe(1)
    await Promise.all([tenancy, ...others].map(stream))
    expect(new Set(entries().map(({ id }) => id)).size).toBe(entries().length)
  })

  test('receives an entry that is larger than a batch without its states', async () => {
    await subscribe()
    await change('acme', 'large', { text: 'x'.repeat(600_000) })
    await sealed('acme', 'small')
    await stream()
    const large = entries().find(({ target }) => target === 'large')
    expect(large).toMatchObject({ before: null, after: null, isTruncated: true, hash: expect.any(String) })
    expect(targets()).toContain('small')
  })
})

test('a pattern does not match the stream', async () => {
  await sealed('acme', 'not sent')
  await subscribe(['*'])
  await subscribe(['audit.*'])
  await stream()
  expect(batches().filter((body) => body.entries)).toEqual([])
})

test('a subscription of a tenant receives no stream', async () => {
  const { id } = await tenancy.tenants.create({ id: 'listening', name: 'Listening' })
  await tenancy.webhooks.create(id, { url: receiver.url + path, events: ['audit.entries'] })
  await sealed(id, 'not sent')
  await stream()
  expect(batches()).toEqual([])
})

test('a host cannot dispatch an event with the name of the stream', async () => {
  const { id } = await tenancy.tenants.create({ id: 'forging', name: 'Forging' })
  await expect(tenancy.webhooks.dispatch(id, 'audit.entries', { entries: [] })).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
  })
})
