/** A restore uses another server if the tenant's server is unavailable, but not if it is busy. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startProxy, type Proxy as Way } from '../../../../test/support/proxy.ts'
import { openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import { createLogger } from '../../../kernel/base/logger.ts'
import { Database } from '../../../kernel/database/database.ts'
import { createTestDatabase, type TestDatabase } from '../../../testing/base/database.ts'
import { toLocation } from '../../registry/registry.ts'

let environment: TestEnvironment
let far: TestDatabase
let way: Way
beforeAll(async () => {
  far = await createTestDatabase(inject('postgresUrl'))
  way = await startProxy(far.url)
  environment = await openTestEnvironment(inject('postgresUrl'), {
    role: 'api',
    placements: { main: { connections: { max: 4 } }, far: { url: way.url, connections: { max: 4 } } },
  })
})
afterAll(async () => {
  await far.drop()
  await environment.end()
  await way.close()
})

const only = { isLast: true, signal: new AbortController().signal }
const backedUp = async (id: string) => {
  await environment.tenancy.tenants.create({ id, name: id, placement: 'far' })
  await environment.tenancy.tenants.installation.install(id, only)
  const { db } = await environment.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'first' }).execute()
  const backup = await environment.transfers.backups.create(id)
  await environment.transfers.work(backup.id, only)
  return backup.id
}
const restore = async (id: string, backupId: string) => {
  const { transfer } = await environment.transfers.backups.restore(id, { backupId, placement: 'main' })
  await environment.transfers.work(transfer.id, only)
  return environment.transfers.get(id, transfer.id)
}

test('a restore fails and keeps the tenant on its server when the server has sessions with an unknown login', async () => {
  const backupId = await backedUp('busy')
  const { tenantId, placement, locator } = toLocation(await environment.tenancy.tenants.registry.row('busy'))
  const { database } = environment.tenancy.kernel
  const logins = await database.sql(
    `select scope_role as "scopeRole" from multitenancy.placement_logins where placement = $1`,
    [placement],
  )
  const { scopeRole } = logins.rows[0]
  const login = `login_${randomBytes(6).toString('hex')}` // for example, from an earlier configuration
  await database.sql(`create role ${login} login password 'busy' in role "${scopeRole}"`)
  const url = new URL(far.url)
  url.username = login
  url.password = 'busy'
  const direct = new Database({ url: url.href, max: 1 }, createLogger({ level: 'silent' }))
  try {
    await direct.session(async (client) => {
      await client.query(
        `begin; set local app.tenant_id = 'busy'; set local role "${scopeRole}"; insert into ${locator}.notes (text) values ('late')`,
      )
      expect(await restore('busy', backupId)).toMatchObject({
        state: 'failed',
        failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
      })
      await client.query('commit')
    })
  } finally {
    await direct.close()
    await database.sql(`drop role ${login}`)
  }
  expect(await environment.tenancy.tenants.get(tenantId)).toMatchObject({ placement: 'far', status: 'active' })
  expect(await environment.notes('busy')).toEqual(['first', 'late'])
})

test('a restore uses another server when the server is unavailable, and closes the former storage after its return', async () => {
  const backupId = await backedUp('away')
  const left = toLocation(await environment.tenancy.tenants.registry.row('away'))
  await way.close()
  expect(await restore('away', backupId)).toMatchObject({ state: 'completed', failure: null })
  expect(await environment.notes('away')).toEqual(['first'])
  await way.open()
  await environment.tenancy.tenants.openStorage.close()
  expect(await environment.tenancy.tenants.storage.driver(left.isolation).isFenced(left)).toBe(true)
})
