/** Missing fences on servers, one of which may be unavailable. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { createTestDatabase, type TestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { toLocation } from '../registry/registry.ts'
import { InstallTenant, RecoverFences } from '../tenant/job-types.ts'
import { lifecyclePart } from './parts.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int)' }
const IDS = { active: 'main', suspended: 'main', deleted: 'main', far: 'elsewhere' }

let elsewhere: TestDatabase
let opened: TestTenancy<[]>
let here: Tenancy
const lines: string[] = []

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  opened = await testTenancy(inject('postgresUrl'), {
    role: 'api',
    migrations: [NOTES],
    placements: { elsewhere: { url: elsewhere.url } },
    logger: createLogger({ level: 'warn', write: (line) => void lines.push(line) }),
  })
  here = opened.tenancy
  for (const [id, placement] of Object.entries(IDS)) {
    await here.tenants.create({ id, name: id, placement })
    await here.tenants.installation.install(id, { isLast: true })
    await here.kernel.jobs.cancel(InstallTenant, id) // would also close storage
  }
  await here.tenants.suspend('suspended')
  await here.tenants.suspend('far')
  await here.tenants.delete('deleted')
})
afterAll(async () => {
  await elsewhere.drop() // before the roles that own rights in it
  await opened.end()
})
afterEach(async () => {
  await here.tenants.openStorage.close()
  lines.splice(0)
})

const locationOf = async (id: string) => toLocation(await here.tenants.registry.row(id))
/** Opens all storage, as on a server that was unavailable during the transitions or was restored from a backup. */
const openAll = async () => {
  for (const id of Object.keys(IDS)) {
    const location = await locationOf(id)
    await here.tenants.storage.driver(location.isolation).unfence(location)
  }
}
const fenced = async () => {
  const ids: string[] = []
  for (const id of Object.keys(IDS)) {
    const location = await locationOf(id)
    if (await here.tenants.storage.driver(location.isolation).isFenced(location)) ids.push(id)
  }
  return ids
}
const logged = () => [
  ...new Set(lines.map((line) => JSON.parse(line)).map(({ tenantId, placement }) => tenantId ?? placement)),
]

test('closes open storage of closed tenants, in any number of concurrent calls', async () => {
  await openAll()
  expect(await fenced()).toEqual([])
  await Promise.all([1, 2, 3].map(() => here.tenants.openStorage.close()))
  expect(await fenced()).toEqual(['suspended', 'deleted', 'far'])
  lines.splice(0)
  await here.tenants.openStorage.close()
  expect(lines).toEqual([])
})

test('logs an unavailable server and closes storage on the other servers', async () => {
  await openAll()
  const cutOff = await opened.open({ placements: { elsewhere: { url: unreachableUrl(elsewhere.url) } } })
  await cutOff.tenants.openStorage.close()
  expect(logged().sort()).toEqual(['deleted', 'elsewhere', 'suspended'])
  expect(await fenced()).toEqual(['suspended', 'deleted'])
  await here.tenants.openStorage.close()
  expect(await fenced()).toEqual(['suspended', 'deleted', 'far'])
})

test('throws other failures after it has closed all other storage', async () => {
  await openAll()
  const driver = schemaPg()
  const broken = {
    ...driver,
    async fence(location: Parameters<typeof driver.fence>[0]) {
      if (location.tenantId === 'deleted') throw new Error('permission denied')
      return driver.fence(location)
    },
  }
  const { tenants } = await opened.open({ isolation: [broken] })
  await expect(tenants.openStorage.close()).rejects.toThrow('permission denied')
  expect(await fenced()).toEqual(['suspended', 'far'])
})

test('the hourly job closes open storage', async () => {
  await openAll()
  const worker = await opened.open({ role: 'worker' })
  await worker.kernel.jobs.send(RecoverFences, {})
  await eventually(async () => expect(await fenced()).toEqual(['suspended', 'deleted', 'far']), 20_000)
  expect(lifecyclePart.schedule?.find(({ type }) => type === RecoverFences)?.cron).toMatch(/^\d+ \* \* \* \*$/)
})
