/** Reads and writes `tenantry.adoptions`, the record of an adoption at its server (migrations/migration-records.ts). */
import pg from 'pg'
import type { DatabaseFacts, RecordedDatabase } from './database-plan.ts'
import type { SchemaFacts } from './schema-facts.ts'
import type { RecordedRights } from './schema-plan.ts'
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
  { owner, rights, objects, defaults }: SchemaFacts,
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
