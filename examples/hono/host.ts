/** A host on Hono: the admin API, the probes and the metrics, beside a route of its own. */
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createHttp, createTenancy, problemOf, schemaPg } from 'tenantry'
import { honoHandler } from 'tenantry/hono'

const { DATABASE_URL = '', TENANTRY_APP_KEY = '', TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  migrations: `${import.meta.dirname}/../migrations`,
})

const app = new Hono()
app.use(honoHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))

app.get('/notes', async (context) => {
  const { db } = await tenancy.tenant(context.req.header('x-tenant') ?? '')
  return context.json(await db.selectFrom('notes').selectAll().orderBy('id').execute())
})

app.onError((error) => {
  const problem = problemOf(error)
  if (!problem) throw error
  return new Response(JSON.stringify(problem.body), problem)
})

const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
