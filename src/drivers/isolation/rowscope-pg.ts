/**
 * Isolates the tenants of a placement in shared tables by row level security.
 *
 * - The host's migrations create the tables once for a placement, in one schema.
 * - Each row names its tenant in `tenant_id`, whose default is `tenantry.current_tenant()`. For rows that the tenant
 *   can reach, the value is the tenant's id; see row-security/locations.ts for other rows.
 * - Only this driver creates policies. Objects that policies cannot protect are rejected (row-security/apply.ts).
 */
import pg from 'pg'
import { NotAdoptable } from '../../tenants/isolation/adoption.ts'
import type { DropOptions, IsolationDriver } from '../../tenants/isolation/driver.ts'
import { auditRowTables } from './audit/audit.ts'
import { countRows, orphanedRows, type RowTables } from './audit/orphaned-rows.ts'
import { asideRowsOf, dropAside, orphanedOrAside, sourceAside } from './copy/aside-schema.ts'
import { assertSameLabel, copyInRows, type RowStorage, stagingSchemaOf } from './copy/copy-in-shared.ts'
import { enterRows } from './copy/enter-rows.ts'
import { copyAside } from './copy/exchange-rows.ts'
import type { PostgresOptions, TenantStorage } from './postgres-dialect.ts'
import { postgresDriver } from './postgres-driver.ts'
import { assertNoExposure, fence, protectRows, rowObjects, unfence, withoutForce } from './row-security/apply.ts'
import { deleteTenantRows } from './row-security/delete-rows.ts'
import {
  claim,
  FENCED_LOCATORS,
  isClosed,
  isEntered,
  labelAside,
  labelOf,
  leave,
  reserve,
  settle,
  wasEntered,
} from './row-security/locations.ts'
import { readingRows } from './row-security/row-reader.ts'
import { isColumnValue, TENANT_ID, type TenantColumn } from './row-security/tenant-column.ts'
import { drainTransactions } from './server/drain.ts'
import type { PostgresServer } from './server/postgres-server.ts'
import { abortable } from './transactions/copy-session.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

/** The schema with the tables of all tenants, unless the settings name another one. */
export const ROWS_SCHEMA = 'tenantry_rows'

export interface RowscopePgOptions extends PostgresOptions {
  /** The schema with the tables of all tenants; default `tenantry_rows`. An existing one must be adopted first. */
  readonly schema?: string | undefined
  /** The column with the tenant's id, for tables of a former application; default `tenant_id` of type text. */
  readonly tenantColumn?: Pick<TenantColumn, 'name' | 'type'> | undefined
}

/**
 * Isolation driver with shared tables and row level security.
 *
 * @example
 * const driver = rowscopePg({ schema: 'app', tenantColumn: { name: 'org_id', type: 'uuid' } })
 */
