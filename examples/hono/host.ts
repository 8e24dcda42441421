/** A host on Hono with Drizzle: the admin API, the probes, the metrics, and guarded routes. */
import { serve } from '@hono/node-server'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
import { Hono } from 'hono'
import { createHttp, fromHeader } from 'tenantry'
import { guard, honoHandler, problemHandler, tenantOf } from 'tenantry/hono'
import { isMember, signedInUser } from '../sessions.ts'
import definition from '../tenancy.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await definition.start() // DATABASE_URL and TENANTRY_APP_KEY are in the environment

const notes = pgTable('notes', {
  id: integer().primaryKey().generatedAlwaysAsIdentity(),
  title: text().notNull(),
  created_at: timestamp({ withTimezone: true }).notNull().defaultNow(),
})

const app = new Hono()
  .use(honoHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))
  .use('/notes', guard(tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: isMember, actor: signedInUser })))
  .get('/notes', async (context) => {
    const { pool } = tenantOf(context)
    return context.json(await drizzle({ client: pool }).select().from(notes).orderBy(notes.id))
  })
app.onError(problemHandler(tenancy.kernel.log, (_error, context) => context.text('Something went wrong.', 500)))

const server = serve({ fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
