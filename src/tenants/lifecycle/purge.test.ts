import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { TenantPurged } from '../tenant/events.ts'
import { PurgeTenants, UninstallTenant } from '../tenant/job-types.ts'
import type { Tenants } from '../tenants.ts'

const DAY_MS = 86_400_000
const REFUSED = { code: 'E_TENANT_STATE', status: 409 }
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
  test('keeps everything for thirty days, and is taken back until then', async () => {
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
    await expect(tenants.restore('careful')).rejects.toMatchObject(REFUSED)
  })

  test('repeated changes nothing, not even when it ends, and says nothing', async () => {
    await install('twice')
    const { tenant: first } = await tenants.delete('twice')
    published.of('twice')
    clock.advance(DAY_MS)
    expect(await tenants.delete('twice')).toEqual({ tenant: first, changed: false })
    expect(published.of('twice')).toEqual([])
  })

  test('refuses every other action, naming both states', async () => {
    await install('still')
    await tenants.delete('still')
    for (const [action, to] of [
      ['activate', 'active'],
      ['suspend', 'suspended'],
    ] as const) {
      const refused = tenants[action]('still')
      await expect(refused).rejects.toMatchObject({ ...REFUSED, extras: { from: 'deleted', to } })
    }
    await expect(tenants.enterMaintenance('still')).rejects.toMatchObject(REFUSED)
    await expect(tenants.migrations.run({ ids: ['still'] })).rejects.toMatchObject(REFUSED)
  })
})

describe('a purge', () => {
  test('does not come before its time, nor to who is not deleted', async () => {
    await install('patient')
    await tenants.installation.purge('patient')
    await tenants.delete('patient')
    clock.advance(30 * DAY_MS - 1)
    await tenants.installation.purge('patient')
    await tenants.installation.purge('nobody')
    expect(await Array.fromAsync(tenants.installation.expired())).not.toContain('patient')
    expect((await tenants.restore('patient')).tenant.status).toBe('active')
  })

  test('takes everything, and the id stays taken for ever', async () => {
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

  test('asked for by many at once happens once', async () => {
    await install('contested')
    await tenants.delete('contested')
    clock.advance(30 * DAY_MS)
    published.of('contested')
    await Promise.all(Array.from({ length: 8 }, () => tenants.installation.purge('contested')))
    expect(published.of('contested')).toEqual(['tenants.purge', 'TenantPurged'])
  })

  test.each(['purge', 'restore'] as const)(
    'and a restore at once: the %s comes first, the other finds out',
    async (first) => {
      const id = `torn-by-${first}`
      await install(id)
      await tenants.delete(id)
      clock.advance(30 * DAY_MS)
      const { database } = (await opened.open({ role: 'api' })).kernel
      const start = { purge: () => tenants.installation.purge(id), restore: () => tenants.restore(id) }
      const second = first === 'purge' ? 'restore' : 'purge'
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      // Both have read the tenant when they come to change it, in this order.
      const outcomes = await database.transaction(async () => {
        await database.sql('select from multitenancy.tenants where id = $1 for update', [id])
        const started = [start[first]()]
        await eventually(async () => expect((await database.sql(waiting)).rows).toHaveLength(1))
        started.push(start[second]())
        await eventually(async () => expect((await database.sql(waiting)).rows).toHaveLength(2))
        const both = Promise.allSettled(started) // waited for from here on, and answered once they may go on
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

  test('that was interrupted cannot be taken back any more, and goes on where it was', async () => {
    await install('late')
    await tenants.delete('late')
    clock.advance(30 * DAY_MS)
    const unsubscribe = opened.tenancy.kernel.events.subscribe(TenantPurged, 'within', () => {
      throw new Error('not yet')
    })
    await expect(tenants.installation.purge('late')).rejects.toThrow('not yet')
    expect(await schemas('late')).toBe(0)
    published.of('late')
    const refused = tenants.restore('late')
    await expect(refused).rejects.toMatchObject({ ...REFUSED, extras: { from: 'being purged', to: 'restored' } })
    expect(await tenants.delete('late')).toMatchObject({ changed: false, tenant: { status: 'deleted' } })
    expect(await Array.fromAsync(tenants.installation.expired())).toContain('late')
    unsubscribe()
    await tenants.installation.purge('late')
    await expect(tenants.get('late')).rejects.toMatchObject(ABSENT)
    expect(published.of('late')).toEqual(['tenants.purge', 'TenantPurged'])
  })
})

describe('the daily run', () => {
  test('purges what has expired, by one job each, without being asked', async () => {
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

  test('does nothing where it is switched off; then they are named, and purged by hand', async () => {
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

  test('takes the retention that is configured', async () => {
    const brief = await opened.open({ role: 'api', tenants: { retentionDays: 0.5 } })
    await install('brief')
    const { tenant } = await brief.tenants.delete('brief')
    expect(tenant.purgeAt).toBe(new Date(clock.now().getTime() + DAY_MS / 2).toISOString())
  })
})
