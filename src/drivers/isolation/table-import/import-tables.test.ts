/** Imports of tables by an owner that is not a superuser. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { IsolationDriver, StorageLocation } from '../../../tenants/isolation/driver.ts'
import { onServer } from '../../../testing/base/database.ts'
import { createInstallation, type Installation, locationOf, provisioned } from '../roles/installation.fixture.ts'
import { openOn } from '../roles/public-rights.fixture.ts'

const OWNER = `owner_${Math.random().toString(36).slice(2, 10)}`
const signal = new AbortController().signal

let installation: Installation
beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), {
    ownerUrl: (url) => Object.assign(new URL(url), { username: OWNER, password: 'p' }).href,
  })
  const { database, url } = installation
  await database.sql(`create role ${OWNER} login createrole createdb password 'p'`)
  await database.sql(`grant all on database ${new URL(url).pathname.slice(1)} to ${OWNER}`)
  await database.sql(
    `grant all on schema multitenancy to ${OWNER}; grant all on all tables in schema multitenancy to ${OWNER}`,
  )
})
afterAll(async () => {
  await installation.end()
  await onServer(inject('postgresUrl'), (server) => server.sql(`drop role ${OWNER}`))
})

async function importing(driver: IsolationDriver, location: StorageLocation, ...statements: readonly string[]) {
  let applied: readonly string[] = []
  await driver.importTables?.(
    location,
    async (tables) => {
      for (const text of statements) await tables.run(text)
    },
    {
      baseline: '0001_notes',
      signal,
      finish: async ({ migrations }, commit) => {
        applied = migrations
        await commit()
      },
    },
  )
  return applied
}

describe.each(['schema-pg', 'database-pg'] as const)('%s', (kind) => {
  test('gives the tables to the owner, and needs the right to create roles', async () => {
    const driver = await openOn(installation, kind)
    const { pool } = await provisioned(driver, kind)
    const location = locationOf(driver, kind)
    const text = [
      'create table notes (id int primary key check (id > 0))',
      'create view v as select * from notes',
      'insert into notes values (1), (2)',
    ]
    expect(await importing(driver, location, ...text)).toEqual(['0001_notes'])
    expect((await pool.query('select count(*)::int from v')).rows).toEqual([{ count: 2 }])
    const { rows } = await pool.query(
      `select pg_get_userbyid(relowner) as owner from pg_class where oid = 'notes'::regclass`,
    )
    expect(rows).toEqual([{ owner: OWNER }])
    await pool.query('delete from notes')
    const { database } = installation
    await database.sql(`alter role ${OWNER} nocreaterole`)
    await expect(importing(driver, location)).rejects.toMatchObject({
      code: 'E_NOT_SUPPORTED',
      message: expect.stringContaining('Grant it CREATEROLE'),
    })
    await database.sql(`alter role ${OWNER} createrole`)
    expect((await pool.query('select * from notes')).rows).toEqual([])
  })
})
