/** Tests that settings which a tenant stores for its login apply to no other tenant's session. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../../tenants/isolation/driver.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../../../testing/base/subject.ts'
import { raw } from '../../../testing/leak/operations.ts'
import { openSubject } from '../proof/subject.fixture.ts'
import { LEFT } from './session-settings.ts'

/** SQL of a tenant: changes each setting of the login that an ordinary role may set. */
const HOSTILE = `do $$ declare one record; begin
  set local role none;
  for one in select name, case vartype
      when 'bool' then case setting when 'on' then 'off' else 'on' end
      when 'enum' then (select value from unnest(enumvals) value where value <> setting limit 1)
      when 'string' then case name when 'TimeZone' then 'Asia/Tokyo' when 'DateStyle' then 'German' when 'timezone_abbreviations' then 'India'
        when 'local_preload_libraries' then 'nowhere' when 'search_path' then 'public' else 'pg_catalog.simple' end
      else case setting when min_val then max_val else min_val end end as value
    from pg_settings where context = 'user' and name not like 'transaction%' loop
    continue when one.value is null; -- a setting that has one value
    begin
      execute format('alter role %I set %I = %L', session_user, one.name, one.value);
    exception when invalid_parameter_value or insufficient_privilege or undefined_object then null;
    end;
  end loop;
end $$`

/** Settings that the session took from the role. */
const TAKEN_OVER = `select name from pg_settings where source in ('user', 'database user') order by name`

/** @param kinds of drivers on PostgreSQL */
export function sessionSettings(kinds: readonly string[]): void {
  describe.each(kinds)('settings of tenant sessions, %s', (kind) => {
    let subject: Subject
    let first: IsolationDriver
    let a: StorageHandle
    let login: string

    beforeAll(async () => {
      subject = await openSubject(inject('postgresUrl'), kind)
      first = await subject.open(proofMigrations('postgres'))
      a = await provisionedIn(subject, first, 'a')
      const [{ login: name, scope }] = await raw(a.db, 'select session_user as login, current_user as scope')
      login = name
      await provisionedIn(subject, first, 'b')
      await raw(a.db, HOSTILE)
      await raw(a.db, `do $$ begin set local role none; alter role current_user set role = ${scope}; end $$`)
    })
    afterAll(() => subject?.close())

    test('a session has the server’s settings, regardless of values that a tenant stored for the login', async () => {
      const query = vi.spyOn(pg.Client.prototype, 'query')
      const other = await subject.open(proofMigrations('postgres'))
      // With own logins, only the sessions of the same tenant could start with the settings.
      const b = directHandle(other, locationIn(subject, other, kind.startsWith('database-pg') ? 'a' : 'b'))
      const left = Object.keys(LEFT)
      const taken = (await raw(b.db, TAKEN_OVER)).map(({ name }) => name)
      expect(taken.filter((name) => !left.includes(name))).toEqual([])
      expect(taken.length).toBeGreaterThan(0) // The statement above had an effect.
      expect(await raw(b.db, `select length('\\') as one, '2026-12-31'::date::text as day`)).toEqual([
        { one: 1, day: '2026-12-31' },
      ])
      await b.db.insertInto('items').values({ id: 1, owner: 'of b' }).execute()
      const sessions = new Set(query.mock.contexts.filter(({ user }: any) => user === login) as pg.Client[])
      expect(sessions.size).toBeGreaterThan(0)
      for (const session of sessions) {
        const { rows } = await session.query(
          `select current_user as role, current_setting('app.tenant_id') as tenant, current_setting('search_path') as path`,
        )
        expect(rows).toEqual([{ role: login, tenant: '', path: 'pg_catalog' }])
      }
      await b.db.deleteFrom('items').execute()
    })

    test('the settings of a session are the same after a tenant resets all of them', async () => {
      await raw(a.db, 'reset all')
      expect(await raw(a.db, `select current_setting('standard_conforming_strings') as strings`)).toEqual([
        { strings: 'on' },
      ])
    })
  })
}
