/** Reference of the billing receiver: one Hono route that verifies the signature and inserts the event. */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import pg from 'pg'
import Stripe from 'stripe'
import { PATH, SECRET } from '../provider-events.ts'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 })
const { webhooks } = new Stripe('sk_live_of_the_benchmark')
const app = new Hono()
app.post(PATH, async (c) => {
  const event = webhooks.constructEvent(await c.req.text(), c.req.header('stripe-signature') ?? '', SECRET)
  await pool.query('insert into bare_events (event_id, type, payload) values ($1, $2, $3) on conflict do nothing', [
    event.id,
    event.type,
    event,
  ])
  return c.json({ received: true })
})
const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) =>
  process.stdout.write(`http://127.0.0.1:${port}\n`),
)
process.on('SIGTERM', async () => {
  server.close()
  await pool.end()
  process.exit(0)
})
