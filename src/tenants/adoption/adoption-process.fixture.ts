/** A process that adopts or releases storage until it is killed. */
import { serveParent } from '../../../test/support/child.ts'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { NOTES, TAGS } from './adoptions.fixture.ts'

export type AdoptionCommand =
  | {
      readonly adopt: { readonly id: string; readonly isolation: string; readonly digest: string } & Record<
        string,
        string
      >
    }
  | { readonly release: string }

await serveParent(async ({ url }: { readonly url: string }) => {
  const { tenants } = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: [schemaPg(), databasePg()],
    migrations: [NOTES, TAGS],
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  return (command: AdoptionCommand) =>
    'adopt' in command ? tenants.adoptions.adopt(command.adopt) : tenants.release(command.release)
})
