/** A process that starts to add a note and does not finish. */
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { createTenancy } from '../../src/tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../src/testing/base/tenancy.ts'
import { apiOf } from '../contract/calls.ts'
import { serveParent } from '../support/child.ts'
import { notes } from './notes.fixture.ts'

await serveParent(async ({ url }) => {
  const tenancy = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg()],
    satellites: [notes()],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  tenancy.notes.gate = new Promise(() => undefined)
  const { call } = apiOf(tenancy, { deadlineSeconds: 3_600 })
  return ({ path, sent }) => call('POST', path, sent)
})
