import { createTenancy, schemaPg } from 'tenantry'
import { applicationOf, CONFIG } from './application.js'
import { fetchApplication } from './fetch-application.js'

async function start() {
  const { DATABASE_URL, TENANTRY_APP_KEY } = process.env
  const tenancy = await createTenancy({
    ...CONFIG,
    database: { url: DATABASE_URL },
    appKey: TENANTRY_APP_KEY,
    isolation: [schemaPg()],
    role: 'api',
  })
  const application = applicationOf(tenancy)
  return { ...application, fetch: fetchApplication(application) }
}

let started

/** Started by the first request: a build imports this module, too. */
export function application() {
  started ??= start()
  return started
}

export const handle = async (request) => (await application()).fetch(request)
