/**
 * Isolates each tenant in its own database on the placement's server.
 *
 * - The host's tables are in the schema `tenant` and belong to the role of `url`.
 * - The login of a tenant can connect to no database of another tenant (own-login-role.ts). It takes the scope role for
 *   one transaction (scoped-connection.ts).
 * - Database names belong to the whole server. They contain the id of the installation because other installations may
 *   have tenants with the same ids.
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
  /**
   * A schema of the template with types of extensions, searched after the tenant's schema. Tenants must not be able to
   * write to it.
   */
  readonly extensionsSchema?: string | undefined
  /**
   * Database that is copied for each tenant, with the extensions for all tenants. Default `template0`, which accepts no
   * connections.
   */
  readonly template?: string | undefined
}

/** The schema of the tables in each tenant's database. */
export const TENANT_SCHEMA = 'tenant'

const SHARES_LOGIN =
  'Tenants with separate databases share one login here because `tenantUrl` is set or a pooler is used: SQL of one tenant may change this login for all'

/**
 * Isolation driver with one database for each tenant.
 *
 * @example
 * const driver = databasePg({ template: 'app_template' })
 */
export function databasePg({ template = 'template0', ...options }: DatabasePgOptions = {}): IsolationDriver {
  let installation = ''

  return postgresDriver(
    {
      name: 'database-pg',
      options: { template },
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

      adopts: { of: 'database', installation: () => installation },
      ...ownStorage({
        async make({ server, locator, owned }, making) {
          await makeDatabase(server, locator, template, making)
          const objects = `${baseObjects(server.scopeRole)}; ${adjustPublicRights(server.placement, 'tenant')}`
          await owned((client) => client.query(objects))
        },
        open: ({ server, locator }) => openDatabase(server, locator),
      }),

      /** A repeated drop keeps a database that the host has created with the name of an adopted one. */
      async drop({ server, locator }) {
        server.connections.forget(locator)
        const isAdopted = installationIn(locator) !== installation
        await dropDatabase(server, locator, isAdopted ? { adoptedBy: installation } : {})
      },

      async inventory(server) {
        const all = await databasesOf(server)
        return all
          .filter(({ locator, adoptedBy }) => (adoptedBy ?? installationIn(locator)) === installation)
          .map(({ locator, isFenced }) => ({ locator, isFenced }))
      },

      fence: ({ server, locator }) => closeDatabase(server, locator),
      unfence: ({ server, locator }) => openDatabase(server, locator),
      isFenced: ({ server, locator }) => isClosed(server, locator),

      audit: (servers, locations) => auditDatabases(servers, locations, { ...options, schema: TENANT_SCHEMA }),
    },
    options,
  )
}

/** Undefined in most names that Tenantry did not generate. */
const installationIn = (locator: string): string | undefined => locator.split('_')[1]
