import { createTenancy, schemaPg } from 'tenantry'
import { applicationOf, CONFIG } from './application'
import { fetchApplication } from './fetch-application'

/** Created by the first request: a build imports this module, too. */
let application: Promise<(request: Request) => Promise<Response>> | undefined

async function start() {
  const { DATABASE_URL = '', TENANTRY_APP_KEY = '' } = process.env
  const tenancy = await createTenancy({
    ...CONFIG,
    database: { url: DATABASE_URL },
    appKey: TENANTRY_APP_KEY,
    isolation: [schemaPg()],
    role: 'api',
  })
  return fetchApplication(applicationOf(tenancy))
}

export async function handle(request: Request): Promise<Response> {
  application ??= start()
  return (await application)(request)
}
