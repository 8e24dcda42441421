/**
 * Fixtures of the isolation suite and the leak fuzzer: a driver with its storage, and tables whose rows name their
 * tenant.
 */
import { sql } from 'kysely'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver, StorageLocation } from '../../tenants/isolation/driver.ts'
import type { TenantMigration } from '../../tenants/isolation/migrations.ts'
import { directHandle } from './direct-handle.ts'

export interface Subject {
  /**
   * Starts a driver with these migrations on the storage of this subject. A second driver represents another process.
   * `close` stops all of them. Use a long timeout for connections: the suite has more workers than connections.
   */
  open(migrations: readonly TenantMigration[]): Promise<IsolationDriver>
  readonly placement: string
  /** Maximum number of connections for tenant queries. */
  readonly maxConnections: number
  /** Returns the server's view of a tenant's storage; absent for a driver without a server. */
  readonly viewOf?: ((location: StorageLocation) => StorageView) | undefined
  close(): Promise<void>
}

/** A tenant's storage, seen from its server. */
export interface StorageView {
  /** URL of the database with the tenant's tables, with a superuser. */
  readonly url: string
  /** URL of the same database, with the login of tenant queries. */
  readonly tenantUrl: string
  readonly schema: string
  /** Value of `tenant_id` in the tenant's rows, for tables that tenants share. */
  readonly tenantColumn?: string | undefined
}

/**
 * Returns the migrations that `isolationSuite` and `leakFuzz` need. `items` has every kind of constraint, immediate and
 * deferred. All PostgreSQL drivers share one definition; sqlite has the same columns, as a migration in TypeScript.
 *
 * @example const driver = await subject.open(proofMigrations('postgres'))
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

/** Marker in every row of a tenant. */
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

/** Provisions storage for a tenant and returns its handle. */
export async function provisionedIn(
  subject: Subject,
  driver: IsolationDriver,
  tenantId: string,
): Promise<StorageHandle> {
  const location = locationIn(subject, driver, tenantId)
  await driver.provision(location)
  return directHandle(driver, location)
}
