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
 * The rules apply to the result: its own plan has nothing to do, and each object has the definition that was examined. A
 * routine that was replaced before its owner changed would run with the rights of the role of `url`.
 */
export async function assertResult(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  roles: Roles,
  examined: Structure,
  database: DatabaseFacts | undefined,
): Promise<void> {
  const { schema, server, searchPathOf } = storage
  const facts = await readFacts(client, schema, server.scopeRole)
  const isComplete = facts && adoptionStatements(schema, facts, roles).length === 0
  const links = facts ? [facts.referrers, facts.references, facts.foreignRoutines, facts.extensions].flat() : []
  const structure = await readStructure(client, schema, searchPathOf(schema))
  const isSame = structureDifferences(examined, structure, []).length === 0
  const others = database ? (await readDatabase(client, storage)).occupied : []
  if (!isComplete || !isSame || links.length > 0 || others.some((one) => ![schema, 'tenantry'].includes(one))) {
    throw notAdoptable([CHANGED])
  }
}
