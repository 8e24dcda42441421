/** A host with a custom satellite and one of Tenantry's, and the admin API of both. */
import { createHttp, createTenancy, schemaPg } from 'tenantry'
import { serveNode } from 'tenantry/node'
import { AnnouncementPublished, announcements } from './announcements.ts'

const { DATABASE_URL = '', TENANTRY_APP_KEY = '', TENANTRY_ADMIN_TOKEN = '', PORT = '3000' } = process.env

const tenancy = await createTenancy({
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  health: { critical: ['backoffice'] },
  migrations: `${import.meta.dirname}/../migrations`,
  satellites: [announcements()],
})

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
