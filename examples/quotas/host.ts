/** A host that sells reports by plan: three per day on the free plan, with a notice before the quota is used up. */
import type { AddressInfo } from 'node:net'
import express from 'express'
import { createHttp, createTenancy, fromHeader, schemaPg } from 'tenantry'
import { enforceQuota, expressHandler, guard, problemHandler } from 'tenantry/express'
import { QuotaThresholdReached, quotas } from 'tenantry/satellites/quotas'
import { isMember, signedInUser } from '../sessions.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  isolation: [schemaPg()],
  health: { critical: ['backoffice'] },
  plans: { defaultPlan: 'free', definitions: { free: { limits: { reports: 3 } }, pro: { limits: { reports: 300 } } } },
  satellites: [quotas()],
})
tenancy.on(QuotaThresholdReached, ({ tenantId, quota, threshold }) => {
  console.log(`${tenantId} has used ${threshold} % of its ${quota}`)
})

const app = express()
app.use(expressHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })))
app.use('/reports', guard(tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: isMember, actor: signedInUser })))

app.post('/reports', enforceQuota(tenancy.quotas, 'reports'), ({ tenant }, response) => {
  response.status(201).json({ report: `made for ${tenant.id}` })
})
app.get('/reports/left', async ({ tenant }, response) => {
  response.json(await tenancy.quotas.decide(tenant.id, 'reports', 0))
})
app.use(problemHandler(tenancy.kernel.log))

const server = app.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
