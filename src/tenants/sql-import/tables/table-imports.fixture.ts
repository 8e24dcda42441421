/** Imports of files with tables into tenants of each driver with separate storage. */
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { databasePg } from '../../../drivers/isolation/database-pg.ts'
import { withDatabase } from '../../../drivers/isolation/roles/login-clients.ts'
import { rowscopePg } from '../../../drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../../drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../../drivers/isolation/sqlite/driver.ts'
import { installed, type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import type { ImportTablesOptions } from './table-imports.ts'

export const BASELINE = '0001_notes'
const MIGRATIONS = [
  {
    name: BASELINE,
    checksum: '1',
    up: 'create table notes (id int primary key, body text); create view short as select id from notes; create sequence s; create type kind as enum ()',
  },
  { name: '0002_done', checksum: '2', up: 'alter table notes add column done bool default false' },
]

/** A dump whose table is that of the baseline. */
export const DUMP = `SET row_security = off;
CREATE TABLE public.notes (
    id integer NOT NULL,
    body text
);
ALTER TABLE public.notes OWNER TO app;
CREATE VIEW public.short AS SELECT notes.id FROM public.notes;
COPY public.notes (id, body) FROM stdin;
1	one
2	\\N
\\.

ALTER TABLE ONLY public.notes ADD CONSTRAINT notes_pkey PRIMARY KEY (id);
GRANT SELECT ON TABLE public.notes TO reader;
`

export interface ImportedTenant {
  readonly id: string
  run(
    text: string,
    options?: Partial<ImportTablesOptions>,
  ): ReturnType<TestTenancy<[]>['tenancy']['tenants']['tableImports']['run']>
  /** Runs a statement of the tenant. */
  ask(text: string): Promise<any[]>
  /** Runs statements of the owner, with the tenant's schema in the search path. */
  asOwner(text: string): Promise<any[]>
}

/** For one file. */
export function useTableImports() {
  let postgres: TestTenancy<[]>
  let count = 0
  beforeAll(async () => {
    postgres = await testTenancy(inject('postgresUrl'), {
      isolation: [schemaPg(), databasePg(), rowscopePg(), sqliteMemory()],
      migrations: MIGRATIONS,
    })
  })
  afterAll(() => postgres?.end())

  return {
    get postgres() {
      return postgres
    },
    /** A new tenant. */
    async tenant(isolation: string): Promise<ImportedTenant> {
      const id = `tenant-${count++}`
      const { tenancy, url } = postgres
      await installed(tenancy, { id, name: id, isolation })
      const { locator } = await tenancy.tenants.registry.row(id)
      return {
        id,
        run: (text, options) =>
          tenancy.tenants.tableImports.run(id, [Buffer.from(text)] as never, {
            baseline: BASELINE,
            signal: new AbortController().signal,
            ...options,
          }),
        ask: async (text) => (await (await tenancy.tenant(id)).pool.query(text)).rows,
        async asOwner(text) {
          const [database, schema] = isolation === 'schema-pg' ? [url, locator] : [withDatabase(url, locator), 'tenant']
          const client = new pg.Client({ connectionString: database })
          await client.connect()
          try {
            await client.query(`set search_path = ${pg.escapeIdentifier(schema)}`)
            return (await client.query(text)).rows
          } finally {
            await client.end()
          }
        },
      }
    },
  }
}
