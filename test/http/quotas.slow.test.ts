/** Quotas on routes of a host: the remaining pairs of framework and store, and unavailable stores. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { postgresStore } from '../../src/drivers/store/postgres.ts'
import { redisStore } from '../../src/drivers/store/redis.ts'
import { uuidv7 } from '../../src/kernel/base/ids.ts'
import { DependencyDegraded } from '../../src/kernel/resilience/resilience.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Proxy as Line, startProxy } from '../support/proxy.ts'
import type { Host } from './hosts.ts'
import { quotaHosts } from './quota-hosts.ts'
import {
  codeOf,
  describeQuotas,
  guardOf,
  hasRateLimit,
  PLANS,
  post,
  reached,
  routes,
  toNoonMs,
  type WithQuotas,
} from './quotas-suite.ts'

const hosts = Object.keys(quotaHosts)

describeQuotas('memory', ['express', 'fastify'])
describeQuotas('postgres', ['node', 'fastify', 'hono'])
describeQuotas('redis', ['node', 'express', 'hono'])

/** Stores behind a proxy: their server, and how to open them. */
const distant = {
  postgres: {
    server: (databaseUrl: string) => databaseUrl,
    at: (url: string) => ({ database: { url }, store: postgresStore({ clockOffsetMs: toNoonMs, timeoutMs: 500 }) }),
  },
  redis: {
    server: () => inject('redisUrl'),
    // Without an identity: one server with two addresses is one store.
    at: (url: string) => ({
      store: { ...redisStore({ url, clockOffsetMs: toNoonMs, timeoutMs: 500 }), identity: undefined },
    }),
  },
} as const

const absences = [
  ['postgres', 'unavailable'],
  ['redis', 'unavailable'],
  ['redis', 'unresponsive'],
] as const

describe.each(absences)('the store %s, %s', (store, how) => {
  let made: TestTenancy<[ReturnType<typeof quotas>]>
  let direct: WithQuotas
  let proxy: Line
  let host: Host
  let id: string

  beforeAll(async () => {
    const { server, at } = distant[store]
    made = await testTenancy(inject('postgresUrl'), { plans: PLANS, satellites: [quotas()] })
    proxy = await startProxy(server(made.url))
    direct = await made.open({ ...at(server(made.url)), role: 'api' })
    id = `of-${store}-${uuidv7()}`
    await installed(made.tenancy, { id, name: 'Customer' })
    await direct.quotas.consume(id, 'exports', 3)
  })
  beforeEach(() => void reached.splice(0))
  afterEach(() => host?.close())
  afterAll(async () => {
    await made?.end()
    await proxy?.close()
  })

  const serve = async (framework: string, quota: 'fail-open' | 'fail-closed') => {
    const open = quotaHosts[framework] as (typeof quotaHosts)[string]
    const tenancy = await made.open({
      ...distant[store].at(proxy.url),
      resilience: { redis: { quota }, retryAfterSeconds: 7 },
      role: 'api',
    })
    host = await open({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })
    expect(codeOf(await post(host, '/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
    return tenancy
  }
  const disconnect = () => (how === 'unavailable' ? proxy.close() : proxy.blackhole())
  const comeBack = async () => {
    if (how === 'unresponsive') await proxy.close()
    await proxy.open()
    await eventually(async () =>
      expect(codeOf(await post(host, '/exports', id))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED']),
    )
    expect(await direct.quotas.getUsage(id, 'exports')).toBe(3)
  }
  /** Samples of a metric of one tenancy, by labels. */
  const samples = async ({ series }: WithQuotas, name: string) =>
    Object.fromEntries(
      [...(await series.expose()).matchAll(new RegExp(`^${name}(\\{.*\\}) (\\d+)$`, 'gm'))].map(
        ([, labels = '', value]) => [labels, Number(value)],
      ),
    )

  test.each(hosts)(
    '%s, fail-open: serves and reports requests during an outage, and counts again afterwards',
    async (framework) => {
      const tenancy = await serve(framework, 'fail-open')
      const published: unknown[] = []
      tenancy.on(DependencyDegraded, (event) => void published.push(event))
      await disconnect()
      for (const path of ['/exports', '/tracked']) {
        const served = await post(host, path, id)
        expect([served.status, served.json, hasRateLimit(served)]).toEqual([200, { body: 'the body' }, false])
      }
      const about = { dependency: 'redis', tenantId: id, policy: 'fail-open', errorCode: 'E_DEPENDENCY_UNAVAILABLE' }
      await eventually(() =>
        expect(published.filter((event) => (event as { tenantId: unknown }).tenantId === id)).toEqual([
          expect.objectContaining({ ...about, operation: 'quotas.consume' }),
          expect.objectContaining({ ...about, operation: 'quotas.track' }),
        ]),
      )
      expect(await samples(tenancy, 'multitenancy_quota_decisions_total')).toEqual({
        '{decision="allowed"}': 0,
        '{decision="refused"}': 1,
        '{decision="tracked"}': 0,
        '{decision="degraded"}': 2,
        '{decision="unavailable"}': 0,
      })
      const degraded = await samples(tenancy, 'multitenancy_dependency_degraded_total')
      expect(degraded['{dependency="redis",policy="fail-open"}']).toBeGreaterThanOrEqual(2)
      await comeBack()
      await tenancy.stop()
    },
  )

  test.each(hosts)('%s, fail-closed: returns 503 during an outage, and never 429', async (framework) => {
    const tenancy = await serve(framework, 'fail-closed')
    await disconnect()
    for (const path of ['/exports', '/tracked', '/none']) {
      const refused = await post(host, path, id)
      expect(codeOf(refused)).toEqual([503, 'E_DEPENDENCY_UNAVAILABLE'])
      expect(refused.headers['content-type']).toMatch('application/problem+json')
      expect(refused.headers['retry-after']).toBe('7')
      expect(hasRateLimit(refused)).toBe(false)
    }
    expect(reached).toEqual([])
    expect(await samples(tenancy, 'multitenancy_quota_decisions_total')).toMatchObject({
      '{decision="refused"}': 1,
      '{decision="unavailable"}': 3,
    })
    expect(await samples(tenancy, 'multitenancy_dependency_degraded_total')).toMatchObject({
      '{dependency="redis",policy="fail-closed"}': 3,
    })
    await comeBack()
    await tenancy.stop()
  })
})
