/** Rights that a placement takes from PUBLIC, keeps, and gives back; and objects of tenants that must not stop the connections of all. */
import pg from 'pg'
import { describe, expect, inject, test, vi } from 'vitest'
import type { PublicRight, Repair } from '../../tenants/isolation.ts'
import { createInstallation, loginUrlOf, placeOf, provisioned } from './installation.fixture.ts'
import { auditOf, kinds, NOTES, openOn, useInstallation } from './public-rights.fixture.ts'

const TRUSTED_MS = 61_000

describe.each(kinds)('what a statement of one tenant leaves behind, %s', (kind) => {
  const here = useInstallation(kind, ['temporary', 'large-objects'])

  test('large objects and default privileges do not stop new connections; the doctor finds and removes them', async () => {
    await here.a.pool.query('select lo_create(0)')
    await here.a.pool.query('alter default privileges revoke execute on functions from public')
    await here.a.pool.query(
      `do $$ begin execute 'set local role none'; alter default privileges grant all on tables to public; end $$`,
    )
    await expectNewConnections()
    const strict = await openOn(here.installation, kind)
    const found = await auditOf(strict)
    expect(found.map(({ message }) => message)).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/(?<!_scope) has changed its default privileges/),
        expect.stringMatching(/_scope has changed its default privileges/),
        expect.stringMatching(/_scope owns large objects \(1\)/),
      ]),
    )
    for (const finding of found) {
      expect(finding).toMatchObject({ severity: 'warn', fixable: true, remedy: expect.stringMatching(/./) })
      await (finding.subject as Repair)()
    }
    expect(await auditOf(strict)).toEqual([])
    await here.installation.prepare()
    const again = await openOn(here.installation, kind, ['temporary', 'large-objects'])
    expect(await auditOf(again)).toEqual([])
  })

  test('objects in pg_temp of a session that goes on do not stop new connections', async () => {
    const placement = await here.installation.prepare()
    const { scopeRole } = placement
    const locator = placeOf(here.driver, 'a').locator
    const session = new pg.Client({
      connectionString: kind === 'database-pg' ? await loginUrlOf(placement, locator) : placement.tenantUrl,
    })
    await session.connect()
    await session.query(`set role ${scopeRole}; create temporary table t (n int); create type pg_temp.mood as enum ('sad');
      create function pg_temp.f() returns int language sql return 1`)
    await expectNewConnections()
    expect(await here.audit()).toEqual([])
    await session.end()
  })

  /** Made anew, and asked what they own, as a minute has passed since the last one was. */
  async function expectNewConnections(): Promise<void> {
    const both = () => Promise.all([here.a, here.b, here.a, here.b].map(({ pool }) => pool.connect()))
    for (const client of await both()) client.release(true)
    const now = performance.now.bind(performance)
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + TRUSTED_MS)
    const clients = await both()
    for (const client of clients) expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    for (const client of clients) client.release(true)
    clock.mockRestore()
  }
})

describe('the right of a placement', () => {
  test('comes back to PUBLIC where the configuration keeps it, and goes again', async () => {
    const installation = await createInstallation(inject('postgresUrl'), { migrations: [NOTES] })
    const may = async () => {
      const { rows } = await installation.database.sql(
        `select has_database_privilege(rolname, current_database(), 'temporary') as temporary, has_function_privilege(rolname, 'lo_create(oid)', 'execute') as "largeObjects",
          has_function_privilege(rolname, 'lo_import(text)', 'execute') as files from pg_roles where rolname = $1`,
        [(await installation.prepare()).scopeRole],
      )
      return rows[0]
    }
    const start = async (publicRights?: readonly PublicRight[]) =>
      provisioned(await openOn(installation, 'schema-pg', publicRights), 'a')
    await Promise.all([start(), start(), start()])
    expect(await may()).toEqual({ temporary: false, largeObjects: false, files: false })
    await start(['temporary', 'large-objects'])
    expect(await may()).toEqual({ temporary: true, largeObjects: true, files: false })
    await start(['temporary'])
    expect(await may()).toEqual({ temporary: true, largeObjects: false, files: false })
    await installation.end()
  })

  test('stays where the owner may not revoke it: the doctor prints the statements for an administrator', async () => {
    const name = `owner_${Math.random().toString(36).slice(2, 10)}`
    const installation = await createInstallation(inject('postgresUrl'), {
      ownerUrl: (url) => Object.assign(new URL(url), { username: name, password: 'p' }).href,
    })
    const { database } = installation
    await database.sql(`create role ${name} login createrole password 'p'`)
    await database.sql(`grant all on database ${new URL(installation.url).pathname.slice(1)} to ${name}`)
    await database.sql(
      `grant all on schema multitenancy to ${name}; grant all on all tables in schema multitenancy to ${name}`,
    )
    const driver = await openOn(installation, 'schema-pg')
    await provisioned(driver, 'acme')
    const statements: string[] = []
    for (const finding of await auditOf(driver)) {
      expect(finding).toMatchObject({ severity: 'warn' })
      expect(finding.fixable).toBeUndefined()
      statements.push(finding.remedy)
    }
    expect(statements).toHaveLength(4)
    expect(statements.join()).toContain(`grant pg_signal_backend to ${name}`)
    await database.sql(statements.join(';'))
    expect(await auditOf(driver)).toEqual([])
    await driver.stop()
    await database.sql(`drop owned by ${name}`)
    await installation.end()
  })
})
