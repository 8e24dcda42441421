/** A fence met during the suspension of its tenant: a request must not open storage that is about to be closed. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Deadline } from '../../kernel/base/deadline.ts'
import type { Database } from '../../kernel/database/database.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'

let environment: TestTenancy<[]>

beforeAll(async () => {
  const up = 'create table notes (id int primary key)'
  environment = await testTenancy(inject('postgresUrl'), { migrations: [{ name: '0001_notes', checksum: '', up }] })
  await installed(environment.tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(() => environment.end())

test('a request that meets a fence before the commit of the suspension does not lift it', async () => {
  const { tenants } = environment.tenancy
  const acme = await environment.tenancy.tenant('acme')
  const other = await environment.open()
  const fromElsewhere = await other.tenant('acme')
  const requests: Promise<unknown>[] = []
  await environment.tenancy.transaction(async () => {
    await tenants.suspend('acme')
    const uncommittedLocation = toLocation(await tenants.registry.row('acme'))
    expect(await tenants.storage.driver(uncommittedLocation.isolation).isFenced(uncommittedLocation)).toBe(true)
    requests.push(fromElsewhere.pool.query('select * from notes').catch((error: unknown) => error))
    await untilSomebodyWaits(other.kernel.database)
  })
  const [outcome] = await Promise.all(requests)
  expect(outcome).toMatchObject({ code: /^E_TENANT_(SUSPENDED|STORAGE_FENCED)$/ })
  const location = toLocation(await tenants.registry.row('acme'))
  expect(await tenants.storage.driver(location.isolation).isFenced(location)).toBe(true)
  await tenants.activate('acme')
  expect((await acme.pool.query('select * from notes')).rows).toEqual([])
})

test('an opening that several requests share continues after the deadline of the first one', async () => {
  const { tenants, kernel } = environment.tenancy
  const deadline = new Deadline(60_000, () => new Error('too late'))
  const requests: Promise<boolean>[] = []
  await kernel.database.transaction(async () => {
    await kernel.database.sql(`select from multitenancy.tenants where id = 'acme' for update`)
    const open = () => kernel.database.outside(() => tenants.fences.repair('acme'))
    const first = deadline.run(open)
    await untilSomebodyWaits((await environment.open()).kernel.database)
    requests.push(open())
    deadline.extend(-60_000)
    await expect(first).rejects.toThrow('too late')
  })
  expect(await Promise.all(requests)).toEqual([true])
})

/**
 * Resolves when a session waits for the row of the tenant.
 * @param outside a connection outside of the transaction: within it, the activity is a snapshot
 */
const untilSomebodyWaits = (outside: Database): Promise<void> =>
  eventually(async () => {
    const { rows } = await outside.sql(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and pid <> pg_backend_pid()`,
    )
    expect(rows).not.toEqual([])
  })
