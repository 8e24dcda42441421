/**
 * Adopts an existing schema or database as the storage of a tenant, in one transaction at its server:
 *
 *   lock of the storage ─► abandoned? ─► catalog, compared with the plan ─► statements ─► catalog again ─► records ─► commit
 *
 * - A killed adoption has changed nothing, or everything including its record.
 * - The lock excludes other adoptions, migrations and the recovery of the same schema.
 * - The second look at the catalog applies the rules to the result: an object that another session created meanwhile
 *   ends the adoption.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import type { Difference } from '../../../tenants/isolation/adoption.ts'
import {
  type AdoptionRequest,
  type DriverAdoption,
  NotAdoptable,
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
import { type RecordedStorage, readRecord, writeRecord } from './records.ts'
import { assertResult, assertStructure, makeBaseObjects } from './result.ts'
import { readFacts, type SchemaFacts } from './schema-facts.ts'
import {
  adoptionStatements,
  type Roles,
  reasonsAgainst,
  releaseStatements,
  usersOf,
  warningsAbout,
} from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure, structureDifferences } from './structure.ts'

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
  readonly structure: Structure
  readonly plan: Omit<StoragePlan, 'warnings'>
  /** Statements of the plan up to the change of all owners and rights of the schema. */
  readonly first: readonly string[]
  /** Those of the database, before and after the creation of the login. */
  readonly around: DatabaseStatements
}

interface Expected {
  /** The result of the migrations. */
  readonly structure: Structure
  readonly placements: PlacementIdentities
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

  const alone = <T>(storage: AdoptableStorage, work: (client: pg.ClientBase) => Promise<T>): Promise<T> =>
    storage.owned((client) => aloneWithTimeout(client, storage.schema, () => work(client)))

  const identities = async (): Promise<PlacementIdentities> =>
    kind.of === 'database' ? placementIdentities(placements()) : {}

  async function examine(
    client: pg.ClientBase,
    storage: AdoptableStorage,
    request: AdoptionRequest,
    { structure: expected, placements }: Expected,
  ): Promise<Examined> {
    const { server, searchPathOf } = storage
    const { location, baseline, acceptDifferences } = request
    const source = sourceOf(storage, request)
    const facts = await readFacts(client, source, server.scopeRole)
    if (!facts) throw notAdoptable([`the schema "${source}" does not exist`])
    const roles = await rolesOf(client, storage)
    const structure = await readStructure(client, source, searchPathOf(source))
    const differences = baseline.length === 0 ? [] : structureDifferences(expected, structure, acceptDifferences)
    const ofSchema = adoptionStatements(source, facts, roles)
    let database: DatabaseFacts | undefined
    let around: DatabaseStatements = { before: [], after: [], last: [] }
    if (kind.of === 'database') {
      database = await readDatabase(client, storage)
      around = databaseStatements(database, source, storage, roles, usersOf(facts, roles), kind.installation())
    }
    const first = [...around.before, ...ofSchema]
    const statements = [...first, ...around.after]
    const reasons = [
      ...(database ? databaseReasons(database, source, storage, placements) : []),
      ...reasonsAgainst(source, facts, roles, { isWholeDatabase: database !== undefined }),
      ...privilegedRoutines(structure, expected),
      ...differences.filter(({ isAccepted }) => !isAccepted).map(toReason),
    ]
    const subject = [
      location,
      baseline,
      [...acceptDifferences].sort(),
      facts,
      database,
      [...structure].sort(),
      around,
      ofSchema,
    ]
    const digest = createHash('sha256').update(JSON.stringify(subject)).digest('hex').slice(0, DIGEST_LENGTH)
    return { facts, database, roles, structure, first, around, plan: { reasons, differences, statements, digest } }
  }

