import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { TenantPurged } from '../tenant/events.ts'
import { PurgeTenants, UninstallTenant } from '../tenant/job-types.ts'
import type { Tenants } from '../tenants.ts'

const DAY_MS = 86_400_000
const INVALID_STATE = { code: 'E_TENANT_STATE', status: 409 }
const ABSENT = { code: 'E_TENANT_NOT_FOUND', status: 404 }

let opened: TestTenancy<[]>
let tenants: Tenants
let clock: FakeClock
let published: Recorded

beforeAll(async () => {
  clock = fakeClock()
  opened = await testTenancy(inject('postgresUrl'), { clock })
  tenants = opened.tenancy.tenants
  published = recorded(opened.tenancy)
})
afterAll(() => opened.end())

const install = async (id: string) => {
  const tenant = await installed(opened.tenancy, { id, name: id })
  await published.until(id, 'TenantProvisioned')
  return tenant
}
const schemas = async (id: string): Promise<number> => {
  const { rows } = await opened.tenancy.kernel.database.sql(
    'select count(*) as count from pg_namespace where nspname = $1',
    [`t1_${id}`],
  )
  return rows[0].count
}

describe('a deletion', () => {
  test('keeps all data for thirty days and can be undone during that time', async () => {
    const before = await install('careful')
    await tenants.suspend('careful')
    const { tenant: suspended } = await tenants.suspend('careful')
    published.of('careful')
    const { tenant: deleted, changed } = await tenants.delete('careful')
    expect(changed).toBe(true)
    expect(deleted).toMatchObject({
      status: 'deleted',
      deletedAt: clock.now().toISOString(),
      purgeAt: new Date(clock.now().getTime() + 30 * DAY_MS).toISOString(),
    })
    expect(published.of('careful')).toEqual(['tenants.delete', 'TenantDeleted'])
    expect(published.events.at(-1)).toMatchObject({ purgeAt: deleted.purgeAt })
    expect(await tenants.get('careful')).toEqual(deleted)

    clock.advance(30 * DAY_MS)
    const { tenant: restored } = await tenants.restore('careful')
    expect(restored).toEqual({ ...suspended, updatedAt: clock.now().toISOString() })
    expect(restored.activatedAt).toBe(before.activatedAt)
    expect(published.of('careful')).toEqual(['tenants.restore', 'TenantRestored'])
    expect(published.events.at(-1)).toMatchObject({ from: 'deletion' })
    await expect(tenants.restore('careful')).rejects.toMatchObject(INVALID_STATE)
  })

  test('has no effect on a deleted tenant and keeps its purgeAt', async () => {
    await install('twice')
    const { tenant: first } = await tenants.delete('twice')
    published.of('twice')
    clock.advance(DAY_MS)
    expect(await tenants.delete('twice')).toEqual({ tenant: first, changed: false })
    expect(published.of('twice')).toEqual([])
  })

  test('rejects every other action with both states in the error', async () => {
    await install('still')
    await tenants.delete('still')
    for (const [action, to] of [
      ['activate', 'active'],
      ['suspend', 'suspended'],
    ] as const) {
      const attempt = tenants[action]('still')
      await expect(attempt).rejects.toMatchObject({ ...INVALID_STATE, extras: { from: 'deleted', to } })
    }
    await expect(tenants.enterMaintenance('still')).rejects.toMatchObject(INVALID_STATE)
    await expect(tenants.migrations.run({ ids: ['still'] })).rejects.toMatchObject(INVALID_STATE)
  })
})

