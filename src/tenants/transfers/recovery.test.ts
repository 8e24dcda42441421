/** Attempts of transfers whose worker was lost: what the next attempt continues, and what is dropped. */
import { describe, expect, test } from 'vitest'
import { latchImport } from '../../../test/support/latch.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { Attempt } from './execution/attempt.ts'
import { StagedStorage } from './execution/staged-storage.ts'
import { only, useRecovery } from './recovery.fixture.ts'
import { JOBS } from './requests/job-types.ts'

const here = useRecovery()
const { clock, sql, install, withoutHeartbeatFor, claim } = here

const waitingFor = async (locator: string) => {
  const { rows } = await sql(
    `select count(*) as count from ${WAITING_LOCKS} where locktype = 'advisory' and objsubid = 1
       and ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 1)`,
    [locator],
  )
  return rows[0].count
}

/** Makes it impossible to create or drop storage during `work`. */
const nowhere = async (transferId: string, work: () => Promise<void>) => {
  await sql(`update multitenancy.transfers set placement = 'nowhere' where id = $1`, [transferId])
  await work()
  await sql(`delete from multitenancy.storage_locations where placement = 'nowhere'`)
}

describe('an attempt', () => {
  test('excludes other attempts until its lease expires, and is ended by the next one', async () => {
    await install('leased')
    const { id } = await here.environment.transfers.backups.create('leased')
    const first = await claim(id)
    expect(await Attempt.claim(here.environment.tenancy.kernel, id, { signal: only.signal })).toBeUndefined()
    await here.environment.transfers.work(id, only) // no effect: another attempt holds the lease
    expect(await here.environment.transfers.get('leased', id)).toMatchObject({ state: 'running', attempts: 1 })

    await withoutHeartbeatFor(id, 1)
    const second = await claim(id)
    await expect(first.phase('writing')).rejects.toThrow('no longer')
    expect(first.signal.aborted).toBe(true)
    const { database } = here.environment.tenancy.kernel
    await expect(database.transaction(() => first.hold())).rejects.toThrow('no longer')
    await database.transaction(() => second.hold())
    first.close()
    second.close()
    await second.release()
    await here.environment.transfers.work(id, only)
    expect(await here.environment.transfers.get('leased', id)).toMatchObject({ state: 'completed', attempts: 3 })
  })

  test('keeps its lease while its process is alive', async () => {
    await install('living')
    const { id } = await here.environment.transfers.backups.create('living')
    const attempt = await claim(id, 500)
    const leaseOf = async () =>
      (await sql('select lease_until from multitenancy.transfers where id = $1', [id])).rows[0]
    const first = (await leaseOf()).lease_until
    await eventually(async () => expect((await leaseOf()).lease_until.getTime()).toBeGreaterThan(first.getTime()))
    attempt.close()
    await attempt.release()
    await here.environment.transfers.work(id, only)
  })

  test('releases the transfer and the tenant when its signal aborts, and the next attempt completes it', async () => {
    await install('passing')
    const { transfer } = await here.environment.transfers.move('passing', { placement: 'other' })
    const stopping = new AbortController()
    const release = await latchImport(here.environment.otherUrl, 't2_passing')
    const stopped = here.environment.transfers.work(transfer.id, { isLast: true, signal: stopping.signal })
    await eventually(async () =>
      expect((await here.environment.tenancy.tenants.get('passing')).maintenance).not.toBeNull(),
    )
    await eventually(async () =>
      expect((await here.environment.transfers.get('passing', transfer.id)).phase).toBe('making'),
    )
    stopping.abort(new Error('the worker stops'))
    await release()
    await expect(stopped).rejects.toThrow('the worker stops')
    expect(await here.environment.transfers.get('passing', transfer.id)).toMatchObject({
      state: 'pending',
      attempts: 1,
    })
    expect(await here.environment.tenancy.tenants.get('passing')).toMatchObject({
      placement: 'main',
      maintenance: null,
    })
    expect(await here.environment.notes('passing')).toEqual([])
    await here.environment.transfers.work(transfer.id, only)
    expect(await here.environment.transfers.get('passing', transfer.id)).toMatchObject({
      state: 'completed',
      attempts: 2,
    })
  })

  test('that has lost its lease does not touch the storage of the next attempt', async () => {
    await install('zombie')
    const { transfer } = await here.environment.transfers.move('zombie', { placement: 'other' })
    const releaseFirst = await latchImport(here.environment.otherUrl, 't2_zombie')
    const first = here.environment.transfers.work(transfer.id, only)
    await eventually(async () =>
      expect((await here.environment.transfers.get('zombie', transfer.id)).phase).toBe('making'),
    )
    await withoutHeartbeatFor(transfer.id, 1)
    const second = await claim(transfer.id)
    const stagedStorage = new StagedStorage(
      here.environment.tenancy.kernel,
      here.environment.tenancy.tenants.storage,
      here.environment.tenancy.tenants.lostPlacements,
    )
    const { locator } = await stagedStorage.begin(second)
    await releaseFirst()
    await first
    const { rows } = await sql(
      `select locator, state from multitenancy.storage_locations where tenant_id = 'zombie' order by epoch`,
    )
    expect(rows).toContainEqual({ locator, state: 'making' })
    second.close()
    await second.release()
    await here.environment.transfers.work(transfer.id, only)
    expect(await here.environment.transfers.get('zombie', transfer.id)).toMatchObject({ state: 'completed' })
  })

  test.each([
    ['with rows', true],
    ['without rows', false],
  ])('creates nothing after its storage location was abandoned: a clone %s', async (name, data) => {
    const id = name.replaceAll(' ', '-')
    await install(id)
    const { transfer } = await here.environment.transfers.clone(id, { id: `${id}-copy`, name: 'Copy', data })
    const release = await latchImport(here.environment.url, `t1_${id}-copy`)
    const late = here.environment.transfers.work(transfer.id, only)
    await eventually(async () => expect(await waitingFor(`t1_${id}-copy`)).toBe(1))
    const given = await sql(
      `update multitenancy.storage_locations set state = 'abandoned' where transfer_id = $1 returning locator`,
      [transfer.id],
    )
    expect(given.rows).toEqual([{ locator: `t1_${id}-copy` }])
    await sql('update multitenancy.transfers set worker = gen_random_uuid() where id = $1', [transfer.id])
    await sql('delete from multitenancy.storage_locations where transfer_id = $1', [transfer.id]) // as after the drop
    await release()
    await late
    expect((await sql(`select nspname from pg_namespace where nspname like $1`, [`%${id}-copy`])).rows).toEqual([])
  })

  test('that fails permanently leaves the tenant unchanged and records the failure', async () => {
    await install('failing')
    const { transfer } = await here.environment.transfers.move('failing', { placement: 'other' })
    await nowhere(transfer.id, () => here.environment.transfers.work(transfer.id, only))
    expect(await here.environment.transfers.get('failing', transfer.id)).toMatchObject({
      state: 'failed',
      failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
    })
    expect(await here.environment.tenancy.tenants.get('failing')).toMatchObject({
      placement: 'main',
      maintenance: null,
    })
    expect(await here.environment.notes('failing')).toEqual([])
  })
})

