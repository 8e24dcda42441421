/** Tests that the rights of an accepted login are checked again, because an administrator may change them later. */
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { createInstallation, type Installation, provisioned } from './installation.fixture.ts'

const A_WHILE_MS = 61_000

let installation: Installation

beforeAll(async () => {
  installation = await createInstallation(inject('postgresUrl'), { connections: { max: 2, perTenant: 2 } })
})
afterAll(() => installation.end())

test('a login that becomes a superuser after its first connection is rejected a minute later', async () => {
  const placement = await installation.prepare()
  const { pool } = await provisioned(await installation.open(placement), 'acme')
  const held = await pool.connect()
  await held.query('begin')
  await held.query('select 1')
  const login = new URL(placement.tenantUrl).username
  await installation.database.sql(`alter role ${login} superuser`)
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + A_WHILE_MS)
  await expect(pool.query('select 1')).rejects.toThrow('is a superuser')
  await installation.database.sql(`alter role ${login} nosuperuser`)
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  held.release()
})
