/** Types of guarded requests on Fastify: `Register`. */
import fastify from 'fastify'
import { fromHeader } from 'tenantry'
import * as forFastify from 'tenantry/fastify'
import { type Equal, is } from './is.ts'
import './register.ts'
import { definition } from './tenancy.ts'

const tenancy = await definition.start()
const guard = tenancy.guard({ resolve: fromHeader(), authorize: 'anyone' })
type Current = Awaited<ReturnType<typeof tenancy.current>>

const server = fastify()
await server.register(forFastify.guard(guard))
server.get('/notes', async (request) => {
  is<Equal<typeof request.tenant, Current>>()
  is<Equal<typeof request.optionalTenant, Current | undefined>>()
  // @ts-expect-error misspelled table
  request.tenant.db.selectFrom('note')
  return request.tenant.db.selectFrom('notes').select('title').execute()
})
// @ts-expect-error misspelled quota
forFastify.enforceQuota(tenancy.quotas, 'exprots')
is<Equal<ReturnType<typeof forFastify.tenantOf<any, any>>['id'], string>>()
server.get('/again', async (request) => {
  const tenant = forFastify.tenantOf(request, guard)
  is<Equal<typeof tenant, Current>>()
  return tenant.plan
})