describe('a lost transfer', () => {
  test('is retried at most ten times, and then fails permanently', async () => {
    await install('lost')
    const { jobs } = here.environment.tenancy.kernel
    const { transfer } = await here.environment.transfers.move('lost', { placement: 'other' })
    await jobs.cancel(JOBS.move, transfer.id)
    await here.environment.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(false) // its job may only be late
    await withoutHeartbeatFor(transfer.id, 3_600)
    await here.environment.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(true)

    await jobs.cancel(JOBS.move, transfer.id)
    const killed = await claim(transfer.id)
    killed.close()
    await sql('update multitenancy.transfers set attempts = 10 where id = $1', [transfer.id])
    await withoutHeartbeatFor(transfer.id, 3_600)
    await here.environment.transfers.recover()
    expect(await here.environment.transfers.get('lost', transfer.id)).toMatchObject({
      state: 'failed',
      failure: { code: 'E_TRANSFER_LOST' },
    })
    expect(await here.environment.notes('lost')).toEqual([])
  })

  test('is retried regardless of the number of other lost transfers', async () => {
    await install('crowded')
    const { transfer } = await here.environment.transfers.move('crowded', { placement: 'other' })
    const { rows } = await sql(
      `with tenant as (
         insert into multitenancy.tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at)
         select 'crowd-' || n, 'One', 'active', '{}', '{}', 'schema-pg', 'main', 't1_crowd-' || n, now(), now()
         from generate_series(1, 250) n returning id),
       backup as (
         insert into multitenancy.backups (id, tenant_id, is_scheduled, isolation, is_sealed, created_at)
         select gen_random_uuid(), id, true, 'schema-pg', false, now() - interval '1 day' from tenant returning id, tenant_id)
       insert into multitenancy.transfers (id, kind, tenant_id, backup_id, isolation, placement, created_at, lease_until)
       select id, 'backup', tenant_id, id, 'schema-pg', 'main', '2000-01-01Z', now() - interval '1 day' from backup
       returning id, tenant_id as "tenantId"`,
    )
    const { jobs } = here.environment.tenancy.kernel
    await Promise.all(rows.map(({ id, tenantId }) => jobs.send(JOBS.backup, { transferId: id }, { tenantId, key: id })))
    await jobs.cancel(JOBS.move, transfer.id)
    await withoutHeartbeatFor(transfer.id, 120)
    for (const _ of ['the first minute', 'the second minute']) await here.environment.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(true)
    await Promise.all(rows.map(({ id }) => jobs.cancel(JOBS.backup, id)))
    await sql(`delete from multitenancy.transfers where tenant_id like 'crowd-%'`)
    await sql(`delete from multitenancy.backups where tenant_id like 'crowd-%'`)
    await sql(`delete from multitenancy.tenants where id like 'crowd-%'`)
  })

  test('of a clone leaves a failed tenant, which is cloned again on activation', async () => {
    await install('origin')
    const { transfer, tenant } = await here.environment.transfers.clone('origin', { id: 'orphan', name: 'Orphan' })
    await nowhere(transfer.id, () => here.environment.transfers.work(transfer.id, only))
    expect(await here.environment.tenancy.tenants.get(tenant.id)).toMatchObject({
      status: 'failed',
      failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
    })
    const { db } = await here.environment.tenancy.tenant('origin')
    await db.insertInto('notes').values({ text: 'meanwhile' }).execute()
    await here.environment.tenancy.tenants.activate(tenant.id)
    const [again] = (await here.environment.transfers.list(tenant.id, { limit: 1 })).data
    await here.environment.transfers.work(again?.id ?? '', only)
    expect(await here.environment.tenancy.tenants.get(tenant.id)).toMatchObject({ status: 'active', failure: null })
    expect(await here.environment.notes(tenant.id)).toEqual(['meanwhile'])
  })

  test('drops former storage after its retention, and rejects an undo after that', async () => {
    await install('past')
    const { transfer } = await here.environment.transfers.move('past', { isolation: 'database-pg' })
    await here.environment.transfers.work(transfer.id, only)
    await here.environment.transfers.recover()
    const former = () => sql(`select locator from multitenancy.storage_locations where tenant_id = 'past'`)
    expect((await former()).rows).toEqual([{ locator: 't1_past' }])
    clock.advance(31 * 86_400_000)
    await here.environment.transfers.recover()
    expect((await former()).rows).toEqual([])
    const stored = await here.environment.tenancy.tenants.storage.driver('schema-pg').inventory?.('main')
    expect(stored?.map(({ locator }) => locator)).not.toContain('t1_past')
    await expect(here.environment.transfers.move('past', { undo: true })).rejects.toMatchObject({
      code: 'E_TENANT_STATE',
    })
  })
})
