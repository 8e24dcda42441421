/**
 * Adopts an existing schema or database as the storage of a tenant, in one transaction at its server:
 *
 *   lock of the storage ─► abandoned? ─► owners and rights ─► statements ─► structure; both compared with the plan
 *     ─► owners and rights again ─► records ─► commit
 *
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
import { aloneWithTimeout } from '../transactions/storage-lock.ts'
import {
  type DatabaseFacts,
  type DatabaseStatements,
  databaseReasons,
  databaseRelease,
  databaseStatements,
  databaseWarnings,
  type PlacementIdentities,
  readDatabase,
} from './database-plan.ts'
import { ExpectedStructures } from './expected-structure.ts'
import { type RecordedStorage, readRecord, recordText } from './records.ts'
import { assertResult, digestOf, makeBaseObjects, NO_SUCH_DATABASE, orRejected } from './result.ts'
import { PINNED, type Pinned, pin, pinnedBy, readFacts, type SchemaFacts } from './schema-facts.ts'
import {
  adoptionStatements,
  type Roles,
  reasonsAgainst,
  releaseStatements,
  usersOf,
  warningsAbout,
} from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure, structureDifferences, structureReasons } from './structure.ts'

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
    work: (client: pg.ClientBase, pinned: Pinned) => Promise<T>,
  ): Promise<T> =>
    storage.owned((client) =>
      aloneWithTimeout(client, storage.schema, (opened) => work(client, pinnedBy(opened.at(-1)?.rows)), {
        first: PINNED,
      }),
    )

  const identities = async (): Promise<PlacementIdentities> =>
    kind.of === 'database' ? placementIdentities(placements()) : {}

  /** In a transaction that is pinned. */
  async function examine(
    client: pg.ClientBase,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    placements: PlacementIdentities,
    pinned: Pinned,
  ): Promise<Examined> {
    const source = sourceOf(storage, request)
    const facts = await readFacts(client, source, storage.server.scopeRole, pinned)
    if (!facts) throw notAdoptable([`the schema "${source}" does not exist`])
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
        const planned = async (client: pg.ClientBase, pinned: Pinned) => {
          const examined = await examine(client, storage, request, placements, pinned)
          const { facts, database, roles, around } = examined
          const structure = await readStructure(client, source, searchPathOf(source))
          await run(client, [])
          const warnings = database
            ? databaseWarnings(database, source, schema)
            : await violationsIn(client, server, source, extensionsSchema, WARNING_RULES)
          const plan = planOf(examined, request, structure, expected)
          return {
            ...plan,
            statements: [...plan.statements, ...around.last],
            warnings: [...warningsAbout(facts, roles), ...warnings],
          }
        }
        const begin = `begin isolation level repeatable read, read only; ${PINNED}`
        return storage.owned((client) =>
          inTransaction(client, (opened) => planned(client, pinnedBy(opened.at(-1)?.rows)), { begin }),
        )
      }),

    adopt: (request, { adoptionId, digest, assertNotAbandoned }) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, migrator, schema, locator, searchPathOf } = storage
        const source = sourceOf(storage, request)
        const expected = await structures.of(storage, request.baseline)
        const placements = await identities()
        await alone(storage, async (client, pinned) => {
          await assertNotAbandoned()
          const examined = await examine(client, storage, request, placements, pinned)
          const { facts, database, roles, reasons, first, around } = examined
          const planned = async () =>
            planOf(examined, request, await readStructure(client, source, searchPathOf(source)), expected)
          if (reasons.length > 0) throw notAdoptable((await planned()).reasons)
          if (database) await makeBaseObjects(client, server.scopeRole)
          await run(client, first)
          // A routine that was replaced before its owner changed would run with the rights of the role of `url`.
          const plan = await planned()
          if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
          if (plan.digest !== digest) throw notAdoptable([CHANGED])
          await run(client, around.after)
          await assertResult(client, storage, roles, database, pinned)
          if (database) await makeOwnLogin(server, client, locator)
          // The row of tenantry.storage_log (tenant, epoch, locator, state `current`) belongs into this transaction, once
          // servers keep that log.
          await run(client, [
            ...around.last,
            migrator.baselineText(schema, request.baseline.at(-1)).text,
            recordText(storage, adoptionId, facts, source, database),
          ])
        })
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
        return found?.tenantId === tenantId ? released(client, storage, found.rights) : [] // an earlier run has released it
      })
      if (kind.of === 'database') {
        server.connections.forget(locator)
        await server.owned((client) => dropOwnLogin(server, client, locator))
      }
      return statements
    },
  }
}

async function released(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  recorded: RecordedStorage,
): Promise<readonly string[]> {
  const { schema, server, migrator } = storage
  const { source, database } = recorded
  await client.query('delete from tenantry.adoptions where locator = $1', [schema])
  await migrator.forget(client, schema)
  if (source !== schema) {
    await client.query(`alter schema ${pg.escapeIdentifier(schema)} rename to ${pg.escapeIdentifier(source)}`)
  }
  const facts = await readFacts(client, source, server.scopeRole, await pin(client))
  if (!facts) return [] // the schema was dropped: nothing is left to restore
  const statements = [
    ...releaseStatements(source, facts, recorded, rolesOf(facts, storage)),
    ...(database ? databaseRelease(await readDatabase(client, storage), database) : []),
  ]
  await run(client, statements)
  return statements
}

export const CHANGED = 'the catalog, or the request, differs from that of the plan: make the plan again'

export const rolesOf = ({ reader }: SchemaFacts, { server }: AdoptableStorage): Roles => ({
  owner: reader,
  scope: server.scopeRole,
})

/**
 * Runs statements as one text, in one round trip. All names in them are qualified. Afterwards the search path is that of
 * `pin`.
 */
export async function run(client: pg.ClientBase, statements: readonly string[]): Promise<void> {
  await client.query(['set local search_path = pg_catalog', ...statements].join(';\n'))
}
