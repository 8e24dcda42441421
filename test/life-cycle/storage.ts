/** Checks the state of a tenant outside its registry row: its storage on the servers. */
import { expect } from 'vitest'
import type { Database } from '../../src/kernel/database/database.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import { toLocation } from '../../src/tenants/registry/registry.ts'
import { type AppliedMigration, UNKNOWN_VERSION } from '../../src/tenants/tenant/schema-version.ts'
import type { TenantRow } from '../../src/tenants/tenant/tables.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'

const FOLLOWS_WITHIN_MS = 15_000

export type Registered = Pick<
  TenantRow,
  'id' | 'status' | 'statusBefore' | 'maintenance' | 'failure' | 'isolation' | 'placement' | 'locator' | 'epoch'
> & { readonly isBeingPurged: boolean; readonly isPurged: boolean; readonly version: string }

/** Rows of the registry for these ids. */
export async function registered(database: Database, ids: readonly string[]): Promise<Map<string, Registered>> {
  const { rows } = await database.sql(
    `select id, status, status_before as "statusBefore", maintenance, failure, isolation, placement, locator, epoch,
       schema_version as version, purge_started_at is not null as "isBeingPurged", purged_at is not null as "isPurged"
     from multitenancy.tenants where id = any ($1)`,
    [ids],
  )
  return new Map(rows.map((row) => [row.id, row]))
}

/** Queries the driver directly, as a process would without notifications. */
export async function rejectsEverybody({ tenants }: Tenancy, row: Registered): Promise<void> {
  const driver = tenants.storage.driver(row.isolation)
  const location = toLocation(row)
  await eventually(async () => {
    expect(await driver.isFenced(location), `${row.id} is fenced`).toBe(true)
    const asked = driver.execute(location, { text: 'select count(*) from notes' })
    await expect(asked).rejects.toMatchObject({ code: 'E_TENANT_STORAGE_FENCED' })
  }, FOLLOWS_WITHIN_MS)
}

export async function isOpen({ tenants }: Tenancy, row: Registered): Promise<void> {
  const driver = tenants.storage.driver(row.isolation)
  expect(await driver.isFenced(toLocation(row)), `${row.id} is fenced`).toBe(false)
}

/** The registry's record of migrations never exceeds the storage's. */
export async function claimsNoMore({ tenants }: Tenancy, database: Database, row: Registered): Promise<void> {
  if (row.version === UNKNOWN_VERSION) return
  const { rows } = await database.sql('select migrations from multitenancy.schema_versions where version = $1', [
    row.version,
  ])
  const known: AppliedMigration[] = rows[0].migrations
  const applied = await tenants.storage.driver(row.isolation).applied(toLocation(row))
  expect(applied, `${row.id} is migrated`).toEqual(expect.arrayContaining(known.map(({ name }) => name)))
}

/**
 * Checks that nothing of a purged tenant is left, except audit entries, the row that reserves its id, and in shared
 * tables a fence and the row without a location.
 */
export async function nothingIsLeft(database: Database, { id, locator }: Registered): Promise<void> {
  await eventually(async () => {
    const { rows } = await database.sql(
      `select 'schema' as what from pg_namespace where nspname = $2
       union all select 'database' from pg_database where datname = $2
       union all select 'a key of the store: ' || key from multitenancy.store where owner = $1
       union all select 'a job: ' || name || ' ' || state from multitenancy_jobs.job where group_id = $1
       union all select 'its row: ' || name from multitenancy.tenants
         where id = $1 and (name <> '' or metadata <> '{}' or domains <> '{}' or maintenance is not null)
       union all select 'rows of ' || relation from tenants_rows($1, $2) where relation <> 'fenced'`,
      [id, locator],
    )
    expect(
      rows.map(({ what }) => what),
      `remaining data of ${id}`,
    ).toEqual([])
  }, FOLLOWS_WITHIN_MS)
}

/** SQL function of `nothingIsLeft` that searches every table of Tenantry with rows of tenants. */
export const tenantsRows = `
  create function tenants_rows(id text, locator text) returns table (relation text) language plpgsql as $function$
    declare candidate regclass; named name; found boolean;
    begin
      for candidate, named in select attrelid::regclass, attname from pg_attribute join pg_class on pg_class.oid = attrelid
        where relkind in ('r', 'p') and relname not like 'audit_%' and not attisdropped and (
          attname = 'tenant_id' and relnamespace in ('multitenancy'::regnamespace, to_regnamespace('tenantry_rows'))
          or attname in ('tenant', 'locator') and relnamespace = to_regnamespace('tenantry'))
          and (relname, attname) <> ('row_locations', 'tenant')
      loop
        execute format('select exists (select from %s where %I = any ($1))', candidate, named)
          into found using array[id, locator];
        if found then relation := candidate::text; return next; end if;
      end loop;
    end $function$`
