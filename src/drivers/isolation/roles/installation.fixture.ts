/** Creates an installation on a server: a backoffice database, its tenant login, and a driver. */

import { createLogger } from '../../../kernel/base/logger.ts'
import { createSecrets } from '../../../kernel/crypto/crypto.ts'
import { Database } from '../../../kernel/database/database.ts'
import { tablesOf } from '../../../tenancy/composition.ts'
import { partsOf } from '../../../tenancy/parts.ts'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type {
  ConnectionLimits,
  IsolationDriver,
  Placement,
  PublicRight,
  StorageLocation,
} from '../../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../../tenants/isolation/migrations.ts'
import { installationId } from '../../../tenants/lifecycle/installation-id.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { dropWithRoles } from '../../../testing/base/roles.ts'
import { createMigratedDatabase } from '../../../testing/base/template.ts'
import { TEST_APP_KEY } from '../../../testing/base/tenancy.ts'
import { postgresStore } from '../../store/postgres.ts'
import { type SchemaPgOptions, schemaPg } from '../schema-pg.ts'
import { withDatabase, withLogin } from './login-clients.ts'
import { preparePlacement } from './tenant-login.ts'

const log = createLogger({ level: 'silent' })
const secrets = createSecrets(TEST_APP_KEY)

export interface InstallationOptions extends SchemaPgOptions {
  /** Default: schema-pg with these options. */
  readonly driver?: () => IsolationDriver
  readonly connections?: Partial<ConnectionLimits>
  readonly migrations?: readonly TenantMigration[]
  readonly publicRights?: readonly PublicRight[]
  /** URL of the owner, if it is not the role that created the database. */
  readonly ownerUrl?: (url: string) => string
}

export interface Installation {
  readonly id: string
  readonly url: string
  /** Connected as the superuser. */
  readonly database: Database
  prepare(tenantUrl?: string): Promise<Placement>
  /** Opens a driver that uses this login; `end` stops all drivers. */
  open(placement: Placement, options?: InstallationOptions): Promise<IsolationDriver>
  end(): Promise<void>
}

export async function createInstallation(serverUrl: string, options: InstallationOptions = {}): Promise<Installation> {
  const created = await createMigratedDatabase(serverUrl, tablesOf(partsOf(postgresStore(), [])))
  const { url } = created
  const database = new Database({ url, max: 12 }, log)
  const drivers: IsolationDriver[] = []
  const id = await installationId(database)
  const ownerUrl = options.ownerUrl?.(url) ?? url
  return {
    id,
    url,
    database,
    prepare: (tenantUrl) => preparePlacement('main', { ...options, url: ownerUrl, tenantUrl }, database, secrets, log),
    async open(placement, { migrations = [], driver: make, ...driverOptions } = options) {
      const driver = make?.() ?? schemaPg(driverOptions)
      const placements = new Map([['main', placement]])
      await driver.start({ installation: id, placements, migrations, generation: () => 0, log })
      drivers.push(driver)
      return driver
    },
    async end() {
      await Promise.all(drivers.map((driver) => driver.stop()))
      await database.close()
      await dropWithRoles(serverUrl, created)
    },
  }
}

/** URL for tenants' queries in a database that belongs to one tenant. */
export async function loginUrlOf({ tenantUrl, ownLogins }: Placement, database: string): Promise<string> {
  const password = await ownLogins?.passwordOf(database)
  const login = password === undefined ? tenantUrl : withLogin(tenantUrl, database, password)
  return withDatabase(login, database)
}

export const locationOf = (driver: IsolationDriver, tenantId: string): StorageLocation => ({
  tenantId,
  isolation: driver.name,
  placement: 'main',
  locator: driver.locator(tenantId, 1),
  epoch: 1,
})

export async function provisioned(driver: IsolationDriver, tenantId: string): Promise<StorageHandle> {
  await driver.provision(locationOf(driver, tenantId))
  return directHandle(driver, locationOf(driver, tenantId))
}
