/**
 * Adopts an existing schema or database as the storage of a tenant, in one transaction at its server:
 *
 *   lock of the storage, owners and rights ─► statements, structure, owners and rights again; meanwhile: abandoned?
 *     ─► comparison with the plan ─► records, commit
 *
 * - Each step is one round trip: a round trip takes as long as several statements.
 * - A killed adoption has changed nothing, or everything including its record.
 * - The lock excludes other adoptions, migrations and the recovery of the same schema.
 * - The structure is read once the role of `url` owns all objects: the former owner can change none of them afterwards.
 * - The second look at the catalog applies the rules to the result: an object that another session created meanwhile
 *   ends the adoption.
 */
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import {
  type AdoptionRequest,
  type DriverAdoption,
  notAdoptable,
  type StoragePlan,
} from '../../../tenants/isolation/adoption.ts'
import type { StorageLocation } from '../../../tenants/isolation/location.ts'
import { violationsIn } from '../audit/rules.ts'
import { SCHEMA_RULES } from '../audit/schema-rules.ts'
import { dropOwnLogin, makeOwnLogin } from '../roles/own-login-role.ts'
import { placementIdentities } from '../roles/placement-identity.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { pinnedText, type Results, runPinned } from '../transactions/pinned-text.ts'
import { type AloneOptions, aloneWithTimeout } from '../transactions/storage-lock.ts'
import {
  type DatabaseFacts,
  type DatabaseStatements,
  databaseReasons,
  databaseStatements,
  databaseWarnings,
  type PlacementIdentities,
  readDatabase,
} from './database-plan.ts'
import { ExpectedStructures } from './expected-structure.ts'
import { readRecord, recordText, restoreRecorded, rolesOf } from './records.ts'
import { assertResult, digestOf, makeBaseObjects, NO_SUCH_DATABASE, orRejected } from './result.ts'
import {
  creatorsInPublic,
  type FactsOptions,
  factsOf,
  factsText,
  type Part,
  readFacts,
  type SchemaFacts,
} from './schema-facts.ts'
import {
  adoptionStatements,
  type Roles,
  reasonsAgainst,
  usersOf,
  warningsAbout,
} from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import {
  readStructure,
  type Structure,
  structureDifferences,
  structureOf,
  structureReasons,
  structureText,
} from './structure.ts'

/** Rules whose violations are warnings. The others are reasons, or the statements of the plan satisfy them. */
const WARNING_RULES = SCHEMA_RULES.filter(({ severity }) => severity === 'warn')

/** A schema of the placement's database, or a whole database. */
export type AdoptionKind =
  | { readonly of: 'schema' }
  /** @param installation its id; called after the start of the driver */
  | { readonly of: 'database'; readonly installation: () => string }

interface Examined {
  readonly facts: SchemaFacts
  /** Of a whole database. */
  readonly database: DatabaseFacts | undefined
  readonly roles: Roles
  /** Reasons against the adoption, without those of the structure. */
  readonly reasons: readonly string[]
  /** Statements of the plan up to the change of all owners and rights of the schema. */
  readonly first: readonly string[]
  /** Those of the database, before and after the creation of the login. */
  readonly around: DatabaseStatements
}

