/** A process that adopts or releases the tables of all tenants until it is killed. */
import { serveParent } from '../../../test/support/child.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { NOTES_OF_ALL, REQUEST, rowDrivers } from './row-adoptions.fixture.ts'

export type RowAdoptionCommand = { readonly adopt: string } | 'release'

await serveParent(async ({ url }: { readonly url: string }) => {
  const { tenants } = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: rowDrivers(),
    migrations: [NOTES_OF_ALL],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  const { tables } = tenants.adoptions
  return (command: RowAdoptionCommand) =>
    command === 'release' ? tables.release({}) : tables.adopt({ ...REQUEST, digest: command.adopt })
})
