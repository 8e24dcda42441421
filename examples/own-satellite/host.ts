/** A host with a custom satellite and one of Tenantry's, and the admin API of both. */
import { createHttp } from 'tenantry'
import { serveNode } from 'tenantry/node'
import { AnnouncementPublished } from './announcements.ts'
import definition from './tenancy.ts'

const { TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await definition.start() // DATABASE_URL and TENANTRY_APP_KEY are in the environment

tenancy.on(AnnouncementPublished, async ({ tenantId }) => {
  const { data } = await tenancy.announcements.list(tenantId, { limit: 1 })
  console.log(`${tenantId} received: ${data[0]?.title}`)
})

const http = createHttp(tenancy, { adminTokens: [{ name: 'ops', token: TENANTRY_ADMIN_TOKEN }] })
const server = await serveNode(http, { port: Number(PORT), host: '127.0.0.1' })
console.log(server.url)

process.once('SIGTERM', async () => {
  await server.close(10_000)
  await tenancy.stop()
})
