/** A worker in a process of its own, for tests that kill it. */
import { schemaPg } from '../drivers/isolation/schema-pg.ts'
import { createLogger } from '../kernel/logger.ts'
import { createTenancy } from '../tenancy.ts'
import { serveParent } from '../testing/child.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'

await serveParent(async ({ url, migrations }) => {
  await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    migrations,
    role: 'worker',
    logger: createLogger({ level: 'silent' }),
  })
  return async () => undefined
})
