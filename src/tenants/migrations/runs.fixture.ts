/** Tenants with the migrations of one release, and other releases of the host on the same database. */
import { afterAll, inject, onTestFinished } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { TenantMigration } from '../isolation/migrations.ts'

export const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: 'create table notes (body text)',
  down: 'drop table notes',
}
export const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: 'create table tags (name text)',
  down: 'drop table tags',
}
export const DAYS: TenantMigration = {
  name: '0003_days',
  checksum: '3',
  up: 'alter table notes add day date',
  down: 'alter table notes drop day',
}
export const RELEASED = [NOTES, TAGS, DAYS]
const IDS = ['t-0', 't-1', 't-2', 't-3', 't-4', 't-5', 't-6', 't-7', 't-8', 't-9']

export async function install({ tenants }: Tenancy, id: string): Promise<void> {
  await tenants.create({ id, name: id })
  await tenants.installation.install(id, { isLast: true })
}

export const pendingOf = async ({ tenants }: Tenancy) =>
  (await tenants.migrations.status.plan()).map(({ tenantId }) => tenantId)

async function make(migrations: readonly TenantMigration[], ids: readonly string[]): Promise<TestTenancy<[]>> {
  const made = await testTenancy(inject('postgresUrl'), { role: 'api', migrations })
  await Promise.all(ids.map((id) => install(made.tenancy, id)))
  return made
}

/** One database for a test file. */
export function useReleases() {
  let opened: TestTenancy<[]>
  /** Shared by tests that leave each tenant with the released migrations. */
  let shared: TestTenancy<[]> | undefined
  afterAll(() => shared?.end())

  const sql = async (text: string, values?: unknown[]) => (await opened.tenancy.kernel.database.sql(text, values)).rows

  return {
    sql,
    get opened() {
      return opened
    },
    /** A tenancy of one test, whose tenants have these migrations. */
    async start(migrations: readonly TenantMigration[], ...ids: string[]): Promise<void> {
      opened = await make(migrations, ids)
      onTestFinished(opened.end)
    },
    /** The tenancy of all tests of the file, with ten tenants that have the released migrations. */
    async startShared(): Promise<void> {
      shared ??= await make(RELEASED, IDS)
      opened = shared
    },
    tablesOf: async (id: string): Promise<string[]> =>
      (await sql('select tablename as name from pg_tables where schemaname = $1 order by 1', [`t1_${id}`])).map(
        ({ name }) => name,
      ),
    /** The tenancy of another release of the host. */
    async release(
      migrations: readonly TenantMigration[],
      work: (release: Tenancy, published: Recorded) => Promise<void>,
    ): Promise<void> {
      const tenancy = await opened.open({ migrations })
      try {
        await work(tenancy, recorded(tenancy))
      } finally {
        await tenancy.stop()
      }
    },
  }
}
