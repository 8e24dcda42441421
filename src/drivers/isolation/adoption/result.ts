/**
 * Checks an adoption in its transaction, after its statements: other sessions may have changed objects between the
 * examination and the first lock.
 */
import type pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { notAdoptable } from '../../../tenants/isolation/adoption.ts'
import { baseObjects } from '../migrations/postgres-migrator.ts'
import { type DatabaseFacts, readDatabase } from './database-plan.ts'
import { readFacts } from './schema-facts.ts'
import { adoptionStatements, type Roles } from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure, structureDifferences } from './structure.ts'

const DUPLICATE_SCHEMA = '42P06'
const CHANGED = 'objects were changed during the adoption: make the plan again'

/** The schema must be new: another role could own the objects of an existing one. */
export async function makeBaseObjects(client: pg.ClientBase, scopeRole: string): Promise<void> {
  await client.query(`create schema tenantry; ${baseObjects(scopeRole)}`).catch((error) => {
    throw sqlState(error) === DUPLICATE_SCHEMA ? notAdoptable([CHANGED]) : error
  })
}

/**
 * After the change of owners, each object has the definition that was examined. A routine that was replaced before its
 * owner changed would run with the rights of the role of `url`.
 */
export async function assertStructure(
  client: pg.ClientBase,
  { searchPathOf }: AdoptableStorage,
  source: string,
  examined: Structure,
): Promise<void> {
  const structure = await readStructure(client, source, searchPathOf(source))
  if (structureDifferences(examined, structure, []).length > 0) throw notAdoptable([CHANGED])
}

/** The rules apply to the result: its own plan has nothing to do. */
export async function assertResult(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  roles: Roles,
  database: DatabaseFacts | undefined,
): Promise<void> {
  const { schema, server } = storage
  const facts = await readFacts(client, schema, server.scopeRole)
  const isComplete = facts && adoptionStatements(schema, facts, roles).length === 0
  const links = facts ? [facts.referrers, facts.references, facts.foreignRoutines, facts.extensions].flat() : []
  const others = database ? (await readDatabase(client, storage)).occupied : []
  if (!isComplete || links.length > 0 || others.some((one) => ![schema, 'tenantry'].includes(one))) {
    throw notAdoptable([CHANGED])
  }
}
