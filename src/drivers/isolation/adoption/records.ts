/**
 * Reads and writes `tenantry.adoptions`, the record of an adoption at its server (migrations/migration-records.ts), and
 * restores the owners and rights of a record.
 */
import pg from 'pg'
import { runPinned } from '../transactions/pinned-text.ts'
import { type DatabaseFacts, databaseRelease, type RecordedDatabase, readDatabase } from './database-plan.ts'
import { type OwnFacts, readOwnFacts } from './schema-facts.ts'
import { type RecordedRights, type Roles, releaseStatements } from './schema-plan.ts'
import type { AdoptableStorage } from './storage.ts'

/** What a release restores, as JSON. */
export interface RecordedStorage extends RecordedRights {
  /** Name of the schema before the adoption. */
  readonly source: string
  readonly database?: RecordedDatabase
}

export interface AdoptionRecord {
  readonly adoptionId: string
  readonly tenantId: string
  readonly rights: RecordedStorage
}

/** The statement that writes the record. */
export function recordText(
  { schema, tenantId }: AdoptableStorage,
  adoptionId: string,
  { owner, rights, objects, defaults }: OwnFacts,
  source: string,
  database: DatabaseFacts | undefined,
): string {
  const recorded: RecordedStorage = { owner, rights, objects, defaults, source, ...(database ? { database } : {}) }
  const values = [schema, adoptionId, tenantId, JSON.stringify(recorded)].map((one) => pg.escapeLiteral(one))
  return `insert into tenantry.adoptions (locator, adoption_id, tenant_id, rights) values (${values.join(', ')})`
}

/** Undefined without a record, also in a database without the table. */
export async function readRecord(
  client: pg.ClientBase,
  { schema }: Pick<AdoptableStorage, 'schema'>,
): Promise<AdoptionRecord | undefined> {
  const { rows: tables } = await client.query(`select to_regclass('tenantry.adoptions') is not null as exists`)
  if (!tables[0].exists) return undefined
  const { rows } = await client.query(
    'select adoption_id as "adoptionId", tenant_id as "tenantId", rights from tenantry.adoptions where locator = $1',
    [schema],
  )
  return rows[0]
}

/** Removes the record. Returns the statements. */
export async function restoreRecorded(
  client: pg.ClientBase,
  storage: AdoptableStorage,
  recorded: RecordedStorage,
): Promise<readonly string[]> {
  const { schema, migrator } = storage
  const { source, database } = recorded
  await client.query('delete from tenantry.adoptions where locator = $1', [schema])
  await migrator.forget(client, schema)
  if (source !== schema) {
    await client.query(`alter schema ${pg.escapeIdentifier(schema)} rename to ${pg.escapeIdentifier(source)}`)
  }
  const found = await readOwnFacts(client, source, false)
  if (!found) return [] // the schema was dropped: nothing is left to restore
  const statements = [
    ...releaseStatements(source, found.own, recorded, rolesOf(found.own, storage)),
    ...(database ? databaseRelease(await readDatabase(client, storage), database) : []),
  ]
  await runPinned(client, ...statements)
  return statements
}

export const rolesOf = ({ reader }: OwnFacts, { server }: AdoptableStorage): Roles => ({
  owner: reader,
  scope: server.scopeRole,
})
