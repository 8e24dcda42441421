/** Creates a tenant with tables of every kind, and its copy. */
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import type { TenantCopy } from '../../../tenants/isolation/copy.ts'
import type { Imported, IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { provisioned } from '../roles/installation.fixture.ts'
import { type BufferedCopy, exported, never } from './copy.fixture.ts'
import { type CopyFixture, type Kind, locationFor, openCopyFixture } from './copy-storage.fixture.ts'
import { OLD_ROWS, RICH, ROWS } from './rich.fixture.ts'

/** Drivers with separate storage for each tenant. */
export const OWN: Kind[] = ['schema-pg', 'database-pg']

/** For one test file: a tenant `full` with rows in all tables, its copy, and a connection to examine imports. */
export function useImports() {
  let fixture: CopyFixture
  /** The superuser, in the database of the installation. */
  let client: pg.Client
  let copy: BufferedCopy

  beforeAll(async () => {
    fixture = await openCopyFixture(inject('postgresUrl'), { migrations: RICH })
    const driver = fixture.drivers['schema-pg']
    client = new pg.Client(fixture.installation.url)
    await client.connect()
    await provisioned(driver, 'full')
    await client.query('set search_path = t1_full')
    for (const text of ROWS) await client.query(text)
    await client.query(OLD_ROWS)
    await client.query('reset search_path')
    copy = await exported(driver, locationFor(fixture, 'schema-pg', 'full'))
  })
  afterAll(async () => {
    await client?.end()
    await fixture?.end()
  })

  const locationOf = (tenantId: string, kind: Kind = 'schema-pg') => locationFor(fixture, kind, tenantId)

  return {
    get fixture() {
      return fixture
    },
    get client() {
      return client
    },
    /** The copy of all tables. */
    get copy() {
      return copy
    },
    locationOf,
    /** Imports by the driver of the location, unless another one is given. */
    take: (
      to: StorageLocation,
      what: TenantCopy,
      by: IsolationDriver = fixture.drivers[to.isolation as Kind],
    ): Promise<Imported> => by.import(to, what, { signal: never() }),
    isThere: async (schema: string) =>
      (await client.query('select from pg_namespace where nspname = $1', [schema])).rowCount === 1,
    /** Sessions of the owner that are not idle, in the database of the client and in that of the tenant `unwanted`. */
    busy: async () =>
      (
        await client.query(
          `select pid, state, query from pg_stat_activity where application_name = 'tenantry ddl' and state <> 'idle'
            and (datname = current_database() or datname = $1)`,
          [locationOf('unwanted', 'database-pg').locator],
        )
      ).rows,
  }
}

/** All rows of the tables, read by the superuser. */
export const rowsIn = (of: CopyFixture, at: StorageLocation) =>
  of.reach(at, async (reader, schema) => {
    const { rows: tables } = await reader.query(
      `select relname from pg_class where relnamespace = $1::regnamespace and relkind in ('r', 'p', 'm') and not relispartition order by 1`,
      [pg.escapeIdentifier(schema)],
    )
    const all: Record<string, unknown[]> = {}
    for (const { relname } of tables) {
      const name = `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(relname)}`
      const { rows } = await reader.query(`select t::text as row from ${name} t order by 1`)
      all[relname] = rows.map(({ row }) => row)
    }
    return all
  })
