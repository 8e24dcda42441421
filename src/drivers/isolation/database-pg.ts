/**
 * A database for each tenant, on the placement's server.
 *
 * The host's tables are in its schema `tenant` and belong to the role of `url`. The login of the tenant, which may connect to no other
 * database of a tenant (own-login-role.ts), takes the scope role for one transaction as everywhere (scoped-connection.ts).
 * Names of databases belong to a whole server, where other installations may have tenants with the same ids. So each has the id of
 * its installation in it.
 */
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { auditDatabases } from './audit/audit.ts'
import { baseObjects } from './migrations/postgres-migrator.ts'
import { ownStorage } from './own-storage.ts'
import type { PostgresOptions } from './postgres-dialect.ts'
import { postgresDriver } from './postgres-driver.ts'
import { adjustPublicRights } from './roles/public-rights.ts'
import {
  closeDatabase,
  databasesOf,
  dropDatabase,
  isClosed,
  makeDatabase,
  openDatabase,
} from './server/tenant-database.ts'

export interface DatabasePgOptions extends PostgresOptions {
  /** A schema of the template with extensions' types, searched after the tenant's own; tenants must not be able to write to it. */
  readonly extensionsSchema?: string | undefined
  /**
   * What databases are copied from; default `template0`, as which nobody can be connected. Another one is where extensions are put
   * that every tenant is to have.
   */
  readonly template?: string | undefined
}

/** With the tables, in each tenant's database. */
export const TENANT_SCHEMA = 'tenant'

const SHARES_LOGIN =
  'tenants with a database each share a login here, as `tenantUrl` is given or a pooler stands before it: SQL of one may change it for all'

/** The driver `database-pg`. */
export function databasePg({ template = 'template0', ...options }: DatabasePgOptions = {}): IsolationDriver {
  let installation = ''

  return postgresDriver(
    {
      name: 'database-pg',
      capabilities: { separateStorage: true, reach: 'own database' },
      containsTenantSql: ({ placement }) => placement.ownLogins?.areMade === true,

      start(environment, servers) {
        installation = environment.installation
        for (const { name, placement } of servers) {
          if (!placement.ownLogins?.areMade) environment.log.warn({ placement: name }, SHARES_LOGIN)
        }
      },

      locator: (tenantId, epoch) => `t${epoch.toString(36)}_${installation}_${tenantId}`,
      tables: ({ locator }) => ({ schema: TENANT_SCHEMA, database: locator }),
      scope: () => ({ openSchema: null }),

      ...ownStorage({
        async make({ server, locator, owned }, making) {
          await makeDatabase(server, locator, template, making)
          const objects = `${baseObjects(server.scopeRole)}; ${adjustPublicRights(server.placement, 'tenant')}`
          await owned((client) => client.query(objects))
        },
        open: ({ server, locator }) => openDatabase(server, locator),
      }),

      async drop({ server, locator }) {
        server.connections.forget(locator)
        await dropDatabase(server, locator)
      },

      async inventory(server) {
        const all = await databasesOf(server)
        return all.filter(({ locator }) => locator.split('_')[1] === installation)
      },

      fence: ({ server, locator }) => closeDatabase(server, locator),
      unfence: ({ server, locator }) => openDatabase(server, locator),
      isFenced: ({ server, locator }) => isClosed(server, locator),

      audit: (servers, locations) => auditDatabases(servers, locations, { ...options, schema: TENANT_SCHEMA }),
    },
    options,
  )
}
