/** Alerts of a real Prometheus while the payment provider is unavailable. */
import { afterAll, beforeAll, inject, test } from 'vitest'
import { createProgramDatabase } from '../src/cli/in-process.fixture.ts'
import { PingProvider } from '../src/satellites/billing/model/job-types.ts'
import type { TestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { type Drill, openDrill } from './alerts.fixture.ts'
import { type Provider, startProvider } from './support/provider/provider.ts'

let database: TestDatabase
let provider: Provider
let drill: Drill

beforeAll(async () => {
  database = await createProgramDatabase(inject('postgresUrl'))
  provider = await startProvider()
  const price = provider.price({ product: provider.product({ name: 'Pro' }).id, amount: 2_900, interval: 'month' })
  drill = await openDrill({
    databaseUrl: database.url,
    env: { STRIPE_API_KEY: provider.apiKey, STRIPE_WEBHOOK_SECRET: 'whsec_of_the_drill' },
    config: {
      plans: { defaultPlan: 'free', definitions: { free: { limits: {} }, pro: { limits: {} } } },
      billing: { stripe: { endpoint: provider.url, maxNetworkRetries: 0 }, products: { [price.id]: 'pro' } },
    },
  })
}, 240_000)
afterAll(async () => {
  await drill?.end()
  await provider?.close()
  await dropWithRoles(inject('postgresUrl'), database)
})

test('an unavailable payment provider fires TenantryBillingUnhealthy, and its return resolves it', async () => {
  const measure = () => drill.service.tenancy.kernel.jobs.send(PingProvider, {})
  await drill.run(
    'TenantryBillingUnhealthy',
    async () => {
      provider.faults.respond(500)
      await measure()
    },
    async () => {
      provider.faults.clear()
      await measure()
    },
  )
}, 240_000)
