/**
 * Test data of the benchmarks: 50 tenants with 200 notes each in ten folders; a read returns one folder, 20 rows by an
 * index. The same rows are in an unprotected table of the host, where each statement names the tenant.
 */
import pg from 'pg'
import {
  databasePg,
  type IsolationDriver,
  rowscopePg,
  schemaPg,
  type Tenancy,
  type TenantMigration,
} from '../src/index.ts'
import { installAll } from './tenancy.ts'

export const TENANTS = 50
const NOTES = 200
const FOLDERS = 10

/** An isolation driver, with the statement that a host writes for it. */
export interface Way {
  readonly name: string
  readonly isolation: () => IsolationDriver
  /** The same driver with BEGIN and COMMIT around each statement. */
  readonly inTransactions?: () => IsolationDriver
  readonly migrations: readonly TenantMigration[]
  readonly statement: (locator: string) => string
  /** Connections for tenant queries. With a database for each tenant, enough that none is closed for another tenant. */
  readonly connections: number
  /** Connections of one tenant. */
  readonly perTenant: number
}

const ofSchema: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: 'bench',
    up: `create table notes (
        id bigint generated always as identity primary key, folder int not null,
        title text not null, body text not null, created_at timestamptz not null default now());
      create index on notes (folder, id)`,
  },
]

const ofRows: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: 'bench',
    up: `create table notes (
        tenant_id text not null default tenantry.current_tenant(), id bigint generated always as identity,
        folder int not null, title text not null, body text not null, created_at timestamptz not null default now(),
        primary key (tenant_id, id));
      create index on notes (tenant_id, folder, id)`,
  },
]

export const select = (table: string): string =>
  `select id, title, body, created_at from ${table} where folder = $1 order by id limit 20`

export const ROWSCOPE: Way = {
  name: 'rowscope-pg',
  isolation: () => rowscopePg(),
  inTransactions: () => rowscopePg({ scope: 'transaction' }),
  migrations: ofRows,
  statement: () => select('notes'),
  connections: 10,
  perTenant: 10,
}

export const SCHEMA: Way = {
  name: 'schema-pg',
  isolation: () => schemaPg(),
  inTransactions: () => schemaPg({ scope: 'transaction' }),
  migrations: ofSchema,
  statement: () => select('notes'),
  connections: 10,
  perTenant: 10,
}

export const SCHEMA_QUALIFIED: Way = {
  name: 'schema-pg, qualified',
  isolation: () => schemaPg({ names: 'qualified' }),
  migrations: ofSchema,
  statement: (locator) => select(`${pg.escapeIdentifier(locator)}.notes`),
  connections: 10,
  perTenant: 10,
}

export const DATABASE: Way = {
  name: 'database-pg',
  isolation: () => databasePg(),
  migrations: ofSchema,
  statement: () => select('notes'),
  connections: 2 * TENANTS,
  perTenant: 2,
}

export const WAYS: readonly Way[] = [ROWSCOPE, SCHEMA, SCHEMA_QUALIFIED, DATABASE]

/** Statement of a host that separates tenants without Tenantry. */
export const UNPROTECTED = `select id, title, body, created_at from plain.notes
  where tenant_id = $1 and folder = $2 order by id limit 20`

export const tenantId = (n: number): string => `tenant-${n}`
export const anyTenant = (count = TENANTS): string => tenantId(Math.floor(Math.random() * count))
export const anyFolder = (): number => Math.floor(Math.random() * FOLDERS)

export const folderOf = (url = '/'): number => Number(new URL(url, 'http://localhost').searchParams.get('folder'))

const NOTE = `n % ${FOLDERS}, 'Note ' || n, repeat('A line of text. ', 4) from generate_series(1, ${NOTES}) n`

/** Creates the tenants with their notes, and the unprotected table with the same notes. */
export async function fillNotes(tenancy: Tenancy, url: string, count = TENANTS): Promise<void> {
  const ids = Array.from({ length: count }, (_, n) => tenantId(n))
  await installAll(tenancy, ids)
  for (const id of ids) {
    const { pool } = await tenancy.tenant(id)
    await pool.query(`insert into notes (folder, title, body) select ${NOTE}`)
  }
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  try {
    await owner.query(`create schema plain;
      create table plain.notes (
        tenant_id text not null, id bigint generated always as identity, folder int not null,
        title text not null, body text not null, created_at timestamptz not null default now(),
        primary key (tenant_id, id));
      create index on plain.notes (tenant_id, folder, id)`)
    for (const id of ids) {
      await owner.query(
        `insert into plain.notes (tenant_id, folder, title, body) select ${pg.escapeLiteral(id)}, ${NOTE}`,
      )
    }
    await owner.query('vacuum analyze')
  } finally {
    await owner.end()
  }
}

export const optionsFor = (way: Way, isolation = way.isolation) => ({
  isolation: [isolation()],
  migrations: way.migrations,
  placements: { main: { connections: { max: way.connections, perTenant: way.perTenant } } },
})
