import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { tables } from '../tenant/tables.ts'
import { installationId } from './installation-id.ts'

const log = createLogger({ level: 'silent' })

test('ten processes that start concurrently share one permanent installation id', async () => {
  const created = await createTestDatabase(inject('postgresUrl'))
  const processes = Array.from({ length: 10 }, () => new Database({ url: created.url, max: 1 }, log))
  const [first] = processes as [Database]
  await migrate(first, [{ part: 'tenants', migrations: tables }])
  await Promise.all(processes.map((database) => database.sql('select 1'))) // connected, so that all start together
  const ids = await Promise.all(processes.map(installationId))
  expect(ids[0]).toMatch(/^[0-9a-z]{6}$/)
  expect(ids).toEqual(Array(10).fill(ids[0]))
  expect(await installationId(first)).toBe(ids[0])
  const second = `insert into multitenancy.installation values (false, 'second')`
  await expect(first.sql(second)).rejects.toMatchObject({ code: '23514' })
  await Promise.all(processes.map((database) => database.close()))
  await created.drop()
})

let opened: TestTenancy<[]>
let elsewhere: TestDatabase
beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', isolation: [databasePg()] })
})
afterAll(async () => {
  await Promise.all(opened.opened().map((one) => one.stop()))
  await elsewhere.drop()
  await opened.end()
})

test('the doctor recognizes databases created before a placement was added', async () => {
  const { tenants } = opened.tenancy
  await tenants.create({ id: 'acme', name: 'Acme' })
  await tenants.installation.install('acme', { isLast: true })
  const driver = tenants.storage.driver('database-pg')
  const locator = driver.locator('unknown', 1)
  await driver.provision({ tenantId: 'unknown', isolation: driver.name, placement: 'main', locator, epoch: 1 })
  const grown = await opened.open({ isolation: [databasePg()], placements: { eu: { url: elsewhere.url } } })
  const { checks } = await grown.doctor.examine()
  expect(checks.filter(({ name }) => name === 'storage')).toMatchObject([
    { code: 'storage.left-over', message: expect.stringContaining(locator) },
  ])
})
