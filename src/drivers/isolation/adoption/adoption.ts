/**
 * Adopts an existing schema as the storage of a tenant, in one transaction at its server:
 *
 *   lock of the storage ─► abandoned? ─► catalog, compared with the plan ─► statements ─► catalog again ─► records ─► commit
 *
 * - A killed adoption has changed nothing, or everything including its record.
 * - The lock excludes other adoptions, migrations and the recovery of the same schema.
 * - The second look at the catalog applies the rules to the result: an object that another session created meanwhile
 *   ends the adoption.
 */
import { createHash } from 'node:crypto'
import type pg from 'pg'
import type { Difference } from '../../../tenants/isolation/adoption.ts'
import {
  type AdoptionRequest,
  type DriverAdoption,
  notAdoptable,
  type StoragePlan,
} from '../../../tenants/isolation/adoption.ts'
import type { StorageLocation } from '../../../tenants/isolation/location.ts'
import { violationsIn } from '../audit/rules.ts'
import { SCHEMA_RULES } from '../audit/schema-rules.ts'
import { inTransaction } from '../transactions/owner-transaction.ts'
import { aloneWithTimeout } from '../transactions/storage-lock.ts'
import { ExpectedStructures } from './expected-structure.ts'
import { readFacts, type SchemaFacts } from './schema-facts.ts'
import {
  adoptionStatements,
  type RecordedRights,
  type Roles,
  reasonsAgainst,
  releaseStatements,
  warningsAbout,
} from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure, structureDifferences } from './structure.ts'

/** Rules whose violations are warnings. The others are reasons, or the statements of the plan satisfy them. */
const WARNING_RULES = SCHEMA_RULES.filter(({ severity }) => severity === 'warn')

interface Examined {
  readonly facts: SchemaFacts
  readonly roles: Roles
  readonly plan: Omit<StoragePlan, 'warnings'>
}

export function schemaAdoption(
  at: (location: StorageLocation) => AdoptableStorage,
  extensionsSchema: string | undefined,
): DriverAdoption {
  const structures = new ExpectedStructures()

  const alone = <T>(storage: AdoptableStorage, work: (client: pg.ClientBase) => Promise<T>): Promise<T> =>
    storage.owned((client) => aloneWithTimeout(client, storage.schema, () => work(client)))

  return {
    async plan(request) {
      const storage = at(request.location)
      const expected = await structures.of(storage, request.baseline)
      return storage.owned((client) =>
        inTransaction(
          client,
          async () => {
            const { facts, roles, plan } = await examine(client, storage, request, expected)
            await client.query(`set local search_path = pg_catalog`)
            const violations = await violationsIn(
              client,
              storage.server,
              storage.schema,
              extensionsSchema,
              WARNING_RULES,
            )
            return { ...plan, warnings: [...warningsAbout(facts, roles), ...violations] }
          },
          { begin: 'begin isolation level repeatable read, read only' },
        ),
      )
    },

    async adopt(request, { adoptionId, digest, assertNotAbandoned }) {
      const storage = at(request.location)
      const expected = await structures.of(storage, request.baseline)
      await alone(storage, async (client) => {
        await assertNotAbandoned()
        const { facts, roles, plan } = await examine(client, storage, request, expected)
        if (plan.reasons.length > 0) throw notAdoptable(plan.reasons)
        if (plan.digest !== digest) throw notAdoptable([CHANGED])
        await run(client, plan.statements)
        await assertResult(client, storage, roles)
        await storage.migrator.recordBaseline(client, storage.schema, request.baseline)
        // The row of tenantry.storage_log (tenant, epoch, locator, state `current`) belongs into this transaction, once
        // servers keep that log.
        await record(client, storage, adoptionId, facts)
      })
    },

    async settle(location, adoptionId, decide) {
      const storage = at(location)
      await alone(storage, async (client) => {
        const { rowCount } = await client.query(
          'select from tenantry.adoptions where locator = $1 and adoption_id = $2',
          [storage.schema, adoptionId],
        )
        await decide(rowCount === 1)
      })
    },

    async release(location) {
      const storage = at(location)
      const { schema, server, migrator, tenantId } = storage
      return alone(storage, async (client) => {
        const { rows } = await client.query(
          'delete from tenantry.adoptions where locator = $1 and tenant_id = $2 returning rights',
          [schema, tenantId],
        )
        if (!rows[0]) return [] // an earlier run has released it
        await migrator.forget(client, schema)
        const facts = await readFacts(client, schema, server.scopeRole)
        if (!facts) return [] // the schema was dropped: nothing is left to restore
        const statements = releaseStatements(schema, facts, rows[0].rights, await rolesOf(client, storage))
        await run(client, statements)
        return statements
      })
    },
  }
}

