import pg from 'pg'
import { describe, expect, inject, test } from 'vitest'
import { type CopyFixture, locationFor, openCopyFixture, withOwner } from '../copy/copy-storage.fixture.ts'
import { ONE_TENANT } from './sql.ts'

const UP = `create table notes (tenant_id text not null default tenantry.current_tenant(), id int, primary key (tenant_id, id));
  create function admitted_by_owner(text) returns text volatile security definer language plpgsql as $$ begin
    perform set_config('${ONE_TENANT}', $1, true);
    return tenantry.admitted_tenant(); end $$;
  create function read_by_owner(text) returns bigint volatile security definer language plpgsql as $$ begin
    perform set_config('${ONE_TENANT}', $1, true);
    return (select count(*) from tenantry_rows.notes where tenant_id = $1); end $$`

type Clients = Readonly<Record<'owner' | 'login' | 'superuser', pg.Client>>

/** SQLSTATE of a fence. */
const FENCED = 'TN001'

/** Uses an owner that is not a superuser: functions of a superuser would be rejected. */
async function withRows(work: (fixture: CopyFixture, clients: Clients, scopeRole: string) => Promise<void>) {
  await withOwner(inject('postgresUrl'), async (ownerUrl, role) => {
    const fixture = await openCopyFixture(inject('postgresUrl'), {
      migrations: [{ name: '0001', checksum: 'a', up: UP }],
      ownerUrl,
    })
    const { tenantUrl, url, scopeRole } = await fixture.installation.prepare()
    const [owner, login, superuser] = [url, tenantUrl, fixture.installation.url].map((one) => new pg.Client(one)) as [
      pg.Client,
      pg.Client,
      pg.Client,
    ]
    try {
      await Promise.all([owner, login, superuser].map((client) => client.connect()))
      await superuser.query(`do $$ begin
        grant ${scopeRole} to ${role};
        if current_setting('server_version_num')::int >= 160000 then execute 'grant ${scopeRole} to ${role} with set true'; end if; end $$`)
      const driver = fixture.drivers['rowscope-pg']
      for (const tenant of ['a', 'b']) {
        await driver.provision(locationFor(fixture, 'rowscope-pg', tenant))
        await driver.execute(locationFor(fixture, 'rowscope-pg', tenant), {
          text: 'insert into notes values (default, 1)',
        })
      }
      await driver.fence(locationFor(fixture, 'rowscope-pg', 'a'))
      await work(fixture, { owner, login, superuser }, scopeRole)
    } finally {
      await Promise.all([owner, login, superuser].map((client) => client.end()))
      await fixture.end()
    }
  })
}

const inScope = (tenant: string, role: string, oneTenant: string): string =>
  `begin; select set_config('app.tenant_id', '${tenant}', true), set_config('role', '${role}', true),
    set_config('search_path', 'tenantry_rows', true), set_config('${ONE_TENANT}', '${oneTenant}', true)`

describe('access past the fence of a tenant', () => {
  test('a session of the tenants’ login does not pass the fence, regardless of settings and functions of the owner', async () => {
    await withRows(async (_, { login }, scopeRole) => {
      for (const text of [
        'select from notes',
        'select tenantry.admitted_tenant()',
        `select admitted_by_owner('a')`,
        `select set_config('${ONE_TENANT}', 'a', false); select from notes`,
        `insert into notes values (default, 2)`,
      ]) {
        await login.query(inScope('a', scopeRole, 'a'))
        await expect(login.query(text), text).rejects.toMatchObject({ code: FENCED })
        await login.query('rollback')
      }
      await login.query(inScope('a', scopeRole, 'a'))
      // An owner with the rights of tenants' queries meets the fence; another one sees no rows.
      const reading = login.query(`select read_by_owner('a') as a, read_by_owner('b') as b`)
      expect([{ a: '0', b: '0' }, FENCED]).toContainEqual(
        await reading.then(
          ({ rows }) => rows[0],
          (error) => error.code,
        ),
      )
      await login.query('rollback')
    })
  })

  test('the owner that names the tenant passes the fence and sees only its rows', async () => {
    await withRows(async (_, { owner, superuser }, scopeRole) => {
      for (const client of [owner, superuser]) {
        for (const [named, outcome] of [
          ['a', 1],
          ['b', FENCED],
          ['', FENCED],
        ] as const) {
          await client.query(inScope('a', scopeRole, named))
          const reading = client.query('select id from notes')
          expect(
            await reading.then(
              ({ rowCount }) => rowCount,
              (error) => error.code,
            ),
          ).toBe(outcome)
          await client.query('rollback')
        }
      }
    })
  })
})
