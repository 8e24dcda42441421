/** Reference of the admin API: one Hono route with one SELECT by key. */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import pg from 'pg'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 })
const app = new Hono()
app.get('/admin/multitenancy/tenants/:id', async (c) => {
  const { rows } = await pool.query('select * from multitenancy.tenants where id = $1', [c.req.param('id')])
  return rows[0] ? c.json(rows[0]) : c.notFound()
})
const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) =>
  process.stdout.write(`http://127.0.0.1:${port}\n`),
)
process.on('SIGTERM', async () => {
  server.close()
  await pool.end()
  process.exit(0)
})
