/** A process that carries out transfers of tenants in adopted tables until it is killed. */
import { serveParent } from '../../../test/support/child.ts'
import { directory } from '../../drivers/archives/directory.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { createTenancy } from '../../tenancy/tenancy.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { type AdoptedType, driversOf, migrationsOf } from './row-transfers.fixture.ts'

export interface RowTransferProcess {
  readonly url: string
  readonly otherUrl: string
  readonly archives: string
  readonly type: AdoptedType
}

await serveParent(async ({ url, otherUrl, archives, type }: RowTransferProcess) => {
  const { tenants } = await createTenancy({
    database: { url },
    appKey: TEST_APP_KEY,
    isolation: driversOf(type),
    placements: { main: {}, other: { url: otherUrl } },
    migrations: migrationsOf(type),
    backups: { archives: directory({ path: archives }) },
    role: 'api',
    logger: createLogger({ level: 'silent' }),
  })
  return ({ work }: { readonly work: string }) =>
    tenants.transfers.work(work, { isLast: true, signal: new AbortController().signal })
})
