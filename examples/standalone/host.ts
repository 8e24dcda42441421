/** A host on node:http alone: the admin API, the probes and the metrics, beside a route of its own. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHttp, createTenancy, problemOf, schemaPg } from 'tenantry'
import { nodeHandler } from 'tenantry/node'

const { DATABASE_URL = '', TENANTRY_APP_KEY = '', TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  migrations: `${import.meta.dirname}/../migrations`,
})
const admin = nodeHandler(createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] }))

const json = (
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
) => response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))

async function notes(tenantId: string, response: ServerResponse): Promise<void> {
  try {
    const { db } = await tenancy.tenant(tenantId)
    json(response, 200, await db.selectFrom('notes').selectAll().orderBy('id').execute())
  } catch (error) {
    const { status, headers, body } = problemOf(error) ?? { status: 500, headers: {}, body: { code: 'E_INTERNAL' } }
    json(response, status, body, headers)
  }
}

const server = createServer((request, response) =>
  admin(request, response, () => {
    if (request.url === '/notes') notes(String(request.headers['x-tenant'] ?? ''), response)
    else json(response, 404, { code: 'E_NOT_FOUND' })
  }),
)
server.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
process.once('SIGTERM', () => server.close(() => tenancy.stop()))
