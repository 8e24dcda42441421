/** A host on Express: the admin API, the probes and the metrics, beside a route of its own. */
import type { AddressInfo } from 'node:net'
import express, { type ErrorRequestHandler } from 'express'
import { createHttp, createTenancy, problemOf, schemaPg } from 'tenantry'
import { expressHandler } from 'tenantry/express'

const { DATABASE_URL = '', TENANTRY_APP_KEY = '', TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  migrations: `${import.meta.dirname}/../migrations`,
})

const app = express()
app.use(expressHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))

app.get('/notes', async (request, response) => {
  const { db } = await tenancy.tenant(request.get('x-tenant') ?? '')
  response.json(await db.selectFrom('notes').selectAll().orderBy('id').execute())
})

const answerTenancyErrors: ErrorRequestHandler = (error, _request, response, next) => {
  const problem = problemOf(error)
  if (!problem) return next(error)
  response.status(problem.status).set(problem.headers).json(problem.body)
}
app.use(answerTenancyErrors)

const server = app.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
