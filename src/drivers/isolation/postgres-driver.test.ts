/** Tests tenants on a placement that this process does not configure. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { problemOf } from '../../http/problem.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

let elsewhere: TestDatabase
let opened: TestTenancy<[]>
/** Does not have the placement `closet`. */
let without: Tenancy

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  opened = await testTenancy(inject('postgresUrl'), { placements: { closet: { url: elsewhere.url } } })
  await installed(opened.tenancy, { id: 'acme', name: 'Acme', placement: 'closet' })
  without = await opened.open({ placements: {}, role: 'api' })
})
afterAll(async () => {
  await elsewhere.drop() // before the roles are dropped that have rights in it
  await opened.end()
})

test('tenants of an unknown placement are unavailable, and only the log contains its name', async () => {
  const { pool } = await without.tenant('acme')
  const error = await pool.query('select 1').catch((failure: unknown) => failure)
  expect(error).toMatchObject({
    code: 'E_DEPENDENCY_UNAVAILABLE',
    cause: { message: 'placement "closet" is not configured in this process' },
  })
  const problem = problemOf(error)
  expect(problem).toMatchObject({ status: 503, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } })
  expect(JSON.stringify(problem)).not.toContain('closet')
})

test('tenants of an unknown placement can be suspended, and a process that has the placement closes them', async () => {
  await installed(opened.tenancy, { id: 'globex', name: 'Globex', placement: 'closet' })
  expect((await without.tenants.suspend('globex')).tenant.status).toBe('suspended')
  const { storage, registry } = opened.tenancy.tenants
  const located = await registry.refresh('globex')
  if (!located) throw new Error('globex not found')
  const driver = storage.driver(located.location.isolation)
  await eventually(async () => expect(await driver.isFenced(located.location)).toBe(true), 20_000)
})
