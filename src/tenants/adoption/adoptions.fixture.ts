/** A host that adopts schemas of a former application, with the table of its first migration. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import type { TenantMigration } from '../isolation/migrations.ts'

export const NOTES: TenantMigration = {
  name: '0001_notes',
  checksum: '1',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, body text, primary key (tenant_id, id))`,
}
export const TAGS: TenantMigration = {
  name: '0002_tags',
  checksum: '2',
  up: 'create table tags (tenant_id text not null default tenantry.current_tenant(), tag text not null, primary key (tenant_id, tag))',
  down: 'drop table tags',
}

/** The role of the former application. `drop` it after its databases. */
export async function formerRole(url: string): Promise<{ readonly role: string; drop(): Promise<void> }> {
  const role = `legacy_${randomBytes(4).toString('hex')}`
  const run = async (text: string) => {
    const server = new pg.Client({ connectionString: url })
    await server.connect()
    await server.query(text).finally(() => server.end())
  }
  await run(`create role ${role}`)
  return { role, drop: () => run(`drop role ${role}`) }
}

type Options = Parameters<typeof openTestEnvironment>[1]

/** A tenancy beside a former application, whose role may create schemas with the tables of the host. */
export async function openWithFormerRole(
  url: string,
  options: Options,
): Promise<{ readonly environment: TestEnvironment; readonly role: string; end(): Promise<void> }> {
  const { role, drop } = await formerRole(url)
  const environment = await openTestEnvironment(url, options)
  const { database } = environment.tenancy.kernel
  await database.sql(`do $$ begin execute format('grant create on database %I to ${role}', current_database()); end $$`)
  await environment.tenancy.tenants.storage.driver('schema-pg').inventory?.('main')
  await database.sql(`grant usage on schema tenantry to ${role}`)
  const end = async () => {
    await environment.end()
    await drop()
  }
  return { environment, role, end }
}