describe('a purge', () => {
  test('is rejected before purgeAt and for tenants that are not deleted', async () => {
    await install('patient')
    await tenants.installation.purge('patient')
    await tenants.delete('patient')
    clock.advance(30 * DAY_MS - 1)
    await tenants.installation.purge('patient')
    await tenants.installation.purge('unknown')
    expect(await Array.fromAsync(tenants.installation.expired())).not.toContain('patient')
    expect((await tenants.restore('patient')).tenant.status).toBe('active')
  })

  test('removes all data and keeps the id reserved', async () => {
    const { store, jobs, database } = opened.tenancy.kernel
    await install('finished')
    await install('neighbour')
    for (const owner of ['finished', 'neighbour']) await store.set(owner, 'key', 'value')
    await jobs.send(UninstallTenant, { tenantId: 'finished' }, { tenantId: 'finished', afterSeconds: 3_600 })
    expect((await jobs.counts('finished')).length).toBeGreaterThan(0)
    await tenants.delete('finished')
    clock.advance(30 * DAY_MS)
    published.of('finished')
    await tenants.installation.purge('finished')

    expect(published.of('finished')).toEqual(['tenants.purge', 'TenantPurged'])
    expect(await schemas('finished')).toBe(0)
    expect(await store.get('finished', 'key')).toBeNull()
    expect(await jobs.counts('finished')).toEqual([])
    await expect(tenants.get('finished')).rejects.toMatchObject(ABSENT)
    await expect(opened.tenancy.tenant('finished')).rejects.toMatchObject(ABSENT)
    await expect(tenants.restore('finished')).rejects.toMatchObject(ABSENT)
    await expect(tenants.create({ id: 'finished', name: 'Again' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    const { rows } = await database.sql(
      `select name, metadata, domains from multitenancy.tenants where id = 'finished'`,
    )
    expect(rows).toEqual([{ name: '', metadata: {}, domains: [] }])

    await tenants.installation.purge('finished')
    expect(published.of('finished')).toEqual([])
    expect(await store.get('neighbour', 'key')).toBe('value')
    expect(await schemas('neighbour')).toBe(1)
  })

  test('runs once for many concurrent requests', async () => {
    await install('contested')
    await tenants.delete('contested')
    clock.advance(30 * DAY_MS)
    published.of('contested')
    await Promise.all(Array.from({ length: 8 }, () => tenants.installation.purge('contested')))
    expect(published.of('contested')).toEqual(['tenants.purge', 'TenantPurged'])
  })

  test.each(['purge', 'restore'] as const)(
    'concurrent with a restore: the %s wins, and the other action has no effect',
    async (first) => {
      const id = `torn-by-${first}`
      await install(id)
      await tenants.delete(id)
      clock.advance(30 * DAY_MS)
      const { database } = (await opened.open({ role: 'api' })).kernel
      const start = { purge: () => tenants.installation.purge(id), restore: () => tenants.restore(id) }
      const second = first === 'purge' ? 'restore' : 'purge'
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      // Both have read the tenant before they change it, in this order.
      const outcomes = await database.transaction(async () => {
        await database.sql('select from multitenancy.tenants where id = $1 for update', [id])
        const started = [start[first]()]
        await eventually(async () => expect((await database.sql(waiting)).rows).toHaveLength(1))
        started.push(start[second]())
        await eventually(async () => expect((await database.sql(waiting)).rows).toHaveLength(2))
        const both = Promise.allSettled(started) // both wait here, and run after the commit
        return () => both
      })
      const [, late] = await outcomes()
      if (first === 'purge') {
        expect(late).toMatchObject({
          status: 'rejected',
          reason: { code: expect.stringMatching(/^E_TENANT_(STATE|NOT_FOUND)$/) },
        })
        await expect(tenants.get(id)).rejects.toMatchObject(ABSENT)
      } else {
        expect((await tenants.get(id)).status).toBe('active')
      }
      expect(await schemas(id)).toBe(first === 'purge' ? 0 : 1)
    },
  )

  test('that was interrupted excludes a restore and continues', async () => {
    await install('late')
    await tenants.delete('late')
    clock.advance(30 * DAY_MS)
    const unsubscribe = opened.tenancy.kernel.events.subscribe(TenantPurged, 'within', () => {
      throw new Error('not yet')
    })
    await expect(tenants.installation.purge('late')).rejects.toThrow('not yet')
    expect(await schemas('late')).toBe(0)
    published.of('late')
    const attempt = tenants.restore('late')
    await expect(attempt).rejects.toMatchObject({ ...INVALID_STATE, extras: { from: 'being purged', to: 'restored' } })
    expect(await tenants.delete('late')).toMatchObject({ changed: false, tenant: { status: 'deleted' } })
    expect(await Array.fromAsync(tenants.installation.expired())).toContain('late')
    unsubscribe()
    await tenants.installation.purge('late')
    await expect(tenants.get('late')).rejects.toMatchObject(ABSENT)
    expect(published.of('late')).toEqual(['tenants.purge', 'TenantPurged'])
  })
})

describe('the daily run', () => {
  test('purges expired tenants with one job each', async () => {
    const ids = ['old-1', 'old-2', 'old-3']
    await Promise.all(ids.map(install))
    for (const id of ids) await tenants.delete(id)
    await install('younger')
    clock.advance(DAY_MS)
    await tenants.delete('younger')
    clock.advance(29 * DAY_MS)
    await opened.tenancy.kernel.jobs.send(PurgeTenants, {})
    await eventually(async () => {
      for (const id of ids) await expect(tenants.get(id)).rejects.toMatchObject(ABSENT)
    })
    for (const id of ids)
      expect(await published.until(id, 'TenantPurged')).toEqual([
        'tenants.delete',
        'TenantDeleted',
        'tenants.purge',
        'TenantPurged',
      ])
    expect((await tenants.get('younger')).status).toBe('deleted')
  })

  test('does nothing if it is switched off; expired tenants are listed and can be purged manually', async () => {
    const manual = await opened.open({ role: 'api', tenants: { autoPurge: false } })
    await install('by-hand')
    await tenants.delete('by-hand')
    clock.advance(30 * DAY_MS)
    await manual.tenants.installation.purgeExpired()
    expect((await manual.kernel.jobs.counts('by-hand')).filter(({ queue }) => queue.includes('Uninstall'))).toEqual([])
    expect(await Array.fromAsync(manual.tenants.installation.expired())).toContain('by-hand')
    await manual.tenants.installation.purge('by-hand')
    await expect(tenants.get('by-hand')).rejects.toMatchObject(ABSENT)
  })

  test('uses the configured retention', async () => {
    const brief = await opened.open({ role: 'api', tenants: { retentionDays: 0.5 } })
    await install('brief')
    const { tenant } = await brief.tenants.delete('brief')
    expect(tenant.purgeAt).toBe(new Date(clock.now().getTime() + DAY_MS / 2).toISOString())
  })
})
