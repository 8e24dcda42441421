/** Opens the admin API of a new tenancy with every satellite. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { directory } from '../../src/drivers/archives/directory.ts'
import { databasePg } from '../../src/drivers/isolation/database-pg.ts'
import { rowscopePg } from '../../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { sqliteMemory } from '../../src/drivers/isolation/sqlite/driver.ts'
import type { RequestLimits } from '../../src/http/app.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { TenancyConfig } from '../../src/tenancy/tenancy.ts'
import type { TenantMigration } from '../../src/tenants/isolation/migrations.ts'
import { testTenancy } from '../../src/testing/base/tenancy.ts'
import { whole } from './all-cases.ts'
import { type Api, apiOf } from './calls.ts'
import { FAILING } from './row.ts'

const MIGRATIONS: readonly TenantMigration[] = [
  {
    name: '0001_notes',
    checksum: '1',
    up: `do $$ begin
           if current_schema() like '%${FAILING}%' then raise exception 'this tenant cannot be'; end if;
         end $$;
         create table notes (text text not null)`,
    down: 'drop table notes',
  },
  {
    name: '0002_stars',
    checksum: '2',
    up: 'alter table notes add stars integer',
    down: 'alter table notes drop stars',
  },
]

export interface Opened extends Api {
  readonly url: string
  /** Opens another API on the same database, as another process would. */
  open(options?: Partial<TenancyConfig>, requests?: RequestLimits): Promise<Api>
  end(): Promise<void>
}

/** @param postgresUrl server on which the database is created, from `inject('postgresUrl')` */
export async function openApi(postgresUrl: string, options: Partial<TenancyConfig> = {}): Promise<Opened> {
  const plans = {
    defaultPlan: 'free',
    definitions: { free: { limits: { exports: 10 } }, pro: { limits: { exports: 100 } } },
  }
  const path = await mkdtemp(join(tmpdir(), 'tenantry-contract-'))
  const tenantColumn = { name: 'org_id', type: 'text' } as const
  const isolation = () => [
    schemaPg(),
    databasePg(),
    sqliteMemory(),
    rowscopePg({ schema: 'shared_rows', tenantColumn }),
    { ...rowscopePg({ schema: 'released_rows', tenantColumn }), name: 'rows-to-release' },
  ] // a driver serves one tenancy
  const every = await whole()
  const { tenancy, url, open, end } = await testTenancy<readonly Satellite[]>(postgresUrl, {
    satellites: every.satellites,
    migrations: MIGRATIONS,
    plans,
    backups: { archives: directory({ path }) },
    isolation: isolation(),
    egress: { allowPrivateNetworks: true, allowHttp: true },
    ...options,
  })
  return {
    ...apiOf(tenancy),
    url,
    async end() {
      await end()
      await every.end()
      await rm(path, { recursive: true, force: true })
    },
    open: async (more, requests) => apiOf(await open({ isolation: isolation(), ...more }), requests),
  }
}
