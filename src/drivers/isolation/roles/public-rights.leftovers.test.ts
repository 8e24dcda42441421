/** Tests, on each driver, that objects of one tenant do not stop the connections of all tenants. */
import pg from 'pg'
import { describe, expect, test, vi } from 'vitest'
import type { Repair } from '../../../tenants/isolation/driver.ts'
import { locationOf, loginUrlOf } from './installation.fixture.ts'
import { auditOf, kinds, openOn, useInstallation } from './public-rights.fixture.ts'

const TRUSTED_MS = 61_000

describe.each(kinds)('objects left by a statement of one tenant, %s', (kind) => {
  const here = useInstallation(kind, ['temporary', 'large-objects'])

  test('large objects and default privileges do not stop new connections; the doctor reports and removes them', async () => {
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

  test('objects in pg_temp of an open session do not stop new connections', async () => {
    const placement = await here.installation.prepare()
    const { scopeRole } = placement
    const locator = locationOf(here.driver, 'a').locator
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

  /** Opens new connections after a minute, so that their login is checked again. */
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
