/** A tenancy that the doctor examines: each test starts without tenants, storage and migration runs. */
import { afterAll, afterEach, beforeAll, inject, onTestFinished } from 'vitest'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

export const NOTES = {
  name: '0001_notes',
  checksum: '1',
  up: 'create table notes (owner text)',
  down: 'drop table notes',
}

export const checks = async ({ doctor }: Pick<Tenancy, 'doctor'>) => (await doctor.examine()).checks

export const make = async ({ tenants }: Tenancy, id: string, more: object = {}) => {
  await tenants.create({ id, name: id, ...more })
  await tenants.installation.install(id, { isLast: true })
}

/** Once per test file. */
export function useTenancy() {
  const clock = fakeClock()
  let shared: TestTenancy<[]>

  const sql = async (text: string, values: unknown[] = []) =>
    (await shared.tenancy.kernel.database.sql(text, values)).rows

  beforeAll(async () => {
    shared = await testTenancy(inject('postgresUrl'), { role: 'api', clock, migrations: [NOTES] })
  })
  afterEach(() =>
    sql(`
      do $$ declare one text; begin
        for one in select quote_ident(nspname) from pg_namespace where nspname like 't1_%' loop
          execute 'drop schema ' || one || ' cascade';
        end loop;
        truncate multitenancy.tenants, multitenancy.migration_runs cascade;
        if to_regclass('tenantry.migrations') is not null then truncate tenantry.migrations; end if;
      end $$`),
  )
  afterAll(() => shared?.end())

  return {
    clock,
    sql,
    get tenancy() {
      return shared.tenancy
    },
    get url() {
      return shared.url
    },
    /** Another tenancy on the same database, until the end of the test. */
    async open(options: Partial<TenancyConfig<[]>>): Promise<Tenancy> {
      const other = await shared.open(options)
      onTestFinished(() => other.stop())
      return other
    },
  }
}
