/** A host on Fastify with raw SQL: the admin API, the probes, the metrics, and guarded routes. */
import fastify from 'fastify'
import { createHttp, fromHeader } from 'tenantry'
import { fastifyHandler, guard, problemHandler } from 'tenantry/fastify'
import { isMember, signedInUser } from '../sessions.ts'
import definition from '../tenancy.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await definition.start() // DATABASE_URL and TENANTRY_APP_KEY are in the environment

const app = fastify()
app.setErrorHandler(problemHandler(tenancy.kernel.log))
await app.register(fastifyHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))

await app.register(async (routes) => {
  await routes.register(
    guard(tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: isMember, actor: signedInUser })),
  )
  routes.get('/notes', async ({ tenant }) => {
    const result = await tenant.pool.query('select * from notes where id >= $1 order by id', [1])
    return result.rows
  })
})

app.addHook('onClose', () => tenancy.stop())
console.log(await app.listen({ port: Number(PORT), host: '127.0.0.1' }))
process.once('SIGTERM', () => app.close())
