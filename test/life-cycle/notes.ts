/** Tables of a walk's tenants, as TypeScript migrations that all drivers run. */
import { type Kysely, SqliteAdapter, sql } from 'kysely'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import type { TenantMigration } from '../../src/tenants/isolation/migrations.ts'

export interface Note {
  readonly id: number
  readonly body: string
}

interface NoteTables {
  notes: Note
}

const owner = (db: Kysely<any>) =>
  db.getExecutor().adapter instanceof SqliteAdapter ? sql`''` : sql`tenantry.current_tenant()`

export const migrations: readonly TenantMigration[] = [
  {
    // Has no rollback: the notes must be kept.
    name: '0001_notes',
    checksum: '1',
    up: async (db) => {
      await sql`create table notes (tenant_id text not null default (${owner(db)}), id int not null, body text not null,
        primary key (tenant_id, id))`.execute(db)
    },
  },
  {
    name: '0002_stars',
    checksum: '2',
    up: async (db) => {
      await sql`create table stars (tenant_id text not null default (${owner(db)}), id int not null,
        primary key (tenant_id, id))`.execute(db)
    },
    down: async (db) => {
      await sql`drop table stars`.execute(db)
    },
  },
]

/** Two notes that are written together; all tenants have the same ids. */
export const pairOf = (tenantId: string, number: number): Note[] =>
  [2 * number, 2 * number + 1].map((id) => ({ id, body: `${tenantId} ${number}` }))

export const numberOf = ({ id }: Note): number => Math.floor(id / 2)

export async function writePair(handle: Tenant<NoteTables>, number: number, how: 'statement' | 'transaction') {
  const pair = pairOf(handle.id, number)
  if (how === 'statement') await handle.db.insertInto('notes').values(pair).execute()
  else {
    await handle.transaction(async (db) => {
      for (const note of pair) await db.insertInto('notes').values(note).execute()
    })
  }
}

export const readNotes = ({ db }: Tenant<NoteTables>): Promise<Note[]> =>
  db.selectFrom('notes').select(['id', 'body']).orderBy('id').execute()
