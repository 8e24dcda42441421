/** Opens a tenancy with database-pg and the tenants acme and globex, for tests of their logins. */
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { createLogger } from '../../../kernel/base/logger.ts'
import type { EventOf } from '../../../kernel/events/events.ts'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import { TenantLoginRestored } from '../../../tenants/tenant/login-events.ts'
import { installed, type TestTenancy, testTenancy } from '../../../testing/base/tenancy.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { databasePg } from '../database-pg.ts'

const NOTES = {
  name: '0001_notes',
  checksum: '',
  up: `create table notes (tenant_id text not null default tenantry.current_tenant(), id int not null, primary key (tenant_id, id))`,
}
export const asLogin = (statement: string) => `do $$ begin set local role none; ${statement}; end $$`
export const WRITE_PASSWORD = asLogin(`execute format('alter role %I password ''x''', session_user)`)

/** For one test file. */
export function useOwnLogins() {
  const lines: string[] = []
  const fixture = {} as { opened: TestTenancy<[]>; acme: StorageHandle; globex: StorageHandle }
  const restored: EventOf<typeof TenantLoginRestored>[] = []
  const log = createLogger({ level: 'info', write: (line) => void lines.push(line) })
  const sql = async (text: string, values: unknown[] = []) =>
    (await fixture.opened.tenancy.kernel.database.sql(text, values)).rows
  const create = async (id: string) => {
    await installed(fixture.opened.tenancy, { id, name: id, isolation: 'database-pg' })
    return fixture.opened.tenancy.tenant(id)
  }
  beforeAll(async () => {
    const isolation = [databasePg()]
    fixture.opened = await testTenancy(inject('postgresUrl'), { isolation, migrations: [NOTES], logger: log })
    fixture.opened.tenancy.on(TenantLoginRestored, (event) => void restored.push(event))
    fixture.acme = await create('acme')
    fixture.globex = await create('globex')
    await raw(fixture.globex.db, 'insert into notes (id) values (1)')
  })
  afterAll(() => fixture.opened?.end())
  return Object.assign(fixture, {
    lines,
    restored,
    sql,
    create,
    locatorOf: async (id: string): Promise<string> =>
      (await sql('select locator from multitenancy.tenants where id = $1', [id]))[0].locator,
    /** Ends all sessions, so that the next statement needs a new one. */
    endSessions: async () =>
      void (await sql(
        `select pg_terminate_backend(pid, 5000) from pg_stat_activity
         where datname in (select locator from multitenancy.tenants)`,
      )),
    /** `$acme` stands for the login and the database of acme, `$login` and `$scope` for the roles of the placement. */
    async run(text: string, names: Readonly<Record<string, string>> = {}) {
      const [{ login, scope }] = await sql('select login, scope_role as scope from multitenancy.placement_logins')
      const tenants = await sql('select id, locator from multitenancy.tenants')
      const all = new Map<string, string>(Object.entries({ login, scope, ...names }))
      for (const { id, locator } of tenants) all.set(id, locator)
      return sql(text.replaceAll(/\$(\w+)/g, (_, name) => pg.escapeIdentifier(all.get(name) ?? '')))
    },
    findings: async (prove = false) =>
      (await fixture.opened.tenancy.doctor.examine({ prove })).checks.filter(({ severity }) => severity !== 'info'),
  })
}
