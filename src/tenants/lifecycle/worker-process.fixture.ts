/** A worker in a separate process, for tests that kill it. */

import { serveParent } from '../../../test/support/child.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'

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