export function storageAdoption(
  at: (location: StorageLocation) => AdoptableStorage,
  kind: AdoptionKind,
  extensionsSchema: string | undefined,
  placements: () => Readonly<Record<string, { readonly url: string }>>,
): DriverAdoption {
  const structures = new ExpectedStructures()

  /** The schema before the adoption. */
  const sourceOf = ({ schema }: AdoptableStorage, request: AdoptionRequest): string =>
    kind.of === 'database' ? (request.schema ?? 'public') : schema

  const alone = <T>(
    storage: AdoptableStorage,
    work: (client: pg.ClientBase, opened: Results) => Promise<T>,
    options: AloneOptions<T> = {},
  ): Promise<T> =>
    storage.owned((client) => aloneWithTimeout(client, storage.schema, (opened) => work(client, opened), options))

  // The schema `tenantry` prevents the adoption of a whole database.
  const withRecords = kind.of === 'schema'
  /** Parts that the previous schema needed: many schemas of one application are adopted. */
  let parts: readonly Part[] = []

  /** Settings and query with which a transaction begins that `examine` continues. */
  function opening(storage: AdoptableStorage, request: AdoptionRequest) {
    const options = { parts, withRecords }
    const text = factsText(sourceOf(storage, request), storage.server.scopeRole, options)
    return { options, first: pinnedText(text) }
  }

  const identities = async (): Promise<PlacementIdentities> =>
    kind.of === 'database' ? placementIdentities(placements()) : {}

  /** @param opened results of `opening` */
  async function examine(
    client: pg.ClientBase,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    placements: PlacementIdentities,
    options: FactsOptions,
    opened: Results,
  ): Promise<Examined> {
    const source = sourceOf(storage, request)
    const found = factsOf(opened.at(-1)?.rows)
    const facts = found && (await readFacts(client, source, storage.server.scopeRole, options, found))
    if (!facts) throw notAdoptable([`the schema "${source}" does not exist`])
    parts = facts.parts
    const roles = rolesOf(facts, storage)
    let database: DatabaseFacts | undefined
    let around: DatabaseStatements = { before: [], after: [], last: [] }
    if (kind.of === 'database') {
      database = await readDatabase(client, storage)
      around = databaseStatements(database, source, storage, roles, usersOf(facts, roles), kind.installation())
    }
    const reasons = [
      ...(database ? databaseReasons(database, source, storage, placements) : []),
      ...reasonsAgainst(source, facts, roles, { isWholeDatabase: database !== undefined }),
    ]
    return {
      facts,
      database,
      roles,
      reasons,
      first: [...around.before, ...adoptionStatements(source, facts, roles)],
      around,
    }
  }

  /** @param structure before or after the change of owners: it contains none */
  function planOf(
    { facts, database, reasons, first, around }: Examined,
    { location, baseline, acceptDifferences }: AdoptionRequest,
    structure: Structure,
    expected: Structure,
  ): Omit<StoragePlan, 'warnings'> {
    const differences = baseline.length === 0 ? [] : structureDifferences(expected, structure, acceptDifferences)
    const statements = [...first, ...around.after]
    const subject = [
      location,
      baseline,
      [...acceptDifferences].sort(),
      facts,
      database,
      [...structure].sort(),
      around,
      first,
    ]
    const digest = digestOf(subject)
    return {
      reasons: [...reasons, ...structureReasons(structure, expected, differences)],
      differences,
      statements,
      digest,
    }
  }

  return {
    plan: (request) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, searchPathOf, schema } = storage
        const source = sourceOf(storage, request)
        const expected = await structures.of(storage, request.baseline)
        const placements = await identities()
        const { first, options } = opening(storage, request)
        const planned = async (client: pg.ClientBase, opened: Results) => {
          const examined = await examine(client, storage, request, placements, options, opened)
          const { facts, database, roles, around } = examined
          const structure = await readStructure(client, source, searchPathOf(source), facts.parts)
          await runPinned(client)
          const warnings = database
            ? databaseWarnings(database, source, schema)
            : await violationsIn(client, server, source, extensionsSchema, WARNING_RULES)
          const plan = planOf(examined, request, structure, expected)
          return {
            ...plan,
            statements: [...plan.statements, ...around.last],
            warnings: [...warningsAbout(facts, roles, await creatorsInPublic(client, source, facts)), ...warnings],
          }
        }
        const begin = `begin isolation level repeatable read, read only; ${first}`
        return storage.owned((client) => inTransaction(client, (opened) => planned(client, opened), { begin }))
      }),

    adopt: (request, { adoptionId, digest, assertNotAbandoned }) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, migrator, schema, locator, searchPathOf } = storage
        const source = sourceOf(storage, request)
        const expected = await structures.of(storage, request.baseline)
        const placements = await identities()
        const { first, options } = opening(storage, request)
        const adopted = async (client: pg.ClientBase, opened: Results): Promise<string> => {
          const examined = await examine(client, storage, request, placements, options, opened)
          const { facts, database, roles, reasons, around } = examined
          const path = searchPathOf(source)
          if (reasons.length > 0) {
            const structure = await readStructure(client, source, path, facts.parts)
            throw notAdoptable(planOf(examined, request, structure, expected).reasons)
          }
          if (database) await makeBaseObjects(client, server.scopeRole)
          const statements = [
            ...examined.first,
            // A routine that was replaced before its owner changed would run with the rights of the role of `url`.
            structureText(source, path, facts.parts),
            ...around.after,
            factsText(schema, server.scopeRole, facts),
          ]
          const [results] = await Promise.all([runPinned(client, ...statements), assertNotAbandoned()])
          const structure = structureOf(results[examined.first.length]?.rows)
          const plan = planOf(examined, request, structure, expected)
          if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
          if (plan.digest !== digest) throw notAdoptable([CHANGED])
          await assertResult(client, storage, roles, facts, factsOf(results.at(-1)?.rows), database !== undefined)
          if (database) await makeOwnLogin(server, client, locator)
          // The row of tenantry.storage_log (tenant, epoch, locator, state `current`) belongs into this transaction, once
          // servers keep that log.
          return pinnedText(
            ...around.last,
            migrator.baselineText(schema, request.baseline.at(-1)).text,
            recordText(storage, adoptionId, facts, source, database),
          )
        }
        await alone(storage, adopted, { first, last: (text) => text })
      }),

    async settle(location, adoptionId, decide) {
      const storage = at(location)
      let isDecided = false
      try {
        await alone(storage, async (client) => {
          const isAdopted = (await readRecord(client, storage))?.adoptionId === adoptionId
          isDecided = true
          await decide(isAdopted)
        })
      } catch (error) {
        if (isDecided || sqlState(error) !== NO_SUCH_DATABASE) throw error
        await decide(false)
      }
    },

    async release(location) {
      const storage = at(location)
      const { server, tenantId, locator } = storage
      const statements = await alone(storage, async (client) => {
        const found = await readRecord(client, storage)
        return found?.tenantId === tenantId ? restoreRecorded(client, storage, found.rights) : [] // an earlier run has released it
      })
      if (kind.of === 'database') {
        server.connections.forget(locator)
        await server.owned((client) => dropOwnLogin(server, client, locator))
      }
      return statements
    },
  }
}

export const CHANGED = 'the catalog, or the request, differs from that of the plan: make the plan again'
