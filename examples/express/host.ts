/** A host on Express with Kysely: the admin API, the probes, the metrics, and guarded routes. */
import type { AddressInfo } from 'node:net'
import express from 'express'
import { createHttp, fromHeader } from 'tenantry'
import { expressHandler, guard, problemHandler } from 'tenantry/express'
import { isMember, signedInUser } from '../sessions.ts'
import definition from '../tenancy.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await definition.start() // DATABASE_URL and TENANTRY_APP_KEY are in the environment

const app = express()
app.use(expressHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))
app.use('/notes', guard(tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: isMember, actor: signedInUser })))

app.get('/notes', async ({ tenant }, response) => {
  response.json(await tenant.db.selectFrom('notes').selectAll().orderBy('id').execute())
})
app.use(problemHandler(tenancy.kernel.log))

const server = app.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
