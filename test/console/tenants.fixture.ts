/** Many tenants for lists: rows without storage. */
import type { Tenancy } from '../../src/tenancy/tenancy.ts'

/** Adds `Tenant 1` (`tenant-1`) to `Tenant {count}`, the last one the newest. */
export const addTenants = (tenancy: Tenancy, count: number) =>
  tenancy.kernel.database.sql(
    `insert into multitenancy.tenants
       (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at, activated_at)
     select 'tenant-' || i, 'Tenant ' || i, 'active', '{}', array[i || '.example'], 'schema-pg', 'main', 't1_tenant-' || i,
       now() - interval '1 day' + i * interval '1 second', now(), now()
     from generate_series(1, $1) i`,
    [count],
  )
