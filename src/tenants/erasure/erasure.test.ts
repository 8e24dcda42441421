import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Erasures } from './erasures.ts'
import { EraseTenant } from './job-types.ts'

const signal = AbortSignal.timeout(120_000)
const request = (id: string) => ({ confirm: id, reason: 'request 4711' })

let opened: TestTenancy<[]>
let erasures: Erasures
let published: Recorded

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
  erasures = opened.tenancy.tenants.erasures
  published = recorded(opened.tenancy)
})
afterAll(() => opened.end())

const install = async (id: string) => {
  await opened.tenancy.tenants.create({ id, name: id })
  await opened.tenancy.tenants.installation.install(id, { isLast: true })
}
const sql = async (text: string, values: unknown[] = []) =>
  (await opened.tenancy.kernel.database.sql(text, values)).rows
const linesOf = async (id: string) =>
  Object.fromEntries(
    (await erasures.get(id)).report?.systems.map(({ system, kind, found, foundAfterwards }) => [
      `${system}: ${kind}`,
      [found, foundAfterwards],
    ]) ?? [],
  )

describe('an erasure', () => {
  test('removes the storage and all rows of an active tenant, and keeps its id and a signed report', async () => {
    const { tenants, kernel } = opened.tenancy
    await install('acme')
    await kernel.store.set('acme', 'key', 'value')
    await kernel.jobs.send(EraseTenant, { tenantId: 'other' }, { tenantId: 'acme', afterSeconds: 3_600 })
    published.of('acme')

    const asked = await erasures.request('acme', request('acme'))
    expect(asked).toMatchObject({
      state: 'pending',
      reason: 'request 4711',
      billing: 'keep',
      report: null,
      signature: null,
    })
    expect(published.of('acme')).toEqual(['tenants.delete', 'TenantDeleted', 'tenants.erase'])
    await erasures.work('acme', { signal })

    const done = await erasures.get('acme')
    expect(done).toMatchObject({
      state: 'completed',
      waitingFor: null,
      signature: { key: 'application', isValid: true },
      report: { tenantId: 'acme', reason: 'request 4711', requestedBy: { type: 'host' }, clones: [] },
    })
    expect(done.steps.map(({ name }) => name)).toEqual(['placements', 'store', 'archives', 'backoffice', 'jobs'])
    expect(await linesOf('acme')).toEqual({
      'placements: main: schema-pg t1_acme': [1, 0],
      'store: keys': [1, 0],
      'backoffice: tenants': [1, 0],
      'jobs: jobs': [expect.any(Number), 0],
    })
    expect(published.of('acme')).toEqual(['tenants.purge', 'TenantPurged', 'erasures.complete', 'TenantErased'])
    expect(published.events.at(-1)).toMatchObject({ name: 'TenantErased', kept: 0 })
    expect(await sql(`select from pg_namespace where nspname like '%acme%'`)).toEqual([])
    await expect(tenants.get('acme')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await expect(tenants.create({ id: 'acme', name: 'Again' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
  })
})
