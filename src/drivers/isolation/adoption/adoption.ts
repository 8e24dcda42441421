/**
 * Adopts an existing schema or database as the storage of a tenant, in one transaction at its server:
 *
 *   lock of the storage ─► owners and rights ─► statements, links, structure, owners and rights again; meanwhile: abandoned?
 *     ─► comparison with the plan ─► records, commit
 *
 * - Each step is one round trip: a round trip takes as long as several statements.
 * - A killed adoption has changed nothing, or everything including its record.
 * - The lock excludes other adoptions, migrations and the recovery of the same schema.
 * - The structure is read once the role of `url` owns all objects: the former owner can change none of them afterwards.
 * - The second look at the catalog applies the rules to the result: an object that another session created meanwhile
 *   ends the adoption.
 */
import type pg from 'pg'
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
import { hasLinksText, linksOf, NO_LINKS, type SchemaLinks } from '../catalog/schema-links.ts'
import { membersOf, membersText } from '../catalog/schema-members.ts'
import { dropOwnLogin, makeOwnLogin } from '../roles/own-login-role.ts'
import { placementIdentities } from '../roles/placement-identity.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { pinnedText, type Results, runGroups } from '../transactions/pinned-text.ts'
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
import { creatorsInPublic, factsOf, factsTexts, type ReadFacts, readLinks, readOwnFacts } from './schema-facts.ts'
import { adoptionStatements, type Roles, reasonsAgainst, usersOf, warningsAbout } from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import {
  readStructure,
  type Structure,
  structureDifferences,
  structureOf,
  structureReasons,
  structureTexts,
} from './structure.ts'

/** Rules whose violations are warnings. The others are reasons, or the statements of the plan satisfy them. */
const WARNING_RULES = SCHEMA_RULES.filter(({ severity }) => severity === 'warn')

/** A schema of the placement's database, or a whole database. */
export type AdoptionKind =
  | { readonly of: 'schema' }
  /** @param installation its id; called after the start of the driver */
  | { readonly of: 'database'; readonly installation: () => string }

interface Examined extends ReadFacts {
  /** Of a whole database. */
  readonly database: DatabaseFacts | undefined
  readonly roles: Roles
  /** Statements of the plan up to the change of all owners and rights of the schema. */
  readonly first: readonly string[]
  /** Those of the database, before and after the creation of the login. */
  readonly around: DatabaseStatements
}

interface Compared {
  readonly links: SchemaLinks
  readonly structure: Structure
  readonly expected: Structure
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

  /** The query with which a transaction begins that `examine` continues. */
  const opening = (storage: AdoptableStorage, request: AdoptionRequest): string =>
    pinnedText(membersText(sourceOf(storage, request)))

  const identities = async (): Promise<PlacementIdentities> =>
    kind.of === 'database' ? placementIdentities(placements()) : {}

  /** @param opened results of `opening` */
  async function examine(
    client: pg.ClientBase,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    opened: Results,
  ): Promise<Examined> {
    const source = sourceOf(storage, request)
    const found = await readOwnFacts(client, source, withRecords, opened.at(-1)?.rows)
    if (!found) throw notAdoptable([`the schema "${source}" does not exist`])
    const { own } = found
    const roles = rolesOf(own, storage)
    let database: DatabaseFacts | undefined
    let around: DatabaseStatements = { before: [], after: [], last: [] }
    if (kind.of === 'database') {
      database = await readDatabase(client, storage)
      around = databaseStatements(database, source, storage, roles, usersOf(own, roles), kind.installation())
    }
    return { ...found, database, roles, first: [...around.before, ...adoptionStatements(source, own, roles)], around }
  }

  /** Reasons against the adoption, without those of the structure. */
  const reasonsOf = (
    { own, database, roles }: Examined,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    placements: PlacementIdentities,
    links: SchemaLinks,
  ): string[] => {
    const source = sourceOf(storage, request)
    return [
      ...(database ? databaseReasons(database, source, storage, placements) : []),
      ...reasonsAgainst(source, { ...own, ...links }, roles, { isWholeDatabase: database !== undefined }),
    ]
  }

