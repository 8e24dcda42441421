/** Serves Tenantry's receiver of payment events on Hono. */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { honoHandler } from '../../src/http/hosts/hono.ts'
import { createReceivers } from '../../src/index.ts'
import { billing } from '../../src/satellites/billing/index.ts'
import { SECRET } from '../provider-events.ts'
import { openTenancy } from '../tenancy.ts'

const tenancy = await openTenancy(process.env.DATABASE_URL ?? '', {
  satellites: [billing({ stripe: { apiKey: 'sk_live_of_the_benchmark', webhookSecret: SECRET }, products: {} })],
  role: 'api',
})
const app = new Hono()
app.use(honoHandler(createReceivers(tenancy)))
const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) =>
  process.stdout.write(`http://127.0.0.1:${port}\n`),
)
process.on('SIGTERM', async () => {
  server.close()
  await tenancy.stop()
  process.exit(0)
})
