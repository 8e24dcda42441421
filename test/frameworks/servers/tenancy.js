import { createTenancy, schemaPg } from 'tenantry'
import { applicationOf, CONFIG } from './application.js'
import { fetchApplication } from './fetch-application.js'

/** Created by the first request: a build imports this module, too. */
let application

async function start() {
  const { DATABASE_URL, TENANTRY_APP_KEY } = process.env
  const tenancy = await createTenancy({
    ...CONFIG,
    database: { url: DATABASE_URL },
    appKey: TENANTRY_APP_KEY,
    isolation: [schemaPg()],
    role: 'api',
  })
  return fetchApplication(applicationOf(tenancy))
}

export async function handle(request) {
  application ??= start()
  return (await application)(request)
}
