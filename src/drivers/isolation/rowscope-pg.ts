/**
 * Isolates the tenants of a placement in shared tables by row level security.
 *
 * - The host's migrations create the tables once for a placement, in one schema.
 * - Each row names its tenant in `tenant_id`, whose default is `tenantry.current_tenant()`. For rows that the tenant
 *   can reach, the value is the tenant's id; see row-security/locations.ts for other rows.
 * - Only this driver creates policies. Objects that policies cannot protect are rejected (row-security/apply.ts).
 */
import pg from 'pg'
import type { IsolationDriver } from '../../tenants/isolation/driver.ts'
import { auditRowTables } from './audit/audit.ts'
import { countRows, orphanedRows } from './audit/orphaned-rows.ts'
import { assertSameLabel, copyInRows, type RowStorage, stagingSchemaOf } from './copy/copy-in-shared.ts'
import { enterRows } from './copy/enter-rows.ts'
import type { PostgresOptions, TenantStorage } from './postgres-dialect.ts'
import { postgresDriver } from './postgres-driver.ts'
import { assertNoExposure, fence, protectRows, rowObjects, unfence, withoutForce } from './row-security/apply.ts'
import { deleteTenantRows } from './row-security/delete-rows.ts'
import { claim, FENCED_LOCATORS, isClosed, labelAside, labelOf, leave, settle } from './row-security/locations.ts'
import { readingRows } from './row-security/row-reader.ts'
import type { PostgresServer } from './server/postgres-server.ts'
import { abortable } from './transactions/copy-session.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

/** The schema with the tables of all tenants. */
export const ROWS_SCHEMA = 'tenantry_rows'

export type RowscopePgOptions = PostgresOptions

/**
 * Isolation driver with shared tables and row level security.
 *
 * @example
 * const driver = rowscopePg({ scope: 'batch' })
 */
export function rowscopePg(options: RowscopePgOptions = {}): IsolationDriver {
  const prepared = new Map<PostgresServer, Promise<void>>()

  return postgresDriver(
    {
      name: 'rowscope-pg',
      capabilities: { separateStorage: false, reach: 'shared database' },
      locator: (tenantId, epoch) => (epoch === 1 ? tenantId : `${tenantId}~${epoch}`),
      tables: () => ({ schema: ROWS_SCHEMA }),
      scope: () => ({ openSchema: null, probe: 'select tenantry.admitted_tenant()', isMarked: true }),

      /** Repeated after a failure. */
      prepare(server) {
        const preparing =
          prepared.get(server) ??
          makeObjects(server).catch((error) => {
            prepared.delete(server)
            throw error
          })
        prepared.set(server, preparing)
        return preparing
      },

      /** Protects the changed tables in the same transaction. */
      async changeTables(client, { schema, server }, work) {
        const result = await withoutForce(client, schema, work)
        await protectRows(client, schema, server.scopeRole)
        await assertNoExposure(client, schema, server.scopeRole)
        return result
      },

      async provision(storage) {
        const { schema, searchPath, migrator } = storage
        const applied = await storage.owned(async (client) => {
          await unfence(client, await claim(client, storage, 'new'))
          return migrator.applied(client, schema)
        })
        if (migrator.isUpToDate(applied)) return applied
        return storage.migrating((client, read) => migrator.install(client, schema, searchPath, read))
      },

      drop: dropRows,

      inventory: (server) =>
        server.ownedWithTimeout(async (client) => {
          const { rows } = await client.query(
            `select to_regclass('tenantry.row_locations') is not null as "isPrepared"`,
          )
          if (!rows[0].isPrepared) return [] // The placement has no tenants yet.
          return (await client.query(FENCED_LOCATORS)).rows
        }),

      rowsOf: (server, tenantId, locators) =>
        countRows(server, ROWS_SCHEMA, [tenantId, ...locators.map((locator) => labelAside({ tenantId, locator }))]),

      fence: (storage) =>
        storage.server.ownedWithTimeout((client) =>
          inTransaction(client, async () => fence(client, await labelOf(client, storage))),
        ),

      /** A process that died during a switch may have left another location entered. */
      async unfence(storage) {
        if (!(await open(storage)) && (await enter(storage))) await open(storage)
      },

      isFenced: (storage) => storage.server.ownedWithTimeout((client) => isClosed(client, storage)),

      async source(client, storage, hold) {
        const tenant = await labelOf(client, storage)
        const rows = { tenant, scopeRole: storage.server.scopeRole }
        const among = await hold(client, () => readingRows(client, storage.schema, rows))
        const confirm = (snapshot: pg.ClientBase) => assertSameLabel(snapshot, storage, tenant)
        return { ...storage, tenantId: tenant, among, confirm }
      },

      async import(storage, copy, options) {
        const { server, schema, searchPath, migrator, owned } = storage
        const tenant = await owned((client) => claim(client, storage))
        const applied = await owned((client) => migrator.applied(client, schema))
        if (copy.description.migrations.some(({ name }) => !applied.includes(name))) {
          await storage.migrating((client, read) => migrator.install(client, schema, searchPath, read), {
            hold: options.hold,
          })
        }
        return copyInRows(server, rowsOf(storage, tenant), copy, options)
      },

      async enter(storage, signal) {
        if (await enter(storage, signal)) return
        throw new Error(
          `A newer location of the tenant "${storage.tenantId}" is in use on the placement "${storage.placement}"`,
        )
      },

      audit: (servers, locations) => auditRowTables(servers, locations, { ...options, schema: ROWS_SCHEMA }),
      orphanedRows: (server, registered) => orphanedRows(server, ROWS_SCHEMA, registered),
    },
    options,
  )
}

