/** Guards pages: `load` and actions have the tenant in `locals`. */
import { guardFetch } from 'tenantry/web'
import { application } from '../tenancy.js'

export async function handle({ event, resolve }) {
  if (event.url.pathname !== '/page') return resolve(event)
  const { guard } = await application()
  const guarded = guardFetch(guard, (_request, { tenant }) => {
    event.locals.tenant = tenant
    return resolve(event)
  })
  return guarded(event.request)
}
