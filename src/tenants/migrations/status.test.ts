/** Plans that query storages with an unavailable server. */
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { createTestDatabase, type TestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'

const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (body text)' }
const TAGS = { name: '0002_tags', checksum: '2', up: 'create table tags (name text)' }
const FAR = Array.from({ length: 20 }, (_, index) => `far-${String(index).padStart(2, '0')}`)
const UNREACHABLE = {
  code: 'E_DEPENDENCY_UNAVAILABLE',
  message: 'The database server of the placement "elsewhere" is unavailable.',
}

let elsewhere: TestDatabase
let opened: TestTenancy<[]>
const asked: string[] = []

beforeAll(async () => {
  elsewhere = await createTestDatabase(inject('postgresUrl'))
  const placements = { elsewhere: { url: elsewhere.url } }
  opened = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES], placements })
  const { tenants } = opened.tenancy
  for (const id of ['near', ...FAR]) {
    await tenants.create({ id, name: id, placement: id === 'near' ? 'main' : 'elsewhere' })
    await tenants.installation.install(id, { isLast: true })
  }
  await opened.tenancy.kernel.database.sql(`update multitenancy.tenants set schema_version = ''`)
})
afterAll(async () => {
  await elsewhere.drop() // before the roles that have rights in it
  await opened.end()
})
beforeEach(() => {
  asked.splice(0)
})

/** A tenancy that records the tenants whose storage it queries. */
const open = (placements: Record<string, { url: string }>): Promise<Tenancy> => {
  const driver = schemaPg()
  const counting = {
    ...driver,
    applied: (location: Parameters<typeof driver.applied>[0]) => {
      asked.push(location.tenantId)
      return driver.applied(location)
    },
  }
  return opened.open({ migrations: [NOTES, TAGS], isolation: [counting], placements })
}

const plans = [
  ['a run', {}, { near: ['0002_tags'] }],
  ['a run that queries every storage', { verify: true }, { near: ['0002_tags'] }],
  ['a rollback', { steps: 1 }, { near: ['0001_notes'] }],
] as const

test.each(plans)(
  'a plan of %s has an error for the tenants of an unavailable server, and plans the others',
  async (_, options, { near }) => {
    const { status } = (await open({ elsewhere: { url: unreachableUrl(elsewhere.url) } })).tenants.migrations
    expect(await status.plan(options)).toEqual([
      ...FAR.map((tenantId) => ({ tenantId, migrations: [], error: UNREACHABLE })),
      { tenantId: 'near', migrations: near, error: null },
    ])
    expect(asked.filter((id) => id !== 'near').length).toBeLessThan(FAR.length / 2)
    await expect(status.ofTenant('far-00')).rejects.toMatchObject(UNREACHABLE)
    expect((await status.summary()).versions).toMatchObject([{ isKnown: false }])
  },
)

test('the tenants of a server that is available again are planned like all others', async () => {
  const planned = await (await open({ elsewhere: { url: elsewhere.url } })).tenants.migrations.status.plan()
  expect(planned).toEqual([...FAR, 'near'].map((tenantId) => ({ tenantId, migrations: ['0002_tags'], error: null })))
})
