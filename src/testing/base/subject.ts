/**
 * What the proof of isolation stands on: a driver at work on storage of its own, a way to look past it at what its server holds,
 * and tables in which every row says whose it is.
 */
import { sql } from 'kysely'
import type { TenantHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver, StorageLocation } from '../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../tenants/isolation/migrations.ts'
import { directHandle } from './direct-handle.ts'

export interface Subject {
  /**
   * A started driver on the storage of this subject, with these migrations; a second one is what another process would have.
   * All of them are stopped by `close`. Let statements wait long for a connection: the proof has more workers than connections.
   */
  open(migrations: readonly TenantMigration[]): Promise<IsolationDriver>
  readonly placement: string
  /** Connections at most, for tenants' queries. */
  readonly maxConnections: number
  /** Where a server keeps a tenant's rows; absent for a driver without one. */
  readonly viewOf?: ((location: StorageLocation) => StorageView) | undefined
  close(): Promise<void>
}

/** A tenant's storage as its server knows it. */
export interface StorageView {
  /** Of a superuser, to the database that holds the tenant's tables. */
  readonly url: string
  /** Of the login of tenants' queries, to the same database. */
  readonly tenantUrl: string
  readonly schema: string
  /** In tables that tenants share: what `tenant_id` is in the rows of this one. */
  readonly tenantColumn?: string | undefined
}

/**
 * `items` has every kind of constraint that can fail now or at the end of a transaction. One definition for all PostgreSQL
 * drivers; the same columns for sqlite, which takes migrations in TypeScript only.
 */
export function proofMigrations(engine: IsolationDriver['capabilities']['engine']): TenantMigration[] {
  return engine === 'postgres' ? POSTGRES : SQLITE
}

const POSTGRES: TenantMigration[] = [
  {
    name: '0001_items',
    checksum: '1',
    up: `create table items (
        tenant_id text not null default tenantry.current_tenant(), id int not null,
        owner text not null, value int not null default 0 check (value >= 0), slot int,
        primary key (tenant_id, id), unique (tenant_id, slot) deferrable initially deferred);
      create sequence numbers;
      create view owners with (security_invoker = true) as select owner, value from items`,
    down: 'drop view owners; drop sequence numbers; drop table items',
  },
  {
    name: '0002_tags',
    checksum: '2',
    up: `create table tags (tenant_id text not null default tenantry.current_tenant(), tag text not null, owner text not null,
        primary key (tenant_id, tag));
      alter table items add column note text not null default ''`,
    down: 'alter table items drop column note; drop table tags',
  },
]

const SQLITE: TenantMigration[] = [
  {
    name: '0001_items',
    checksum: '1',
    up: async (db) => {
      await sql`create table items (tenant_id text not null default '', id int not null, owner text not null,
        value int not null default 0 check (value >= 0), slot int, primary key (tenant_id, id), unique (tenant_id, slot))`.execute(
        db,
      )
      await sql`create view owners as select owner, value from items`.execute(db)
    },
    down: async (db) => {
      await sql`drop view owners`.execute(db)
      await sql`drop table items`.execute(db)
    },
  },
  {
    name: '0002_tags',
    checksum: '2',
    up: async (db) => {
      await sql`create table tags (tenant_id text not null default '', tag text not null, owner text not null,
        primary key (tenant_id, tag))`.execute(db)
      await sql`alter table items add column note text not null default ''`.execute(db)
    },
    down: async (db) => {
      await sql`alter table items drop column note`.execute(db)
      await sql`drop table tags`.execute(db)
    },
  },
]

/** What every row of a tenant says. */
export const markOf = (tenantId: string): string => `of ${tenantId}`

export const locationIn = (
  { placement }: Subject,
  driver: IsolationDriver,
  tenantId: string,
  epoch = 1,
): StorageLocation => ({
  tenantId,
  isolation: driver.name,
  placement,
  locator: driver.locator(tenantId, epoch),
  epoch,
})

/** Makes a tenant's storage and answers the handle to it. */
export async function provisionedIn(
  subject: Subject,
  driver: IsolationDriver,
  tenantId: string,
): Promise<TenantHandle> {
  const location = locationIn(subject, driver, tenantId)
  await driver.provision(location)
  return directHandle(driver, location)
}
