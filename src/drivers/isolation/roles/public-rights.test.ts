/** Tests, on each driver, each way in which SQL of one tenant may affect other tenants apart from their rows. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sqlState } from '../../../kernel/database/database.ts'
import type { Repair } from '../../../tenants/isolation/driver.ts'
import { type Environment, WAYS } from '../proof/ways.fixture.ts'
import { locationOf, loginUrlOf } from './installation.fixture.ts'
import { withDatabase } from './login-clients.ts'
import { kinds, useInstallation } from './public-rights.fixture.ts'

const DENIED = '42501'

const COLUMN = { 'schema-pg': 0, 'rowscope-pg': 1, 'database-pg': 2 } as const

describe.each(kinds)('SQL of one tenant, %s', (kind) => {
  const here = useInstallation(kind)
  let environment: Environment
  beforeAll(async () => {
    const placement = await here.installation.prepare()
    const locator = locationOf(here.driver, 'b').locator
    const login = new pg.Client({
      connectionString: kind === 'database-pg' ? await loginUrlOf(placement, locator) : placement.tenantUrl,
    })
    await login.connect()
    environment = { a: here.a, b: here.b, login }
  })
  afterAll(() => environment.login.end())

  test.each(WAYS)('$name', async ({ verdicts, statements, isNoticed }) => {
    const verdict = verdicts[COLUMN[kind]]
    for (const text of statements) {
      const state = await here.a.pool.query(text).then(
        () => 'done',
        (error) => sqlState(error),
      )
      expect({ text, state }).toEqual({ text, state: verdict === 'rejected' ? DENIED : 'done' })
    }
    if (isNoticed) expect(await isNoticed(environment)).toBe(verdict === 'remaining risk')
    expect((await here.b.pool.query('select owner from notes')).rows).toEqual([{ owner: 'b' }])
  })

  test('dblink is rejected if its extension is installed', async () => {
    const url =
      kind === 'database-pg'
        ? withDatabase(here.installation.url, locationOf(here.driver, 'a').locator)
        : here.installation.url
    const owner = new pg.Client({ connectionString: url })
    await owner.connect()
    await owner.query(
      'create schema remote; grant usage on schema remote to public; create extension dblink schema remote',
    )
    for (const finding of await here.audit()) await (finding.subject as Repair)()
    await expect(here.a.pool.query(`select remote.dblink_connect('dbname=postgres')`)).rejects.toMatchObject({
      code: DENIED,
    })
    expect(await here.audit()).toEqual([])
    await owner.query('drop extension dblink; drop schema remote')
    await owner.end()
  })
})