export function rowscopePg({ schema: named, tenantColumn, ...options }: RowscopePgOptions = {}): IsolationDriver {
  const prepared = new Map<PostgresServer, Promise<void>>()
  const rows: RowTables = {
    schema: named ?? ROWS_SCHEMA,
    column: tenantColumn ? { ...tenantColumn, isGiven: true } : TENANT_ID,
  }
  const { column } = rows

  return postgresDriver(
    {
      name: 'rowscope-pg',
      capabilities: { separateStorage: false, reach: 'shared database' },
      ...(named || tenantColumn ? { options: { schema: named, tenantColumn } } : {}),
      isTenantId: (tenantId) => isColumnValue(column, tenantId),
      locator: (tenantId, epoch) => (epoch === 1 ? tenantId : `${tenantId}~${epoch}`),
      tables: () => ({ schema: rows.schema }),
      scope: () => ({ openSchema: null, probe: 'select tenantry.admitted_tenant()', isMarked: true }),

      /** Repeated after a failure. */
      prepare(server) {
        const preparing =
          prepared.get(server) ??
          makeObjects(server, rows).catch((error) => {
            prepared.delete(server)
            throw error
          })
        prepared.set(server, preparing)
        return preparing
      },

      /** Protects the changed tables in the same transaction. */
      async changeTables(client, { schema, server }, work) {
        const result = await withoutForce(client, schema, work, column)
        await protectRows(client, schema, server.scopeRole, column)
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

      drop: (storage, options) => dropRows(storage, column, options),

      inventory: (server) =>
        server.ownedWithTimeout(async (client) => {
          const { rows } = await client.query(
            `select to_regclass('tenantry.row_locations') is not null as "isPrepared"`,
          )
          if (!rows[0].isPrepared) return [] // The placement has no tenants yet.
          return (await client.query(FENCED_LOCATORS)).rows
        }),

      async rowsOf(server, tenantId, locators, { beforeDrop }) {
        const labels = locators.map((locator) => labelAside({ tenantId, locator }))
        return [
          ...(await countRows(server, rows, beforeDrop ? labels : [tenantId, ...labels])),
          ...(await asideRowsOf(server, tenantId)),
        ]
      },

      fence: (storage) =>
        storage.server.ownedWithTimeout((client) =>
          inTransaction(client, async () => fence(client, await labelOf(client, storage))),
        ),

      /** A process that died during a switch may have left another location entered. */
      async unfence(storage) {
        if (!(await open(storage)) && (await enter(storage, column))) await open(storage)
      },

      isFenced: (storage) => storage.server.ownedWithTimeout((client) => isClosed(client, storage)),

      async source(client, storage, hold) {
        const tenant = await labelOf(client, storage)
        const confirm = (snapshot: pg.ClientBase) => assertSameLabel(snapshot, storage, tenant)
        if (column.isGiven && tenant !== storage.tenantId) return { ...(await sourceAside(client, storage)), confirm }
        const among = await hold(client, () =>
          readingRows(client, storage.schema, { tenant, column, scopeRole: storage.server.scopeRole }),
        )
        return { ...storage, tenantId: tenant, among, column, confirm }
      },

      async import(storage, copy, options) {
        const { server, schema, searchPath, migrator, owned } = storage
        const tenant = await owned((client) => (column.isGiven ? reserve(client, storage) : claim(client, storage)))
        const applied = await owned((client) => migrator.applied(client, schema))
        if (copy.description.migrations.some(({ name }) => !applied.includes(name))) {
          await storage.migrating((client, read) => migrator.install(client, schema, searchPath, read), {
            hold: options.hold,
          })
        }
        return column.isGiven
          ? copyAside(server, rowsOf(storage, column), copy, options)
          : copyInRows(server, rowsOf(storage, column, tenant), copy, options)
      },

      async enter(storage, signal) {
        if (await enter(storage, column, signal)) return
        throw new Error(
          `A newer location of the tenant "${storage.tenantId}" is in use on the placement "${storage.placement}"`,
        )
      },

      audit: (servers, locations) => auditRowTables(servers, locations, { ...options, ...rows }),
      orphanedRows: (server, registered) =>
        column.isGiven ? orphanedOrAside(server, rows, registered) : orphanedRows(server, rows, registered),
      adopts: { of: 'rows', tables: rows },
    },
    options,
  )
}

/** An existing schema is only used after its adoption, which gives the scope role its right. */
const makeObjects = (server: PostgresServer, { schema, column }: RowTables): Promise<void> =>
  server.owned(async (client) => {
    await client.query(rowObjects(server.scopeRole, column))
    const name = pg.escapeIdentifier(schema)
    const work = async () => {
      const isThere = await isUsedByTenants(client, schema, server.scopeRole)
      if (isThere === false && schema !== ROWS_SCHEMA) throw notAdopted(schema)
      if (isThere) return
      await client.query(
        `create schema if not exists ${name}; grant usage on schema ${name} to ${pg.escapeIdentifier(server.scopeRole)}`,
      )
    }
    await inTransaction(client, work, {
      begin: `begin; select pg_advisory_xact_lock(hashtextextended(${pg.escapeLiteral(schema)}, 0))`,
    })
  })

/** Whether the schema was given to the scope role, not only to PUBLIC; undefined without the schema. */
async function isUsedByTenants(client: pg.ClientBase, schema: string, scopeRole: string): Promise<boolean | undefined> {
  const { rows } = await client.query(
    `select exists (select from aclexplode(nspacl) where privilege_type = 'USAGE' and grantee = (
       select oid from pg_roles where rolname = $2)) as used from pg_namespace where nspname = $1`,
    [schema, scopeRole],
  )
  return rows[0]?.used
}

const notAdopted = (schema: string) =>
  NotAdoptable(`The schema "${schema}" exists and was not adopted. Adopt it with tenant:adopt:tables first.`)

/** @param tenant the label of the rows */
const rowsOf = (storage: TenantStorage, column: TenantColumn, tenant = storage.tenantId): RowStorage => ({
  ...storage,
  column,
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

const enter = (storage: TenantStorage, column: TenantColumn, signal = new AbortController().signal): Promise<boolean> =>
  abortable(signal, (hold) => enterRows(storage.server, rowsOf(storage, column), { signal, hold }))

/**
 * The fence stays: a process without notice of the drop would find the shared tables and write rows without a tenant.
 * The drop waits for an import of this tenant and for migrations, but not for imports of other tenants. A transaction
 * from before the fence could commit rows after the deletion, so the location that it reaches is drained.
 */
async function dropRows(storage: TenantStorage, column: TenantColumn, { onRows }: DropOptions = {}): Promise<void> {
  const { server, schema, searchPath } = storage
  const tenant = await server.owned((client) => labelOf(client, storage))
  const alone = (work: (client: pg.ClientBase) => Promise<void>) =>
    server.administer(
      stagingSchemaOf(tenant),
      async (client) => {
        if (column.isGiven) await dropAside(client, storage)
        // Released tables belong to another application.
        if (!(await isUsedByTenants(client, schema, server.scopeRole))) return
        await assertSameLabel(client, storage, tenant)
        await work(client)
      },
      { partOf: schema },
    )
  await alone((client) => fence(client, tenant))
  if (tenant === storage.tenantId) await drainTransactions(server, tenant)
  await alone(async (client) => {
    await fence(client, tenant) // An import may have written rows between the two steps.
    // In adopted tables, the former application may have rows with the id of a tenant that was never filled.
    const isFilled = !column.isGiven || (await isEntered(client, storage))
    const isLate = !isFilled && onRows !== undefined && (await wasEntered(client, storage))
    const label = isLate ? storage.tenantId : tenant
    const isCounted = onRows !== undefined && label === storage.tenantId // a search counts the rows of other locations
    const rows = { tenant: label, searchPath, scopeRole: server.scopeRole, column, isCounted }
    const deleted = isFilled || isLate ? await deleteTenantRows(client, schema, rows) : []
    await leave(client, storage)
    if (isCounted) await onRows(deleted)
  })
}
