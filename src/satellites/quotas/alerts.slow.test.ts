/** Alerts of quotas while the database is unresponsive. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../test/support/proxy.ts'
import { memoryStore } from '../../drivers/store/memory.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually, notificationsReceived } from '../../testing/base/tenancy.ts'
import { QuotaThresholdReached } from './events.ts'
import type { quotas } from './index.ts'
import { openQuotas, type QuotasOpened } from './quotas.fixture.ts'

type QuotasTenancy = Tenancy<[ReturnType<typeof quotas>]>

let all: QuotasOpened
let way: Way
/** On the same database through a proxy. Its quotas are in memory, so only alerts depend on the database. */
let apart: QuotasTenancy

beforeAll(async () => {
  all = await openQuotas('postgres')
  way = await startProxy(all.opened.url)
  const store = { ...memoryStore(), identity: undefined } // not compared with the store of the first process
  apart = await all.opened.open({ database: { url: way.url, max: 4 }, store })
})

afterAll(async () => {
  await all.opened.end()
  await way.close()
})

test('alerts occupy one connection of an unresponsive database, and a later call publishes missing alerts', async () => {
  const tenants = await Promise.all(Array.from({ length: 12 }, () => all.tenant()))
  await notificationsReceived(apart)
  for (const id of tenants) await apart.quotas.consume(id, 'exports', 1)
  const notified = new Set<string>()
  apart.on(QuotaThresholdReached, ({ tenantId }) => void notified.add(tenantId))
  await Promise.all(Array.from({ length: 4 }, () => apart.kernel.database.ping())) // all connections are open
  way.blackhole()
  for (const id of tenants) expect(await apart.quotas.consume(id, 'exports', 7)).toBe(8)
  expect(notified.size).toBe(0)
  // Cuts unresponsive connections, as a failing network does; new connections succeed.
  await way.close()
  await way.open()
  await eventually(() => apart.kernel.database.ping())
  await eventually(async () => {
    for (const id of tenants) await apart.quotas.consume(id, 'exports', 0)
    for (const id of tenants) await apart.quotas.track(id, 'exports')
    expect(notified.size).toBe(tenants.length)
  })
})

test('a stop of the alerts does not wait for an unresponsive database', async () => {
  const acme = await all.tenant()
  await notificationsReceived(apart)
  await apart.quotas.consume(acme, 'exports', 1)
  way.blackhole()
  await apart.quotas.track(acme, 'exports', 9)
  await apart.quotas.alerts.stop()
  await way.close()
  await way.open()
})
