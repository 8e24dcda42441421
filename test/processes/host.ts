/** A host that embeds Tenantry in its own process, and returns what a route would for a tenant. */
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { problemOf } from '../../src/http/problem.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { serveParent } from '../support/child.ts'

await serveParent(async ({ url }) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  return async (tenantId: string) => {
    try {
      const { db } = await tenancy.tenant(tenantId)
      const { worker } = await db.selectFrom('made_by').select('worker').executeTakeFirstOrThrow()
      return { status: 200, worker }
    } catch (error) {
      const problem = problemOf(error)
      if (!problem) throw error
      return { status: problem.status, code: problem.body.code }
    }
  }
})