  /** @param structure before or after the change of owners, as links: they contain none */
  function planOf(
    examined: Examined,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    placements: PlacementIdentities,
    { links, structure, expected }: Compared,
  ): Omit<StoragePlan, 'warnings'> {
    const { own, database, first, around } = examined
    const { location, baseline, acceptDifferences } = request
    const differences = baseline.length === 0 ? [] : structureDifferences(expected, structure, acceptDifferences)
    const subject = [
      location,
      baseline,
      [...acceptDifferences].sort(),
      { ...own, ...links },
      database,
      [...structure].sort(),
      around,
      first,
    ]
    return {
      reasons: [
        ...reasonsOf(examined, storage, request, placements, links),
        ...structureReasons(structure, expected, differences),
      ],
      differences,
      statements: [...first, ...around.after],
      digest: digestOf(subject),
    }
  }

  /** Links and structure, with a statement for each: an adoption reads them after the change of owners. */
  async function readCompared(
    client: pg.ClientBase,
    { server, searchPathOf }: AdoptableStorage,
    source: string,
    { members }: Examined,
    expected: Structure,
  ): Promise<Compared> {
    const links = await readLinks(client, members, source, server.scopeRole)
    return { links, structure: await readStructure(client, members, source, searchPathOf(source)), expected }
  }

  return {
    plan: (request) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, schema } = storage
        const source = sourceOf(storage, request)
        const expected = await structures.of(storage, request.baseline)
        const placements = await identities()
        const planned = async (client: pg.ClientBase, opened: Results) => {
          const examined = await examine(client, storage, request, opened)
          const { own, database, roles, around } = examined
          const compared = await readCompared(client, storage, source, examined, expected)
          const warnings = database
            ? databaseWarnings(database, source, schema)
            : await violationsIn(client, server, source, extensionsSchema, WARNING_RULES)
          const plan = planOf(examined, storage, request, placements, compared)
          return {
            ...plan,
            statements: [...plan.statements, ...around.last],
            warnings: [...warningsAbout(own, roles, await creatorsInPublic(client, source, own)), ...warnings],
          }
        }
        const begin = `begin isolation level repeatable read, read only; ${opening(storage, request)}`
        return storage.owned((client) => inTransaction(client, (opened) => planned(client, opened), { begin }))
      }),

    adopt: (request, { adoptionId, digest, assertNotAbandoned }) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, migrator, schema, locator, searchPathOf } = storage
        const source = sourceOf(storage, request)
        const expected = await structures.of(storage, request.baseline)
        const placements = await identities()
        const adopted = async (client: pg.ClientBase, opened: Results): Promise<string> => {
          const examined = await examine(client, storage, request, opened)
          const { members, own, database, first, around } = examined
          if (reasonsOf(examined, storage, request, placements, NO_LINKS).length > 0) {
            const compared = await readCompared(client, storage, source, examined, expected)
            throw notAdoptable(planOf(examined, storage, request, placements, compared).reasons)
          }
          if (database) await makeBaseObjects(client, server.scopeRole)
          const statements = [
            first,
            [hasLinksText(members, source, server.scopeRole)],
            // A routine that was replaced before its owner changed would run with the rights of the role of `url`.
            structureTexts(members, source, searchPathOf(source)),
            around.after,
            [membersText(schema)],
            factsTexts(members, schema, false),
          ]
          const [results] = await Promise.all([runGroups(client, statements), assertNotAbandoned()])
          const [, linked, structure = [], , membersAfter, after = []] = results
          const links = await linksOf(client, members, schema, server.scopeRole, linked?.[0]?.rows)
          const compared = { links, structure: structureOf(structure), expected }
          const plan = planOf(examined, storage, request, placements, compared)
          if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
          if (plan.digest !== digest) throw notAdoptable([CHANGED])
          await assertResult(client, storage, examined, membersOf(membersAfter?.[0]?.rows), factsOf(after))
          if (database) await makeOwnLogin(server, client, locator)
          // The row of tenantry.storage_log (tenant, epoch, locator, state `current`) belongs into this transaction, once
          // servers keep that log.
          return pinnedText(
            ...around.last,
            migrator.baselineText(schema, request.baseline.at(-1)).text,
            recordText(storage, adoptionId, own, source, database),
          )
        }
        await alone(storage, adopted, { first: opening(storage, request), last: (text) => text })
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