  return {
    plan: (request) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const source = sourceOf(storage, request)
        const expected = { structure: await structures.of(storage, request.baseline), placements: await identities() }
        const planned = async (client: pg.ClientBase) => {
          const { facts, database, roles, plan, around } = await examine(client, storage, request, expected)
          await client.query(`set local search_path = pg_catalog; set local jit = off`)
          const warnings = database
            ? databaseWarnings(database, source, storage.schema)
            : await violationsIn(client, storage.server, source, extensionsSchema, WARNING_RULES)
          return {
            ...plan,
            statements: [...plan.statements, ...around.last],
            warnings: [...warningsAbout(facts, roles), ...warnings],
          }
        }
        const begin = 'begin isolation level repeatable read, read only'
        return storage.owned((client) => inTransaction(client, () => planned(client), { begin }))
      }),

    adopt: (request, { adoptionId, digest, assertNotAbandoned }) =>
      orRejected(request.location.locator, async () => {
        const storage = at(request.location)
        const { server, migrator, schema, locator } = storage
        const expected = { structure: await structures.of(storage, request.baseline), placements: await identities() }
        await alone(storage, async (client) => {
          await assertNotAbandoned()
          const examined = await examine(client, storage, request, expected)
          const { facts, database, roles, structure, plan, first, around } = examined
          const source = sourceOf(storage, request)
          if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
          if (plan.digest !== digest) throw notAdoptable([CHANGED])
          if (database) await makeBaseObjects(client, server.scopeRole)
          await run(client, first)
          await assertStructure(client, storage, source, structure)
          await run(client, around.after)
          await assertResult(client, storage, roles, database)
          if (database) await makeOwnLogin(server, client, locator)
          await run(client, around.last)
          await migrator.recordBaseline(client, schema, request.baseline.at(-1))
          // The row of tenantry.storage_log (tenant, epoch, locator, state `current`) belongs into this transaction, once
          // servers keep that log.
          await writeRecord(client, storage, adoptionId, facts, source, database)
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
  const facts = await readFacts(client, source, server.scopeRole)
  if (!facts) return [] // the schema was dropped: nothing is left to restore
  const statements = [
    ...releaseStatements(source, facts, recorded, await rolesOf(client, storage)),
    ...(database ? databaseRelease(await readDatabase(client, storage), database) : []),
  ]
  await run(client, statements)
  return statements
}

const NO_SUCH_DATABASE = '3D000'
const INSUFFICIENT_PRIVILEGE = '42501'

/** Converts the error of a missing database, and of statements that the role of `url` may not execute. */
export async function orRejected<T>(locator: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (sqlState(error) === NO_SUCH_DATABASE) throw notAdoptable([`the database "${locator}" does not exist`])
    if (sqlState(error) !== INSUFFICIENT_PRIVILEGE) throw error
    throw NotAdoptable('The role of `url` lacks a right for these statements; the log has the details.', {
      cause: error,
    })
  }
}

export const DIGEST_LENGTH = 32
export const CHANGED = 'the catalog, or the request, differs from that of the plan: make the plan again'

/** A routine that runs with the rights of its owner would receive those of the role of `url`. */
export const privilegedRoutines = (structure: Structure, expected: Structure): string[] =>
  [...structure].flatMap(([object, definition]) =>
    /^(function|procedure) /.test(object) &&
    / security definer( |$)/.test(definition) &&
    expected.get(object) !== definition
      ? [
          `the ${object} is SECURITY DEFINER and would run with the rights of the role of \`url\`: make it SECURITY INVOKER`,
        ]
      : [],
  )

export function toReason({ object, expected, actual }: Difference): string {
  if (actual === null) return `${object}: does not exist, and the migrations create it`
  if (expected === null) return `${object}: the migrations do not create it`
  return `${object}: is "${shortened(actual)}", and the migrations create "${shortened(expected)}"`
}

const MAX_SHOWN = 120
const shortened = (text: string): string => (text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)

export async function rolesOf(client: pg.ClientBase, { server }: AdoptableStorage): Promise<Roles> {
  const { rows } = await client.query('select current_user as owner')
  return { owner: rows[0].owner, scope: server.scopeRole }
}

/** Statements of one text are one round trip. All names in them are qualified. */
export async function run(client: pg.ClientBase, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await client.query(['set local search_path = pg_catalog', ...statements].join(';\n'))
}
