/** Creates a tenancy on a new database, with tenants. */
import { schemaPg, type TenantMigration } from '../src/index.ts'
import { forEachConcurrent } from '../src/kernel/base/concurrency.ts'
import { createLogger } from '../src/kernel/base/logger.ts'
import { createTenancy, type Tenancy, type TenancyConfig } from '../src/tenancy/tenancy.ts'
import { createTestDatabase } from '../src/testing/base/database.ts'

export const TOKEN = 'a-token-for-the-benchmark'
export const APP_KEY = Buffer.alloc(32, 7).toString('base64')

/** Schema of a small product: five tables, each with a key, an index and a reference. */
export const FIVE_TABLES = ['accounts', 'projects', 'tasks', 'comments', 'files']
  .map(
    (table, index, all) => `create table ${table} (
      id bigint generated always as identity primary key,
      ${index > 0 ? `parent_id bigint references ${all[index - 1]},` : ''}
      name text not null, created_at timestamptz not null default now());
    create index on ${table} (created_at);`,
  )
  .join('\n')

export const migrations: readonly TenantMigration[] = [{ name: '0001_five_tables', checksum: 'bench', up: FIVE_TABLES }]

const INSTALLED_AT_ONCE = 8

/** Opens a tenancy with schema-pg and five tables, unless the options differ. */
export const openTenancy = (url: string, options: Partial<TenancyConfig> = {}): Promise<Tenancy> =>
  createTenancy({
    database: { url },
    appKey: APP_KEY,
    isolation: [schemaPg()],
    migrations,
    logger: createLogger({ level: 'error' }),
    ...options,
  })

export async function withTenancy<T>(
  postgresUrl: string,
  work: (tenancy: Tenancy, url: string) => Promise<T>,
  options: Partial<TenancyConfig> = {},
): Promise<T> {
  const { url, drop } = await createTestDatabase(postgresUrl)
  const tenancy = await openTenancy(url, options)
  try {
    return await work(tenancy, url)
  } finally {
    await dropDatabases(tenancy)
    await tenancy.stop()
    await drop()
  }
}

/** Drops the databases of tenants, which remain after the tenancy's database is dropped. */
async function dropDatabases({ tenants }: Tenancy): Promise<void> {
  for (const driver of tenants.storage.drivers) {
    if (driver.capabilities.reach !== 'own database') continue
    for (const { locator } of (await driver.inventory?.('main')) ?? []) {
      await driver.drop({ tenantId: locator, isolation: driver.name, placement: 'main', locator, epoch: 1 })
    }
  }
}

/** Creates tenants and waits until they are active. */
export async function installAll({ tenants }: Tenancy, ids: readonly string[]): Promise<void> {
  await forEachConcurrent(ids, INSTALLED_AT_ONCE, async (id) => {
    await tenants.create({ id, name: id })
    const { status, failure } = await tenants.waitUntilInstalled(id, AbortSignal.timeout(120_000))
    if (status !== 'active') throw new Error(`Tenant "${id}" is ${status}: ${failure?.message ?? 'timed out'}`)
  })
}

/** Inserts tenants into the registry without storage, for lists, reads and counts. */
export async function fillRegistry(tenancy: Tenancy, count: number): Promise<void> {
  await tenancy.kernel.database.sql(
    `insert into multitenancy.tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at)
     select 'tenant-' || n, 'Tenant ' || n, (array['active','active','active','suspended'])[1 + n % 4], '{"plan":"free"}',
       array['tenant-' || n || '.example.com'], 'schema-pg', 'main', 't1_tenant-' || n,
       now() - n * interval '1 second', now()
     from generate_series(1, $1) as n on conflict do nothing`,
    [count],
  )
  await tenancy.kernel.database.sql('vacuum analyze multitenancy.tenants')
}
