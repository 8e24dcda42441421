/** An installation with database-pg and the tenants `a` and `b`. */
import { CompiledQuery, type Kysely } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import type { StorageHandle } from '../../tenants/handles/handle.ts'
import type { IsolationDriver, Placement } from '../../tenants/isolation/driver.ts'
import { databasePg } from './database-pg.ts'
import { createInstallation, type Installation, locationOf, provisioned } from './roles/installation.fixture.ts'

const CONNECTIONS = 3
export const NOTES = {
  name: '0001_notes',
  checksum: '1',
  up: `create table notes (
      tenant_id text not null default tenantry.current_tenant(), id int not null, owner text not null, primary key (tenant_id, id));
    create sequence numbers`,
  down: 'drop sequence numbers; drop table notes',
}
export const OWNERS = 'select owner from notes'

export function useDatabasePg() {
  const fixture = {} as {
    installation: Installation
    placement: Placement
    driver: IsolationDriver
    a: StorageHandle
    b: StorageHandle
  }
  beforeAll(async () => {
    const installation = await createInstallation(inject('postgresUrl'), {
      driver: () => databasePg(),
      migrations: [NOTES],
      connections: { max: CONNECTIONS, perTenant: CONNECTIONS },
    })
    fixture.installation = installation
    fixture.placement = await installation.prepare()
    fixture.driver = await installation.open(fixture.placement)
    fixture.a = await provisioned(fixture.driver, 'a')
    fixture.b = await provisioned(fixture.driver, 'b')
  })
  afterAll(() => fixture.installation?.end())

  const sql = async (text: string, values: unknown[] = []) =>
    (await fixture.installation.database.sql(text, values)).rows
  const locatorOf = (id: string) => locationOf(fixture.driver, id).locator
  return Object.assign(fixture, {
    sql,
    locatorOf,
    databases: (id: string) => sql('select datname from pg_database where datname like $1', [`%\\_${id}`]),
    sessions: (id: string) =>
      sql(`select pid, usename from pg_stat_activity where datname = $1 and backend_type = 'client backend'`, [
        locatorOf(id),
      ]),
    /** Provisions a tenant with one row. */
    async fresh(id: string): Promise<StorageHandle> {
      const handle = await provisioned(fixture.driver, id)
      await handle.pool.query(`insert into notes (id, owner) values (1, '${id}')`)
      return handle
    },
  })
}

export const raw = async (db: Kysely<any>, text: string) => (await db.executeQuery<any>(CompiledQuery.raw(text))).rows

export async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
