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

  test('is rejected without the id as confirmation, and for an unknown tenant', async () => {
    await install('careful')
    await expect(erasures.request('careful', { ...request('careful'), confirm: 'other' })).rejects.toMatchObject({
      code: 'E_CONFIRMATION_MISMATCH',
      status: 422,
    })
    await expect(erasures.request('careful', { ...request('careful'), reason: ' ' })).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
    })
    expect((await opened.tenancy.tenants.get('careful')).status).toBe('active')
    await expect(erasures.get('careful')).rejects.toMatchObject({ code: 'E_ERASURE_NOT_FOUND', status: 404 })
    await expect(erasures.request('unknown', request('unknown'))).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await expect(erasures.get('unknown')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  })

  test('excludes restore, clone, move, backup and purge of the tenant', async () => {
    const { tenants } = opened.tenancy
    await install('closed')
    await erasures.request('closed', request('closed'))
    const attempts = {
      restore: () => tenants.restore('closed'),
      activate: () => tenants.activate('closed'),
      clone: () => tenants.transfers.clone('closed', { name: 'Copy' }),
      move: () => tenants.transfers.move('closed', { isolation: 'schema-pg' }),
      update: () => tenants.update('closed', { name: 'Other' }),
    }
    for (const [name, attempt] of Object.entries(attempts)) {
      await expect(attempt(), name).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    }
    expect(await tenants.installation.purge('closed')).toBe(false)
    expect(await Array.fromAsync(tenants.installation.expired())).not.toContain('closed')
    expect(await sql(`select from pg_namespace where nspname = 't1_closed'`)).toHaveLength(1)
  })

  test('leaves the rows to it if it is requested during a purge', async () => {
    const { tenants } = opened.tenancy
    await install('racing')
    await erasures.request('racing', request('racing'))
    await tenants.installation.purgeRows('racing', 'purge')
    expect(await sql('select from multitenancy.tenants where id = $1 and purged_at is null', ['racing'])).toHaveLength(
      1,
    )
    await erasures.work('racing', { signal })
    expect((await erasures.get('racing')).state).toBe('completed')
  })

  test.each(['provisioning', 'failed', 'suspended', 'deleted', 'purged'])(
    'succeeds for a tenant that is %s',
    async (status) => {
      const { tenants, kernel } = opened.tenancy
      const id = `was-${status}`
      if (status === 'provisioning') await tenants.create({ id, name: id })
      else await install(id)
      if (status === 'failed')
        await kernel.database.sql(`update multitenancy.tenants set status = 'failed' where id = $1`, [id])
      if (status === 'suspended') await tenants.suspend(id)
      if (status === 'deleted' || status === 'purged') await tenants.delete(id)
      if (status === 'purged') {
        await kernel.database.sql('update multitenancy.tenants set purge_at = created_at where id = $1', [id])
        expect(await tenants.installation.purge(id)).toBe(true)
      }
      await kernel.store.set(id, 'late', 'value')
      await erasures.request(id, request(id))
      await erasures.work(id, { signal })
      expect(await erasures.get(id)).toMatchObject({ state: 'completed', signature: { isValid: true } })
      expect((await linesOf(id))['store: keys']).toEqual([1, 0])
      expect(await sql(`select from pg_namespace where nspname = $1`, [`t1_${id}`])).toEqual([])
      await expect(tenants.create({ id, name: 'Again' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    },
  )

  test('an installation that continues after the erasure creates no storage', async () => {
    const { tenants } = opened.tenancy
    await tenants.create({ id: 'late', name: 'late' })
    await erasures.request('late', request('late'))
    await Promise.all([erasures.work('late', { signal }), tenants.installation.install('late', { isLast: true })])
    await tenants.installation.install('late', { isLast: true })
    expect(await sql(`select from pg_namespace where nspname = 't1_late'`)).toEqual([])
  })

  test('concurrent requests and workers erase a tenant once', async () => {
    await install('twice')
    published.of('twice')
    const second = await opened.open({ role: 'api' })
    const both = [erasures, second.tenants.erasures]
    await Promise.all(both.flatMap((one) => [one, one]).map((one) => one.request('twice', request('twice'))))
    await Promise.all(both.map((one) => one.work('twice', { signal })))
    await Promise.all(both.map((one) => one.settled('twice', signal)))
    const words = published.of('twice')
    for (const word of ['tenants.erase', 'TenantPurged', 'erasures.complete']) {
      expect(words.filter((one) => one === word).length, word).toBeLessThanOrEqual(1)
    }
    expect(await sql(`select state from multitenancy.erasures where tenant_id = 'twice'`)).toEqual([
      { state: 'completed' },
    ])
    expect(await erasures.request('twice', request('twice'))).toMatchObject({ state: 'completed' })
    await expect(erasures.request('twice', { ...request('twice'), billing: 'delete' })).rejects.toMatchObject({
      code: 'E_TENANT_STATE',
    })
    await second.stop()
  })

  test('two tenants can be erased concurrently', async () => {
    const ids = ['left', 'right']
    for (const id of ids) await install(id)
    await Promise.all(ids.map((id) => erasures.request(id, request(id))))
    await Promise.all(ids.map((id) => erasures.work(id, { signal })))
    for (const id of ids) expect((await erasures.get(id)).state).toBe('completed')
  })

  test('removes data that arrives during its last search', async () => {
    const { kernel } = opened.tenancy
    await install('busy')
    await erasures.request('busy', request('busy'))
    const onStep = (name: string, state: string) =>
      name === 'jobs' && state === 'removed' && kernel.store.set('busy', 'late', 'value')
    await erasures.work('busy', { signal, onStep })
    expect((await erasures.get('busy')).state).toBe('completed')
    expect(await kernel.store.count('busy')).toBe(0)
  })

  test('finds storage of the tenant that the registry does not know', async () => {
    await install('strange')
    await sql('update multitenancy.tenants set last_epoch = 3 where id = $1', ['strange'])
    const driver = opened.tenancy.tenants.storage.driver('schema-pg')
    const location = { tenantId: 'strange', isolation: 'schema-pg', placement: 'main', locator: 't2_strange', epoch: 2 }
    await driver.provision(location)
    await erasures.request('strange', request('strange'))
    await erasures.work('strange', { signal })
    const { state, waitingFor } = await erasures.get('strange')
    expect({ state, waitingFor }).toEqual({
      state: 'pending',
      waitingFor: 'the removal of main: schema-pg t2_strange (placements)',
    })
    await driver.drop(location)
    await erasures.work('strange', { signal })
    expect((await erasures.get('strange')).state).toBe('completed')
  })

  test('detects a changed report by its signature', async () => {
    await install('forged')
    await erasures.request('forged', request('forged'))
    await erasures.work('forged', { signal })
    await sql(`update multitenancy.erasures set report = replace(report, '4711', '4712') where tenant_id = 'forged'`)
    expect((await erasures.get('forged')).signature).toMatchObject({ isValid: false })
  })

  test('is continued by the job of every minute', async () => {
    await install('waiting')
    await erasures.request('waiting', request('waiting'))
    await opened.tenancy.kernel.jobs.cancel(EraseTenant, 'waiting')
    await erasures.recover()
    const worker = await opened.open({ role: 'worker' })
    expect((await worker.tenants.erasures.settled('waiting', signal)).state).toBe('completed')
    await worker.stop()
  })
})

describe('the plan of an erasure', () => {
  test('searches all systems and changes nothing', async () => {
    await install('planned')
    const plan = await erasures.plan('planned')
    expect(plan.find(({ system }) => system === 'placements')?.found).toEqual([
      { kind: 'main: schema-pg t1_planned', count: 1 },
    ])
    expect((await opened.tenancy.tenants.get('planned')).status).toBe('active')
  })
})
