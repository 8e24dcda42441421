/** A host on node:http without a framework: the admin API, the probes, the metrics, and a guarded route. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHttp, fromHeader } from 'tenantry'
import { guard, nodeHandler, problemHandler, requireTenant } from 'tenantry/node'
import { isMember, signedInUser } from '../sessions.ts'
import definition from '../tenancy.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await definition.start() // DATABASE_URL and TENANTRY_APP_KEY are in the environment
const admin = nodeHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] }))

const notes = guard(
  tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: isMember, actor: signedInUser }),
  async (_request, response, tenant) => {
    const rows = await requireTenant(tenant).db.selectFrom('notes').selectAll().orderBy('id').execute()
    response.setHeader('content-type', 'application/json').end(JSON.stringify(rows))
  },
)
const isAnswered = problemHandler(tenancy.kernel.log)

const server = createServer((request, response) =>
  admin(request, response, () => {
    if (request.url !== '/notes') return response.writeHead(404).end()
    notes(request, response).catch((error) => isAnswered(error, request, response) || response.writeHead(500).end())
  }),
)
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
