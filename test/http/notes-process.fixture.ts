/** A process that begins to add a note and never ends it. */
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createLogger } from '../../src/kernel/logger.ts'
import { createTenancy } from '../../src/tenancy.ts'
import { serveParent } from '../../src/testing/child.ts'
import { TEST_APP_KEY } from '../../src/testing/tenancy.ts'
import { apiOf } from '../contract/calls.ts'
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
  const { call } = apiOf(tenancy)
  return ({ path, sent }) => call('POST', path, sent)
})
