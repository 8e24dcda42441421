/** A separate process that works on migration runs and reports the tenants whose migration it has recorded. */

import { serveParent } from '../../../test/support/child.ts'
import { recorded } from '../../../test/support/recorded.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'

await serveParent(async ({ url, migrations }) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    migrations,
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  const published = recorded(tenancy)
  return async ({ direction, ...options }) => {
    const { migrations } = tenancy.tenants
    const report = await (direction === 'down' ? migrations.rollback(options) : migrations.run(options))
    const migrated = published.events.filter(({ name }) => name === 'TenantMigrated').map(({ tenantId }) => tenantId)
    return { report, migrated }
  }
})
