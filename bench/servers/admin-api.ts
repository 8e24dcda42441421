/** Serves only the admin API; prints its URL. */

import { serveNode } from '../../src/http/hosts/node.ts'
import { createHttp, createTenancy, schemaPg } from '../../src/index.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { APP_KEY, TOKEN } from '../tenancy.ts'

const tenancy = await createTenancy({
  database: { url: process.env.DATABASE_URL ?? '' },
  appKey: APP_KEY,
  isolation: [schemaPg()],
  role: 'api',
  logger: createLogger({ level: 'error' }),
})
const http = createHttp(tenancy, { adminTokens: [{ name: 'bench', token: TOKEN }] })
const server = await serveNode(http, { port: 0, host: '127.0.0.1' })
process.stdout.write(`${server.url}\n`)
process.on('SIGTERM', async () => {
  await server.close(1_000)
  await tenancy.stop()
})
