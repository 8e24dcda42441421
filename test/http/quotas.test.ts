/** Quotas on a host's own routes, over real sockets: each framework and each store once, and two processes on one store. */
import { describe, expect, inject, test } from 'vitest'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { testTenancy } from '../../src/testing/tenancy.ts'
import type { Host } from './hosts.ts'
import { quotaHosts } from './quota-hosts.ts'
import { customer, describeQuotas, guardOf, PLANS, routes, stores } from './quotas-suite.ts'
import { send } from './served.ts'

// The other pairs of a framework and a store are in quotas.slow.test.ts, the ways of one framework in quotas.frameworks.test.ts.
describeQuotas('memory', ['node', 'hono'])
describeQuotas('postgres', ['express'])
describeQuotas('redis', ['fastify'])

describe.each(['postgres', 'redis'] as const)('two processes on the store %s', (name) => {
  test('let through together exactly what is allowed', async () => {
    const { store } = stores[name]()
    const made = await testTenancy(inject('postgresUrl'), { store, plans: PLANS, satellites: [quotas()], role: 'api' })
    const id = await customer(made.tenancy, 'pro')
    const both = [made.tenancy, await made.open()]
    const opened = await Promise.all(
      both.map((tenancy) => quotaHosts.express?.({ quotas: tenancy.quotas, guard: guardOf(tenancy), routes })),
    )
    const [first, second] = opened as [Host, Host]
    const headers = { 'x-tenant-id': id }
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => send((n % 2 ? first : second).origin, 'POST /exports', { headers })),
    )
    await Promise.all([first.close(), second.close()])
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(25)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(35)
    expect(await made.tenancy.quotas.getUsage(id, 'exports')).toBe(25)
    await made.end()
  })
})
