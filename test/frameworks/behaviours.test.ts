/** One table of behaviours, on every framework that runs in the process of the test. servers.slow.test.ts runs it on other servers. */
import { afterAll, beforeAll, describe, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import type { Host } from '../http/hosts.ts'
import { type Application, applicationOf, CONFIG } from './application.ts'
import { behaviours } from './behaviours.ts'
import { hosts } from './hosts.ts'

let world: TestTenancy<typeof CONFIG.satellites>
let application: Application
let count = 0

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), { ...CONFIG, store: memoryStore() })
  for (const id of ['acme', 'asleep']) await installed(world.tenancy, { id, name: id })
  await world.tenancy.tenants.suspend('asleep')
  application = applicationOf(world.tenancy)
})
afterAll(() => world.end())

describe.each(Object.entries(hosts))('%s', (_, open) => {
  let host: Host
  beforeAll(async () => {
    host = await open(application)
  })
  afterAll(() => host?.close())

  test.each(behaviours)('%s', async (_name, behaviour) => {
    const { tenancy } = world
    const { id } = await installed(tenancy, { id: `t-${++count}`, name: 'Tenant' })
    await behaviour({ origin: host.origin, tenancy, tenantId: id })
  })
})
