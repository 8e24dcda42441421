/**
 * Adopts existing tables with the rows of many tenants as the shared tables of a placement, in one transaction at its
 * server:
 *
 *   lock of the tables ─► abandoned? ─► catalog and tenants, compared with the plan ─► owners, rights, columns, policies
 *     ─► rules of row level security ─► records ─► commit
 *
 * - No row is copied or changed. The rows are read before the first lock that tenants or the application wait for.
 * - The lock, the record at the server and its recovery are those of the adoption of one schema (adoption/adoption.ts).
 */
import type pg from 'pg'
import type { DriverRowAdoption, RowAdoptionRequest, RowPlan } from '../../../tenants/isolation/adoption.ts'
import { notAdoptable } from '../../../tenants/isolation/adoption.ts'
import type { StorageLocation } from '../../../tenants/isolation/location.ts'
import { MigrationFailed } from '../../../tenants/migrations/errors.ts'
import { CHANGED, storageAdoption } from '../adoption/adoption.ts'
import { ExpectedStructures } from '../adoption/expected-structure.ts'
import { readRecord, rolesOf } from '../adoption/records.ts'
import { assertStructure, digestOf, orRejected } from '../adoption/result.ts'
import { creatorsInPublic, readFacts, readOwnFacts } from '../adoption/schema-facts.ts'
import { adoptionStatements, type Roles } from '../adoption/schema-plan.ts'
import type { AdoptableStorage } from '../adoption/storage.ts'
import { readStructure, type Structure, structureDifferences, structureReasons } from '../adoption/structure.ts'
import type { RowTables } from '../audit/orphaned-rows.ts'
import { assertNoExposure, protectRows, rowObjects } from '../row-security/apply.ts'
import { exposuresOf } from '../row-security/exposure.ts'
import { hardenPolicies, queryPinned, readSchema } from '../row-security/sql.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { runPinned } from '../transactions/pinned-text.ts'
import { aloneWithTimeout } from '../transactions/storage-lock.ts'
import {
  type Examined,
  formerPolicies,
  type RecordedRows,
  type RowStatements,
  recordedRows,
  rowLocks,
  rowReasons,
  rowReleaseStatements,
  rowRoles,
  rowStatements,
  rowWarnings,
} from './row-plan.ts'
import { readTables, readTenants } from './row-tables.ts'

interface Found extends Examined {
  readonly roles: Roles
  readonly structure: Structure
  readonly statements: RowStatements
  readonly plan: Omit<RowPlan, 'warnings' | 'locks' | 'schema'>
}

