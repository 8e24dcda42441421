/** The driver database-pg in a separate process, for tests that kill it or need another process. */

import { serveParent } from '../../../../test/support/child.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import { Database } from '../../../kernel/database/database.ts'
import type { Placement, StorageLocation } from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { databasePg } from '../database-pg.ts'
import { KeptLogins } from '../roles/kept-logins.ts'

export interface ProcessOptions {
  readonly installation: string
  /** On the server of the backoffice. */
  readonly placement: Placement
  readonly migrations: readonly TenantMigration[]
}

export type Question =
  | { readonly what: 'provision'; readonly location: StorageLocation }
  /** Returns the result of the statement, or fails with its code. */
  | { readonly what: 'execute'; readonly location: StorageLocation; readonly text: string }

await serveParent(async ({ installation, placement, migrations }: ProcessOptions) => {
  const driver = databasePg()
  const log = createLogger({ level: 'silent' })
  const backoffice = new Database({ url: placement.url, max: 2 }, log)
  const ownLogins = new KeptLogins('main', backoffice, createSecrets(TEST_APP_KEY), true)
  await driver.start({
    installation,
    placements: new Map([['main', { ...placement, ownLogins }]]),
    migrations,
    generation: () => 0,
    log,
  })
  return async (question: Question) => {
    if (question.what === 'provision') return driver.provision(question.location)
    const { rows } = await driver.execute(question.location, { text: question.text })
    return rows
  }
})