const makeObjects = (server: PostgresServer): Promise<void> =>
  server.owned(async (client) => {
    await client.query(rowObjects(server.scopeRole))
    await client.query(
      `begin; select pg_advisory_xact_lock(hashtextextended('${ROWS_SCHEMA}', 0));
       create schema if not exists ${ROWS_SCHEMA};
       grant usage on schema ${ROWS_SCHEMA} to ${pg.escapeIdentifier(server.scopeRole)}; commit`,
    )
  })

/** @param tenant the label of the rows */
const rowsOf = (storage: TenantStorage, tenant: string): RowStorage => ({
  ...storage,
  location: storage,
  tenant,
  scopeRole: storage.server.scopeRole,
})

/** Returns false if another location is entered. The waiting process commits it. */
const open = (storage: TenantStorage): Promise<boolean> =>
  storage.server.ownedWithTimeout((client) =>
    inTransaction(client, async () => {
      const isEntered = await settle(client, storage)
      if (isEntered) await unfence(client, storage.tenantId)
      return isEntered
    }),
  )

const enter = (storage: TenantStorage, signal = new AbortController().signal): Promise<boolean> =>
  abortable(signal, (hold) => enterRows(storage.server, rowsOf(storage, storage.tenantId), hold))

/**
 * The fence stays: a process without notice of the drop would find the shared tables and write rows without a tenant.
 * The drop waits for an import of this tenant and for migrations, but not for imports of other tenants.
 */
async function dropRows(storage: TenantStorage): Promise<void> {
  const { server, schema, searchPath } = storage
  const tenant = await server.owned((client) => labelOf(client, storage))
  const alone = (work: (client: pg.ClientBase) => Promise<void>) =>
    server.administer(
      stagingSchemaOf(tenant),
      async (client) => {
        await assertSameLabel(client, storage, tenant)
        await work(client)
      },
      { partOf: schema },
    )
  await alone((client) => fence(client, tenant))
  await alone(async (client) => {
    await fence(client, tenant) // An import may have written rows between the two steps.
    await deleteTenantRows(client, schema, { tenant, searchPath, scopeRole: server.scopeRole })
    await leave(client, storage)
  })
}