export function rowAdoption(
  at: (location: StorageLocation) => AdoptableStorage,
  rowTables: RowTables,
): DriverRowAdoption {
  const { schema, column } = rowTables
  const structures = new ExpectedStructures()
  const storageOn = (placement: string): AdoptableStorage => at(locationOf(placement, schema))
  const alone = <T>(storage: AdoptableStorage, work: (client: pg.ClientBase) => Promise<T>): Promise<T> =>
    storage.owned((client) => aloneWithTimeout(client, schema, () => work(client)))
  const { settle } = storageAdoption(at, { of: 'schema' }, undefined, () => ({}))

  async function read(client: pg.ClientBase, { server }: AdoptableStorage): Promise<Examined> {
    const found = await readFacts(client, schema, server.scopeRole, { withRecords: true })
    const rowFacts = await readSchema(client, schema, server.scopeRole, column)
    if (!found || !rowFacts) throw notAdoptable([`the schema "${schema}" does not exist`])
    const { members, ...facts } = found
    return { members, facts, rowFacts, tables: await readTables(client, rowTables) }
  }

  async function examine(
    client: pg.ClientBase,
    storage: AdoptableStorage,
    { from, baseline, acceptDifferences }: RowAdoptionRequest,
    expected: Structure,
  ): Promise<Found> {
    const { scopeRole } = storage.server
    const examined = await read(client, storage)
    const { facts, rowFacts, tables } = examined
    const roles = rowRoles(examined, facts.reader, scopeRole)
    const structure = await readStructure(client, examined.members, schema, storage.searchPathOf(schema))
    // The rules of row level security check the tenant column, which the adoption changes.
    const columns = new Set(tables.flatMap(({ column: found, columnObject }) => (found?.hasType ? [columnObject] : [])))
    const all = baseline.length === 0 ? [] : structureDifferences(expected, structure, acceptDifferences)
    const differences = all.filter(({ object, actual, expected }) => !(columns.has(object) && actual && expected))
    const reasons = [
      ...rowReasons(rowTables, examined, roles),
      ...(await exposuresOf(client, schema, scopeRole)).map(
        ({ object, fault, remedy }) => `${object} ${fault}: ${remedy}`,
      ),
      ...structureReasons(structure, expected, differences),
    ]
    // Policies of the former application would run as the role of `url`.
    const isReadable = facts.otherOwners.length === 0 && !tables.some(({ isForced }) => isForced)
    await client.query(`select set_config('search_path', 'pg_catalog', true)`)
    const found = isReadable
      ? await readTenants(client, rowTables, tables, { from, scopeRole })
      : { tenants: [], reasons: [] }
    const statements = rowStatements(rowTables, examined, roles)
    const subject = [
      schema,
      column,
      from,
      baseline,
      [...acceptDifferences].sort(),
      facts,
      rowFacts,
      tables,
      found,
      [...structure].sort(),
      statements,
    ]
    const plan = {
      digest: digestOf(subject),
      reasons: [...reasons, ...found.reasons],
      differences,
      tenants: found.tenants,
      statements: [...statements.owners, ...statements.columns, ...statements.security],
    }
    return { ...examined, roles, structure, statements, plan }
  }

  return {
    plan: ({ placement, ...request }) =>
      orRejected(schema, async () => {
        const storage = storageOn(placement)
        const expected = await structures.of(storage, request.baseline)
        const planned = async (client: pg.ClientBase): Promise<RowPlan> => {
          const found = await examine(client, storage, { placement, ...request }, expected)
          const creators = await creatorsInPublic(client, schema, found.facts)
          const warnings = rowWarnings(rowTables, found, found.roles, creators)
          return { ...found.plan, schema, warnings, locks: rowLocks(rowTables, found) }
        }
        // Each statement sees the catalog as it is after the lock of the tables.
        const begin = 'begin isolation level read committed, read only'
        return storage.owned((client) => inTransaction(client, () => planned(client), { begin }))
      }),

    adopt: (request, { adoptionId, digest, assertNotAbandoned }) =>
      orRejected(schema, async () => {
        const storage = storageOn(request.placement)
        const { server, migrator } = storage
        const expected = await structures.of(storage, request.baseline)
        await storage.owned((client) => client.query(rowObjects(server.scopeRole, column)))
        await alone(storage, async (client) => {
          await assertNotAbandoned()
          const found = await examine(client, storage, request, expected)
          const { roles, plan, statements } = found
          if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
          if (plan.digest !== digest) throw notAdoptable([CHANGED])
          await runPinned(client, ...statements.owners)
          await assertStructure(client, storage, found.members, schema, found.structure)
          await runPinned(client, ...statements.columns)
          const policies = formerPolicies(found.facts, roles)
          if (policies.length > 0) await queryPinned(client, hardenPolicies(schema, policies))
          await protectAll(client, storage)
          const after = await readOwnFacts(client, schema, false)
          if (!after || adoptionStatements(schema, after.own, roles).length > 0) throw notAdoptable([CHANGED])
          await enterAll(client, plan.tenants)
          await migrator.recordBaseline(client, schema, request.baseline.at(-1))
          await client.query(
            'insert into tenantry.adoptions (locator, adoption_id, tenant_id, rights) values ($1, $2, $3, $4)',
            [schema, adoptionId, '', JSON.stringify(recordedRows(rowTables, found))],
          )
        })
      }),

    settle: (placement, adoptionId, decide) => settle(locationOf(placement, schema), adoptionId, decide),

    release: (placement, adoptionId) => {
      const storage = storageOn(placement)
      return alone(storage, async (client) => {
        const record = await readRecord(client, storage)
        if (record?.adoptionId !== adoptionId) return [] // an earlier run has released it
        await client.query('delete from tenantry.adoptions where locator = $1', [schema])
        await client.query('delete from tenantry.fenced; delete from tenantry.row_locations')
        await storage.migrator.forget(client, schema)
        const { rowCount } = await client.query('select from pg_namespace where nspname = $1', [schema])
        if (rowCount === 0) return [] // the schema was dropped: nothing is left to restore
        const present = await read(client, storage)
        const roles = rolesOf(present.facts, storage)
        const statements = rowReleaseStatements(schema, present, record.rights as unknown as RecordedRows, roles)
        await runPinned(client, ...statements)
        return statements
      })
    },
  }

  async function protectAll(client: pg.ClientBase, { server }: AdoptableStorage): Promise<void> {
    try {
      await protectRows(client, schema, server.scopeRole, column)
      await assertNoExposure(client, schema, server.scopeRole)
    } catch (error) {
      throw MigrationFailed.matches(error) ? notAdoptable([CHANGED]) : error
    }
  }
}

/** Records that the rows are those of the first locations, and removes what a former use of the ids has left. */
async function enterAll(client: pg.ClientBase, tenants: RowPlan['tenants']): Promise<void> {
  const ids = [tenants.map(({ id }) => id)]
  await client.query('delete from tenantry.fenced where tenant = any($1)', ids)
  await client.query('delete from tenantry.row_locations where tenant = any($1)', ids)
  await client.query(
    'insert into tenantry.row_locations (tenant, locator) select id, id from unnest($1::text[]) as id',
    ids,
  )
}

/** The tables belong to all tenants of the placement. */
const locationOf = (placement: string, schema: string): StorageLocation => ({
  tenantId: '',
  isolation: 'rowscope-pg',
  placement,
  locator: schema,
  epoch: 1,
})
