/**
 * Checks an adoption in its transaction, after its statements: other sessions may have changed objects between the
 * examination and the first lock. Converts its errors.
 */
import { createHash } from 'node:crypto'
import type pg from 'pg'
import { sqlState } from '../../../kernel/database/database.ts'
import { NotAdoptable, notAdoptable } from '../../../tenants/isolation/adoption.ts'
import { areSameMembers, type SchemaMembers } from '../catalog/schema-members.ts'
import { baseObjects } from '../migrations/postgres-migrator.ts'
import { readDatabase } from './database-plan.ts'
import type { OwnFacts, ReadFacts } from './schema-facts.ts'
import { adoptionStatements, type Roles } from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'
import { readStructure, type Structure, structureDifferences } from './structure.ts'

const DUPLICATE_SCHEMA = '42P06'
const CHANGED = 'objects were changed during the adoption: make the plan again'

const DIGEST_LENGTH = 32

/** Of everything that a plan depends on. */
export const digestOf = (subject: unknown): string =>
  createHash('sha256').update(JSON.stringify(subject)).digest('hex').slice(0, DIGEST_LENGTH)

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
  members: SchemaMembers,
  source: string,
  examined: Structure,
): Promise<void> {
  const structure = await readStructure(client, members, source, searchPathOf(source))
  if (structureDifferences(examined, structure, []).length > 0) throw notAdoptable([CHANGED])
}

/**
 * The rules apply to the result: its own plan has nothing to do, and no object was created or dropped.
 *
 * @param members those of the result, as `own`
 */
export async function assertResult(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  examined: ReadFacts & { readonly roles: Roles; readonly database: unknown },
  members: SchemaMembers | undefined,
  own: OwnFacts | undefined,
): Promise<void> {
  const { schema } = storage
  const isComplete = own && adoptionStatements(schema, own, examined.roles).length === 0
  const others = examined.database ? (await readDatabase(client, storage)).occupied : []
  const isAlone = others.every((one) => [schema, 'tenantry'].includes(one))
  if (!isComplete || !isAlone || !areSameMembers(examined.members, members)) throw notAdoptable([CHANGED])
}

export const NO_SUCH_DATABASE = '3D000'
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
