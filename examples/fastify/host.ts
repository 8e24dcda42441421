/** A host on Fastify: the admin API, the probes and the metrics, beside a route of its own. */
import fastify from 'fastify'
import { createHttp, createTenancy, problemOf, schemaPg } from 'tenantry'
import { fastifyHandler } from 'tenantry/fastify'

const { DATABASE_URL = '', TENANTRY_APP_KEY = '', TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  migrations: `${import.meta.dirname}/../migrations`,
})

const app = fastify()
await app.register(fastifyHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))

app.get('/notes', async ({ headers }) => {
  const { db } = await tenancy.tenant(String(headers['x-tenant'] ?? ''))
  return db.selectFrom('notes').selectAll().orderBy('id').execute()
})

app.setErrorHandler((error, _request, reply) => {
  const problem = problemOf(error)
  if (!problem) throw error
  return reply.code(problem.status).headers(problem.headers).send(problem.body)
})

app.addHook('onClose', () => tenancy.stop())
console.log(await app.listen({ port: Number(PORT), host: '127.0.0.1' }))
process.once('SIGTERM', () => app.close())
