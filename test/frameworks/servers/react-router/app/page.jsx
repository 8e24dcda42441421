/** A page that its middleware guards: loaders and actions have the tenant in `context`. */
import { createContext } from 'react-router'
import { guardFetch } from 'tenantry/web'
import { application } from '../tenancy.js'

const ofRequest = createContext()

async function guardPage({ request, context }, next) {
  const { guard } = await application()
  const guarded = guardFetch(guard, (_request, { tenant }) => {
    context.set(ofRequest, tenant)
    return next()
  })
  return guarded(request)
}

export const middleware = [guardPage]

export async function loader({ context }) {
  const { tenancy } = await application()
  const tenant = context.get(ofRequest)
  const { rows } = await tenant.pool.query('select $1::text as id', [tenant.id])
  return { text: `tenant ${rows[0].id} in the context of ${(await tenancy.current()).id}` }
}

export default function Page({ loaderData }) {
  return <p>{loaderData.text}</p>
}