const DIGEST_LENGTH = 32
const CHANGED = 'the catalog, or the request, differs from that of the plan: make the plan again'

async function examine(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  { location, baseline, acceptDifferences }: AdoptionRequest,
  expected: Structure,
): Promise<Examined> {
  const { schema, server, searchPath } = storage
  const facts = await readFacts(client, schema, server.scopeRole)
  if (!facts) throw notAdoptable([`the schema "${schema}" does not exist`])
  const roles = await rolesOf(client, storage)
  const structure = await readStructure(client, schema, searchPath)
  const differences = baseline.length === 0 ? [] : structureDifferences(expected, structure, acceptDifferences)
  const statements = adoptionStatements(schema, facts, roles)
  const reasons = [
    ...reasonsAgainst(schema, facts, roles),
    ...privilegedRoutines(structure, expected),
    ...differences.filter(({ isAccepted }) => !isAccepted).map(toReason),
  ]
  const subject = [location, baseline, [...acceptDifferences].sort(), facts, [...structure].sort(), statements]
  return {
    facts,
    roles,
    plan: {
      reasons,
      differences,
      statements,
      digest: createHash('sha256').update(JSON.stringify(subject)).digest('hex').slice(0, DIGEST_LENGTH),
    },
  }
}

/** A routine that runs with the rights of its owner would receive those of the role of `url`. */
const privilegedRoutines = (structure: Structure, expected: Structure): string[] =>
  [...structure].flatMap(([object, definition]) =>
    /^(function|procedure) /.test(object) &&
    / security definer /.test(definition) &&
    expected.get(object) !== definition
      ? [
          `the ${object} is SECURITY DEFINER and would run with the rights of the role of \`url\`: make it SECURITY INVOKER`,
        ]
      : [],
  )

function toReason({ object, expected, actual }: Difference): string {
  if (actual === null) return `${object}: does not exist, and the migrations create it`
  if (expected === null) return `${object}: the migrations do not create it`
  return `${object}: is "${shortened(actual)}", and the migrations create "${shortened(expected)}"`
}

const MAX_SHOWN = 120
const shortened = (text: string): string => (text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)

async function rolesOf(client: pg.ClientBase, { server }: AdoptableStorage): Promise<Roles> {
  const { rows } = await client.query('select current_user as owner')
  return { owner: rows[0].owner, scope: server.scopeRole }
}

/** Statements of one text are one round trip. */
async function run(client: pg.ClientBase, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await client.query(statements.join(';\n'))
}

/** The rules apply to the result: its own plan has nothing to do. */
async function assertResult(client: pg.ClientBase, { schema, server }: AdoptableStorage, roles: Roles): Promise<void> {
  const facts = await readFacts(client, schema, server.scopeRole)
  const left = facts ? adoptionStatements(schema, facts, roles) : []
  if (!facts || left.length > 0 || facts.referrers.length > 0 || facts.references.length > 0) {
    throw notAdoptable(['objects of the schema were changed during the adoption: make the plan again'])
  }
}

async function record(
  client: pg.ClientBase,
  { schema, tenantId }: AdoptableStorage,
  adoptionId: string,
  { owner, rights, objects, defaults }: SchemaFacts,
): Promise<void> {
  const recorded: RecordedRights = { owner, rights, objects, defaults }
  await client.query(
    'insert into tenantry.adoptions (locator, adoption_id, tenant_id, rights) values ($1, $2, $3, $4)',
    [schema, adoptionId, tenantId, JSON.stringify(recorded)],
  )
}
