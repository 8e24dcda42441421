/**
 * Shared tables for all tenants of a placement, kept apart by row level security.
 *
 * The tables are in one schema, made by the host's migrations once for the placement; each row names its tenant in `tenant_id`,
 * whose default is `tenantry.current_tenant()`. Policies are made here, never by the host, and what they cannot protect is
 * refused (row-security/apply.ts). `tenant_id` is the tenant's id in the rows that the tenant reaches; see row-security/locations.ts for others.
 */
import pg from 'pg'
import { withTimeout } from '../../kernel/base/with-timeout.ts'
import {
  type DriverEnvironment,
  type IsolationDriver,
  StorageFenced,
  type StorageLocation,
} from '../../tenants/isolation/driver.ts'
import { auditRowTables } from './audit/audit.ts'
import { orphanedRows } from './audit/orphaned-rows.ts'
import { RESPONSE_TIMEOUT_MS, timeoutError } from './connections/timeouts.ts'
import { assertSameLabel, copyInRows, type RowStorage, stagingSchemaOf } from './copy/copy-in-shared.ts'
import { copyOut } from './copy/copy-out.ts'
import { enterRows } from './copy/enter-rows.ts'
import { advanceForImport } from './copy/sequences.ts'
import type { StorageRead } from './migrations/migration-records.ts'
import { PostgresMigrator } from './migrations/postgres-migrator.ts'
import { assertNoExposure, fence, protectRows, rowObjects, unfence, withoutForce } from './row-security/apply.ts'
import { deleteTenantRows } from './row-security/delete-rows.ts'
import { claim, FENCED_LOCATORS, isClosed, labelOf, leave, settle } from './row-security/locations.ts'
import { readingRows } from './row-security/row-reader.ts'
import type { ScopeMode } from './scope/scoped-connection.ts'
import type { Scope } from './scope/scoped-query.ts'
import { drainTransactions } from './server/drain.ts'
import { Placements, type ScopeOptions, scopeModeOf } from './server/placements.ts'
import type { MigratingOptions, PostgresServer } from './server/postgres-server.ts'
import { activityOf } from './server/server-activity.ts'
import { abortable, copying } from './transactions/copy-session.ts'
import { inTransaction } from './transactions/owner-transaction.ts'

/** The schema with the tables of all tenants. */
export const ROWS_SCHEMA = 'tenantry_rows'

export interface RowscopePgOptions extends ScopeOptions {
  /** A schema with extensions' types, searched after the tables' own; tenants must not be able to write to it. */
  readonly extensionsSchema?: string | undefined
}

