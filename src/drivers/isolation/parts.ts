/** Defines the parts for tenant storage on the placements and for the logins of tenants' queries. */
import type { Part } from '../../kernel/part-definition.ts'
import { connectionSeries } from '../../tenants/isolation/connection-metrics.ts'
import type { Storage } from '../../tenants/isolation/drivers.ts'
import type { TenantMigration } from '../../tenants/isolation/migrations.ts'
import { ENCRYPTED_LOGINS } from '../../tenants/isolation/own-logins.ts'
import type { TableChanges } from '../../tenants/isolation/schema-generation.ts'
import { installationId } from '../../tenants/lifecycle/installation-id.ts'
import { TenantLoginRestored } from '../../tenants/tenant/login-events.ts'
import { loginDiagnosis } from './roles/login-diagnosis.ts'
import { LoginRepair, type Placements, preparePlacements, urlsOf } from './roles/login-repair.ts'

interface Dependencies {
  readonly configuration: {
    readonly storage: Storage
    readonly placements: Placements
    readonly migrations: readonly TenantMigration[]
  }
  readonly tableChanges: TableChanges
  readonly logins: LoginRepair
}

export const storagePart: Part<'storage', Storage, Dependencies> = {
  name: 'storage',
  service: (_, { configuration }) => configuration.storage,
  async start(storage, kernel, { configuration, tableChanges, logins }) {
    const { database, log } = kernel
    const placements = await preparePlacements(configuration.placements, logins, kernel)
    const installation = await installationId(database)
    const generation = () => tableChanges.generation
    await storage.start({ installation, placements, migrations: configuration.migrations, generation, log })
  },
  checks: { logins: (storage) => storage.checkLogins() },
  metrics: connectionSeries,
  stop: (storage) => storage.stop(),
}

/** Starts after the storage: a login is restored on a placement that was prepared. */
export const loginsPart: Part<'logins', LoginRepair, Dependencies> = {
  name: 'logins',
  events: [TenantLoginRestored],
  encryptedColumns: [ENCRYPTED_LOGINS],
  service: ({ database, secrets, events, log }, { configuration }) =>
    new LoginRepair({ database, secrets, events, log, urls: urlsOf(configuration.placements) }),
  start: (logins) => logins.restoreAll(),
  doctor: [loginDiagnosis],
}