/** The driver `rowscope-pg`. */
export function rowscopePg({ extensionsSchema, ...options }: RowscopePgOptions = {}): IsolationDriver {
  const placements = new Placements('rowscopePg()')
  const prepared = new Map<PostgresServer, Promise<void>>()
  let migrator: PostgresMigrator
  let scopeMode: ScopeMode

  const searchPathOf = (schema: string): string =>
    [schema, ...(extensionsSchema ? [extensionsSchema] : []), 'pg_temp']
      .map((name) => pg.escapeIdentifier(name))
      .join(', ')
  const searchPath = searchPathOf(ROWS_SCHEMA)
  const scopeOf = ({ tenantId }: StorageLocation, { scopeRole }: PostgresServer): Scope => ({
    tenantId,
    searchPath,
    role: scopeRole,
    openSchema: null,
    probe: 'select tenantry.admitted_tenant()',
    isMarked: true,
  })

  /** What the placement's database needs before its first tenant; again after a failure. */
  const prepare = (server: PostgresServer): Promise<void> => {
    const preparing =
      prepared.get(server) ??
      server
        .owned(async (client) => {
          await client.query(rowObjects(server.scopeRole))
          await client.query(
            `begin; select pg_advisory_xact_lock(hashtextextended('${ROWS_SCHEMA}', 0));
             create schema if not exists ${ROWS_SCHEMA};
             grant usage on schema ${ROWS_SCHEMA} to ${pg.escapeIdentifier(server.scopeRole)}; commit`,
          )
        })
        .catch((error) => {
          prepared.delete(server)
          throw error
        })
    prepared.set(server, preparing)
    return preparing
  }

  /** @param tenant the label of the rows */
  const storageOf = (location: StorageLocation, { scopeRole }: PostgresServer, tenant: string): RowStorage => ({
    location,
    schema: ROWS_SCHEMA,
    searchPathOf,
    tenant,
    scopeRole,
    migrator,
  })

  const enter = async (location: StorageLocation, signal = new AbortController().signal): Promise<boolean> => {
    const server = placements.server(location.placement)
    await prepare(server)
    return abortable(signal, (hold) => enterRows(server, storageOf(location, server, location.tenantId), hold))
  }

  /** Changes the tables, and protects what is there afterwards, in one transaction. */
  const change = async (
    server: PostgresServer,
    work: (client: pg.ClientBase, read: StorageRead) => Promise<string[]>,
    migratingOptions?: MigratingOptions<string[]>,
  ): Promise<string[]> => {
    await prepare(server)
    return server.migrating(
      ROWS_SCHEMA,
      async (client, read) => {
        const names = await withoutForce(client, ROWS_SCHEMA, () => work(client, read))
        await protectRows(client, ROWS_SCHEMA, server.scopeRole)
        await assertNoExposure(client, ROWS_SCHEMA, server.scopeRole)
        return names
      },
      migratingOptions,
    )
  }

  return {
    name: 'rowscope-pg',
    capabilities: {
      engine: 'postgres',
      separateStorage: false,
      durable: true,
      copies: true,
      reach: 'shared database',
      containsTenantSql: false,
    },

    async start(environment: DriverEnvironment) {
      placements.open(environment)
      scopeMode = scopeModeOf(options, environment)
      migrator = new PostgresMigrator(environment.migrations)
    },

    locator: (tenantId, epoch) => (epoch === 1 ? tenantId : `${tenantId}~${epoch}`),

    async provision(location) {
      const server = placements.server(location.placement)
      await prepare(server)
      const applied = await server.owned(async (client) => {
        await unfence(client, await claim(client, location, 'new'))
        return migrator.applied(client, ROWS_SCHEMA)
      })
      if (migrator.isUpToDate(applied)) return applied
      return change(server, (client, read) => migrator.install(client, ROWS_SCHEMA, searchPath, read))
    },

    applied: ({ placement }) => placements.server(placement).owned((client) => migrator.applied(client, ROWS_SCHEMA)),

    migrate: ({ placement }, options) =>
      change(
        placements.server(placement),
        (client, read) => migrator.up(client, ROWS_SCHEMA, searchPath, read),
        options,
      ),

    rollback: ({ placement }, steps, options) =>
      change(
        placements.server(placement),
        (client, read) => migrator.down(client, ROWS_SCHEMA, searchPath, steps, read),
        options,
      ),

    execute(location, statement) {
      const server = placements.server(location.placement)
      return server.execute(scopeOf(location, server), scopeMode, statement)
    },

    advanceSequences: ({ placement }, wanted, signal) =>
      placements
        .server(placement)
        .owned((client) => advanceForImport(client, ROWS_SCHEMA, wanted, { isShared: true, signal })),

    connect(location) {
      const server = placements.server(location.placement)
      return server.connect(scopeOf(location, server), scopeMode)
    },

    async enter(location, { signal }) {
      if (await enter(location, signal)) return
      throw new Error(`a newer location of the tenant "${location.tenantId}" is in use on "${location.placement}"`)
    },

    async fence(location) {
      const server = placements.server(location.placement)
      await withTimeout(prepare(server), RESPONSE_TIMEOUT_MS, timeoutError)
      await server.ownedWithTimeout((client) =>
        inTransaction(client, async () => fence(client, await labelOf(client, location))),
      )
    },

    /** A process that died in the middle of a switch has left another location entered. */
    async unfence(location) {
      const server = placements.server(location.placement)
      await withTimeout(prepare(server), RESPONSE_TIMEOUT_MS, timeoutError)
      const open = () =>
        server.ownedWithTimeout((client) =>
          inTransaction(client, async () => {
            const isEntered = await settle(client, location)
            if (isEntered) await unfence(client, location.tenantId)
            return isEntered
          }),
        ) // committed by the process that still waits
      if (!(await open()) && (await enter(location))) await open()
    },

    async isFenced(location) {
      const server = placements.server(location.placement)
      await withTimeout(prepare(server), RESPONSE_TIMEOUT_MS, timeoutError)
      return server.ownedWithTimeout((client) => isClosed(client, location))
    },

    mayBeFence: (error) => StorageFenced.matches(error),

    drain: ({ placement, tenantId }, options) => drainTransactions(placements.server(placement), tenantId, options),

    async export(location, work, { signal }) {
      const server = placements.server(location.placement)
      await prepare(server)
      return copying(server.exports, signal, (hold) =>
        server.owned(async (client) => {
          const tenant = await labelOf(client, location)
          const confirm = (snapshot: pg.ClientBase) => assertSameLabel(snapshot, location, tenant)
          const source = {
            isolation: 'rowscope-pg',
            schema: ROWS_SCHEMA,
            searchPath,
            tenantId: tenant,
            migrator,
            confirm,
          }
          const rows = { tenant, scopeRole: server.scopeRole }
          const among = await hold(client, () => readingRows(client, ROWS_SCHEMA, rows))
          return copyOut(client, { ...source, among }, work, hold)
        }),
      )
    },

    async import(location, copy, options) {
      const server = placements.server(location.placement)
      migrator.assertKnownMigrations(copy.description.migrations)
      await prepare(server)
      const storage = storageOf(location, server, await server.owned((client) => claim(client, location)))
      return copying(server.imports, options.signal, async (hold) => {
        const applied = await server.owned((client) => migrator.applied(client, ROWS_SCHEMA))
        const isBehind = copy.description.migrations.some(({ name }) => !applied.includes(name))
        const install = (client: pg.ClientBase, read: StorageRead) =>
          migrator.install(client, ROWS_SCHEMA, searchPath, read)
        if (isBehind) await change(server, install, { hold })
        return copyInRows(server, storage, copy, { ...options, hold })
      })
    },

    /**
     * The fence stays: a process that has not heard of it would find the tables there, and write to them for nobody. Imports of other
     * tenants go on: it waits for one of this tenant, and for migrations.
     */
    async drop(location) {
      const server = placements.server(location.placement)
      await prepare(server)
      const tenant = await server.owned((client) => labelOf(client, location))
      const alone = (work: (client: pg.ClientBase) => Promise<void>) =>
        server.administer(
          stagingSchemaOf(tenant),
          async (client) => {
            await assertSameLabel(client, location, tenant)
            await work(client)
          },
          { partOf: ROWS_SCHEMA },
        )
      await alone((client) => fence(client, tenant))
      await alone(async (client) => {
        await fence(client, tenant) // an import may have come between the two
        await deleteTenantRows(client, ROWS_SCHEMA, { tenant, searchPath, scopeRole: server.scopeRole })
        await leave(client, location)
      })
    },

    async inventory(placement) {
      return placements.server(placement).ownedWithTimeout(async (client) => {
        const { rows } = await client.query(`select to_regclass('tenantry.row_locations') is not null as "isPrepared"`)
        if (!rows[0].isPrepared) return [] // no tenant has been put there
        return (await client.query(FENCED_LOCATORS)).rows
      })
    },

    orphanedRows: (placement, registered) => orphanedRows(placements.server(placement), ROWS_SCHEMA, registered),
    audit: (locations) => auditRowTables(placements, locations, { schema: ROWS_SCHEMA, extensionsSchema }),
    activity: (placement, options) => activityOf(placements.server(placement), options),
    rejectedLogins: () => placements.rejectedLogins(),
    connections: () => placements.connections(),
    stop: () => placements.close(),
  }
}
