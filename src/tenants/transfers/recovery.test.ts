/** What is taken up, given up and tidied away when whoever was at work on it is gone. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { directory } from '../../drivers/archives/directory.ts'
import { type FakeClock, fakeClock } from '../../testing/clock.ts'
import { WAITING_LOCKS } from '../../testing/database.ts'
import { holdingImport } from '../../testing/holding.ts'
import { eventually } from '../../testing/tenancy.ts'
import { ISOLATIONS, openWorld, type World } from '../../testing/two-servers.ts'
import { Attempt } from './attempt.ts'
import { JOBS } from './jobs.ts'
import { Places } from './places.ts'

let world: World
let clock: FakeClock
beforeAll(async () => {
  clock = fakeClock()
  world = await openWorld(inject('postgresUrl'), {
    role: 'api',
    clock,
    plans: {
      defaultPlan: 'free',
      definitions: { free: { limits: {} }, pro: { limits: {}, backups: { everyHours: 1, keep: 1 } } },
    },
  })
})
afterAll(() => world.end())

const sql = (text: string, values: unknown[] = []) => world.tenancy.kernel.database.sql(text, values)
const only = { isLast: true, signal: new AbortController().signal }
const install = async (id: string, metadata = {}) => {
  await world.tenancy.tenants.create({ id, name: id, metadata })
  await world.tenancy.tenants.installation.install(id, only)
}
const silentFor = (id: string, seconds: number) =>
  sql(`update multitenancy.transfers set lease_until = now() - $2 * interval '1 second' where id = $1`, [id, seconds])
const claim = async (id: string, leaseMs = 60_000) => {
  const attempt = await Attempt.claim(world.tenancy.kernel, id, { leaseMs, signal: only.signal })
  if (!attempt) throw new Error('it could not be claimed')
  return attempt
}

const waitingFor = async (locator: string) => {
  const { rows } = await sql(
    `select count(*) as count from ${WAITING_LOCKS} where locktype = 'advisory' and objsubid = 1
       and ((classid::bigint << 32) | objid::bigint) = hashtextextended($1, 1)`,
    [locator],
  )
  return rows[0].count
}

/** Where nothing can be made, nor dropped. */
const nowhere = async (transferId: string, work: () => Promise<void>) => {
  await sql(`update multitenancy.transfers set placement = 'nowhere' where id = $1`, [transferId])
  await work()
  await sql(`delete from multitenancy.places where placement = 'nowhere'`)
}

describe('an attempt', () => {
  test('is one at a time, and ended by whoever takes its place once its lease has run out', async () => {
    await install('leased')
    const { id } = await world.transfers.backups.create('leased')
    const first = await claim(id)
    expect(await Attempt.claim(world.tenancy.kernel, id, { signal: only.signal })).toBeUndefined()
    await world.transfers.work(id, only) // nothing: somebody is at work on it
    expect(await world.transfers.get('leased', id)).toMatchObject({ state: 'running', attempts: 1 })

    await silentFor(id, 1)
    const second = await claim(id)
    await expect(first.phase('writing')).rejects.toThrow('no longer')
    expect(first.signal.aborted).toBe(true)
    const { database } = world.tenancy.kernel
    await expect(database.transaction(() => first.hold())).rejects.toThrow('no longer')
    await database.transaction(() => second.hold())
    first.close()
    second.close()
    await second.giveBack()
    await world.transfers.work(id, only)
    expect(await world.transfers.get('leased', id)).toMatchObject({ state: 'completed', attempts: 3 })
  })

  test('keeps its lease as long as it lives', async () => {
    await install('living')
    const { id } = await world.transfers.backups.create('living')
    const attempt = await claim(id, 500)
    const leaseOf = async () =>
      (await sql('select lease_until from multitenancy.transfers where id = $1', [id])).rows[0]
    const first = (await leaseOf()).lease_until
    await eventually(async () => expect((await leaseOf()).lease_until.getTime()).toBeGreaterThan(first.getTime()))
    attempt.close()
    await attempt.giveBack()
    await world.transfers.work(id, only)
  })

  test('that is told to stop is given back, with the tenant as it was, and done by the next one', async () => {
    await install('passing')
    const { transfer } = await world.transfers.move('passing', { placement: 'other' })
    const stopping = new AbortController()
    const release = await holdingImport(world.otherUrl, 't2_passing')
    const stopped = world.transfers.work(transfer.id, { isLast: true, signal: stopping.signal })
    await eventually(async () => expect((await world.tenancy.tenants.get('passing')).maintenance).not.toBeNull())
    await eventually(async () => expect((await world.transfers.get('passing', transfer.id)).phase).toBe('making'))
    stopping.abort(new Error('the worker stops'))
    await release()
    await expect(stopped).rejects.toThrow('the worker stops')
    expect(await world.transfers.get('passing', transfer.id)).toMatchObject({ state: 'pending', attempts: 1 })
    expect(await world.tenancy.tenants.get('passing')).toMatchObject({ placement: 'main', maintenance: null })
    expect(await world.notes('passing')).toEqual([])
    await world.transfers.work(transfer.id, only)
    expect(await world.transfers.get('passing', transfer.id)).toMatchObject({ state: 'completed', attempts: 2 })
  })

  test('that has lost its transfer leaves alone what the next one makes', async () => {
    await install('zombie')
    const { transfer } = await world.transfers.move('zombie', { placement: 'other' })
    const releaseFirst = await holdingImport(world.otherUrl, 't2_zombie')
    const first = world.transfers.work(transfer.id, only)
    await eventually(async () => expect((await world.transfers.get('zombie', transfer.id)).phase).toBe('making'))
    await silentFor(transfer.id, 1)
    const second = await claim(transfer.id)
    const places = new Places(world.tenancy.kernel, world.tenancy.tenants.storage, world.tenancy.tenants.lostPlacements)
    const { locator } = await places.begin(second)
    await releaseFirst()
    await first
    const { rows } = await sql(
      `select locator, state from multitenancy.places where tenant_id = 'zombie' order by epoch`,
    )
    expect(rows).toContainEqual({ locator, state: 'making' })
    second.close()
    await second.giveBack()
    await world.transfers.work(transfer.id, only)
    expect(await world.transfers.get('zombie', transfer.id)).toMatchObject({ state: 'completed' })
  })

  test.each([
    ['with rows', true],
    ['without rows', false],
  ])('makes nothing once its place was given up, however late it comes: a clone %s', async (name, data) => {
    const id = name.replaceAll(' ', '-')
    await install(id)
    const { transfer } = await world.transfers.clone(id, { id: `${id}-copy`, name: 'Copy', data })
    const release = await holdingImport(world.url, `t1_${id}-copy`)
    const late = world.transfers.work(transfer.id, only)
    await eventually(async () => expect(await waitingFor(`t1_${id}-copy`)).toBe(1))
    const given = await sql(
      `update multitenancy.places set state = 'abandoned' where transfer_id = $1 returning locator`,
      [transfer.id],
    )
    expect(given.rows).toEqual([{ locator: `t1_${id}-copy` }])
    await sql('update multitenancy.transfers set worker = gen_random_uuid() where id = $1', [transfer.id])
    await sql('delete from multitenancy.places where transfer_id = $1', [transfer.id]) // as when it has been dropped
    await release()
    await late
    expect((await sql(`select nspname from pg_namespace where nspname like $1`, [`%${id}-copy`])).rows).toEqual([])
  })

  test('that fails for good leaves the tenant as it was, and says so', async () => {
    await install('failing')
    const { transfer } = await world.transfers.move('failing', { placement: 'other' })
    await nowhere(transfer.id, () => world.transfers.work(transfer.id, only))
    expect(await world.transfers.get('failing', transfer.id)).toMatchObject({
      state: 'failed',
      failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
    })
    expect(await world.tenancy.tenants.get('failing')).toMatchObject({ placement: 'main', maintenance: null })
    expect(await world.notes('failing')).toEqual([])
  })
})

describe('what was lost', () => {
  test('is sent again, at most ten times, and then given up', async () => {
    await install('lost')
    const { jobs } = world.tenancy.kernel
    const { transfer } = await world.transfers.move('lost', { placement: 'other' })
    await jobs.cancel(JOBS.move, transfer.id)
    await world.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(false) // its job may only be late
    await silentFor(transfer.id, 3_600)
    await world.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(true)

    await jobs.cancel(JOBS.move, transfer.id)
    const killed = await claim(transfer.id)
    killed.close()
    await sql('update multitenancy.transfers set attempts = 10 where id = $1', [transfer.id])
    await silentFor(transfer.id, 3_600)
    await world.transfers.recover()
    expect(await world.transfers.get('lost', transfer.id)).toMatchObject({
      state: 'failed',
      failure: { code: 'E_TRANSFER_LOST' },
    })
    expect(await world.notes('lost')).toEqual([])
  })

  test('has its turn however many others wait for theirs', async () => {
    await install('crowded')
    const { transfer } = await world.transfers.move('crowded', { placement: 'other' })
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
    const { jobs } = world.tenancy.kernel
    for (const { id, tenantId } of rows) await jobs.send(JOBS.backup, { transferId: id }, { tenantId, key: id })
    await jobs.cancel(JOBS.move, transfer.id)
    await silentFor(transfer.id, 120)
    for (const _ of ['the first minute', 'the second']) await world.transfers.recover()
    expect(await jobs.isPending(JOBS.move, transfer.id)).toBe(true)
    for (const { id } of rows) await jobs.cancel(JOBS.backup, id)
    await sql(`delete from multitenancy.transfers where tenant_id like 'crowd-%'`)
    await sql(`delete from multitenancy.backups where tenant_id like 'crowd-%'`)
    await sql(`delete from multitenancy.tenants where id like 'crowd-%'`)
  })

  test('of a clone is a tenant that failed, and is cloned again when it is activated', async () => {
    await install('origin')
    const { transfer, tenant } = await world.transfers.clone('origin', { id: 'orphan', name: 'Orphan' })
    await nowhere(transfer.id, () => world.transfers.work(transfer.id, only))
    expect(await world.tenancy.tenants.get(tenant.id)).toMatchObject({
      status: 'failed',
      failure: { code: 'E_DEPENDENCY_UNAVAILABLE' },
    })
    const { db } = await world.tenancy.tenant('origin')
    await db.insertInto('notes').values({ text: 'meanwhile' }).execute()
    await world.tenancy.tenants.activate(tenant.id)
    const [again] = (await world.transfers.list(tenant.id, { limit: 1 })).data
    await world.transfers.work(again?.id ?? '', only)
    expect(await world.tenancy.tenants.get(tenant.id)).toMatchObject({ status: 'active', failure: null })
    expect(await world.notes(tenant.id)).toEqual(['meanwhile'])
  })

  test('storage past its time is dropped, and cannot be gone back to', async () => {
    await install('past')
    const { transfer } = await world.transfers.move('past', { isolation: 'database-pg' })
    await world.transfers.work(transfer.id, only)
    await world.transfers.recover()
    const former = () => sql(`select locator from multitenancy.places where tenant_id = 'past'`)
    expect((await former()).rows).toEqual([{ locator: 't1_past' }])
    clock.advance(31 * 86_400_000)
    await world.transfers.recover()
    expect((await former()).rows).toEqual([])
    const stored = await world.tenancy.tenants.storage.driver('schema-pg').inventory?.('main')
    expect(stored?.map(({ locator }) => locator)).not.toContain('t1_past')
    await expect(world.transfers.move('past', { undo: true })).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  })
})

describe('a file of no backup', () => {
  const forget = async (id: string) => {
    await sql('delete from multitenancy.transfers where id = $1', [id])
    await sql('delete from multitenancy.backups where id = $1', [id])
  }

  test.each([false, true])('is adopted, and can be restored; sealed: %s', async (seal) => {
    const id = seal ? 'adopted-sealed' : 'adopted'
    await install(id)
    const { db } = await world.tenancy.tenant(id)
    await db.insertInto('notes').values({ text: 'kept' }).execute()
    const { tenants } = await world.open({ backups: { archives: directory({ path: world.archives }), seal } })
    const { backups } = tenants.transfers
    const before = await backups.create(id, { note: 'gone with the row' })
    await tenants.transfers.work(before.id, only)
    const complete = await backups.get(id, before.id)
    const key = (await world.files()).find((file) => file.includes(before.id)) ?? ''
    await expect(backups.adopt(id, key)).rejects.toMatchObject({ code: 'E_BACKUP_EXISTS' })
    await forget(before.id)
    await db.deleteFrom('notes').execute()

    const { completedAt, note, progress, ...same } = complete
    expect(await backups.adopt(id, key)).toMatchObject({ ...same, progress: { rows: 1, bytes: progress.bytes } })
    const { transfer } = await backups.restore(id, { backupId: before.id })
    await tenants.transfers.work(transfer.id, only)
    expect(await world.notes(id)).toEqual(['kept'])
  })

  test('is adopted by its own tenant alone, when it is whole', async () => {
    await install('hers')
    await install('his')
    const { id } = await world.transfers.backups.create('hers')
    await world.transfers.work(id, only)
    const key = `hers/${id}.1.tar.gz`
    await forget(id)
    const { backups } = world.transfers
    await expect(backups.adopt('his', key)).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    await expect(backups.adopt('his', '../hers/x.tar.gz')).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
    const bytes = await readFile(join(world.archives, key))
    await mkdir(join(world.archives, 'his'), { recursive: true })
    await writeFile(join(world.archives, 'his', `${id}.1.tar.gz`), bytes)
    await expect(backups.adopt('his', `his/${id}.1.tar.gz`)).rejects.toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
    await writeFile(join(world.archives, key), bytes.subarray(0, -100))
    await expect(backups.adopt('hers', key)).rejects.toMatchObject({ code: 'E_BACKUP_INCOMPATIBLE' })
    await rm(join(world.archives, key))
    await expect(backups.adopt('hers', key)).rejects.toMatchObject({ code: 'E_ARCHIVE_MISSING' })
    expect((await backups.list('hers', { limit: 9 })).data).toEqual([])
    await rm(join(world.archives, 'his'), { recursive: true })
  })
})

describe.each(ISOLATIONS)('a backoffice that was brought back does not know of storage on %s', (isolation) => {
  test('which is left as it is, and told', async () => {
    const id = `forgotten-${isolation.slice(0, 3)}`
    await world.tenancy.tenants.create({ id, name: id, isolation })
    await world.tenancy.tenants.installation.install(id, only)
    const driver = world.tenancy.tenants.storage.driver(isolation)
    const newest = { tenantId: id, isolation, placement: 'main', locator: driver.locator(id, 2), epoch: 2 }
    await driver.provision(newest)
    await driver.execute(newest, { text: `insert into notes (text) values ('the newest')` })

    const backup = await world.transfers.backups.create(id)
    await world.transfers.work(backup.id, only)
    for (const rehearse of [true, false]) {
      const { transfer } = await world.transfers.backups.restore(id, { backupId: backup.id, rehearse })
      await world.transfers.work(transfer.id, only)
      expect(await world.transfers.get(id, transfer.id)).toMatchObject({ state: 'completed', failure: null })
    }
    await world.transfers.recover()
    const { rows } = await driver.execute(newest, { text: 'select text from notes' })
    expect(rows).toEqual([{ text: 'the newest' }])
    const leftOver = { kind: 'left over', locator: newest.locator }
    expect(await world.tenancy.tenants.inventory.mismatches(driver, 'main')).toEqual(
      isolation === 'rowscope-pg' ? [] : [leftOver], // shared tables do not tell whose rows they have
    )
    await driver.drop(newest)
  })
})

describe('by themselves', () => {
  beforeAll(() => install('regular', { plan: 'pro' }))
  beforeEach(async () => {
    await sql(`delete from multitenancy.transfers; delete from multitenancy.backups`)
    await rm(join(world.archives, 'regular'), { recursive: true, force: true })
  })
  const steps = async () =>
    (await Array.fromAsync(world.transfers.due())).filter(({ tenantId }) => tenantId === 'regular')
  const backUp = async () => {
    await world.transfers.runDue()
    const [{ id = '' } = {}] = (await world.transfers.backups.list('regular', { limit: 1 })).data
    await world.transfers.work(id, only)
    return id
  }

  test('backups are made when the plan says, and the oldest go; those that were asked for stay', async () => {
    await install('spared')
    const asked = await world.transfers.backups.create('regular', { note: 'by hand' })
    await world.transfers.work(asked.id, only)
    expect(await steps()).toMatchObject([{ tenantId: 'regular', what: 'make', backupId: null }])
    const first = await backUp()
    expect(await steps()).toEqual([])
    clock.advance(3_600_000)
    const second = await backUp()
    expect(await steps()).toMatchObject([{ tenantId: 'regular', what: 'remove', backupId: first }])
    await world.transfers.runDue()
    const kept = (await world.transfers.backups.list('regular', { limit: 50 })).data
    expect(kept.map(({ id, isScheduled }) => [id, isScheduled])).toEqual([
      [second, true],
      [asked.id, false],
    ])
    expect((await world.files()).filter((file) => file.startsWith('regular/'))).toHaveLength(2)
    expect((await world.transfers.backups.list('spared', { limit: 50 })).data).toEqual([])
  })

  test('asked for by ten processes at once, one is made', async () => {
    await Promise.all(Array.from({ length: 10 }, () => world.transfers.runDue()))
    expect((await world.transfers.backups.list('regular', { limit: 50 })).data).toHaveLength(1)
  })

  test('seen to be due by two processes, one is made, also when the other comes when it is complete', async () => {
    const [seen, ...more] = await steps()
    expect(more).toEqual([])
    if (!seen) throw new Error('nothing is due')
    const id = await world.transfers.carryOut(seen)
    expect(id).toBeTypeOf('string')
    await world.transfers.work(String(id), only)
    expect(await world.transfers.carryOut(seen)).toBeUndefined()
    expect((await world.transfers.backups.list('regular', { limit: 50 })).data).toHaveLength(1)
  })
})

test('transfers that ended long ago are forgotten, but for those of backups that are there', async () => {
  await install('old')
  const backup = await world.transfers.backups.create('old')
  await world.transfers.work(backup.id, only)
  const { transfer } = await world.transfers.backups.restore('old', { backupId: backup.id })
  await world.transfers.work(transfer.id, only)
  const there = async () => (await world.transfers.list('old', { limit: 9 })).data.map(({ kind }) => kind)
  const ended = (days: number) =>
    sql(`update multitenancy.transfers set finished_at = now() - $1 * interval '1 day' where tenant_id = 'old'`, [days])
  await ended(89)
  await world.transfers.recover()
  expect(await there()).toEqual(['restore', 'backup'])
  await world.transfers.backups.delete('old', backup.id)
  expect(await there()).toEqual(['restore', 'backup']) // what was done stays known
  const kept = await world.transfers.backups.create('old')
  await world.transfers.work(kept.id, only)
  await ended(91)
  await world.transfers.recover()
  expect(await there()).toEqual(['backup'])
  expect(await world.transfers.backups.get('old', kept.id)).toMatchObject({ state: 'completed' })
})

describe('the doctor', () => {
  const findings = async () =>
    (await world.tenancy.doctor.examine()).checks.filter(({ name }) =>
      ['transfers', 'backups', 'storage'].includes(name),
    )

  test('tells of what is stuck, missed and left behind, and puts right what is ours', async () => {
    await sql(`delete from multitenancy.transfers; delete from multitenancy.backups`)
    await world.tenancy.doctor.fix({ approve: async () => true }) // what earlier tests have left
    await install('sick', { plan: 'pro' })
    const backup = await world.transfers.backups.create('sick')
    const killed = await claim(backup.id)
    killed.close()
    await silentFor(backup.id, 3_600)
    clock.advance(3 * 3_600_000)
    await mkdir(join(world.archives, 'sick'), { recursive: true })
    await writeFile(join(world.archives, 'sick', `${backup.id}.7.tar.gz`), 'an attempt that was given up')
    await writeFile(join(world.archives, 'sick', '0198f0a4-0000-7000-8000-000000000001.1.tar.gz'), 'from elsewhere')
    await sql(
      `insert into multitenancy.places (isolation, placement, locator, epoch, tenant_id, state, since)
       values ('schema-pg', 'main', 't7_sick', 7, 'sick', 'abandoned', now())`,
    )
    await sql('create schema t7_sick')
    const codes = async () =>
      (await findings()).filter(({ message }) => message.includes('sick')).map(({ code }) => code)
    expect((await codes()).sort()).toEqual([
      'backups.stale',
      'backups.stray-file',
      'backups.unknown-file',
      'storage.abandoned',
      'transfers.stuck',
    ])
    await world.tenancy.doctor.fix({ approve: async () => true })
    expect((await codes()).sort()).toEqual(['backups.stale', 'backups.unknown-file', 'transfers.stuck'])
    expect((await world.files()).filter((file) => file.startsWith('sick/'))).toHaveLength(1)
    const { rows } = await sql(`select from pg_namespace where nspname = 't7_sick'`)
    expect(rows).toEqual([])
  })

  test('tells that archives cannot be reached: the place is no more what it was, or not configured', async () => {
    const backups = async (tenancy = world.tenancy) =>
      (await tenancy.doctor.examine()).checks.filter(({ name }) => name === 'backups').map(({ code }) => code)
    await install('cut-off')
    await world.transfers.work((await world.transfers.backups.create('cut-off')).id, only)
    const aside = `${world.archives}.aside`
    await rename(world.archives, aside)
    await writeFile(world.archives, 'a file')
    expect(await backups()).toContain('backups.unreachable')
    await rm(world.archives)
    await mkdir(world.archives)
    expect(await backups()).toContain('backups.missing-file')
    await rm(world.archives, { recursive: true })
    await rename(aside, world.archives)
    expect(await backups()).not.toContain('backups.missing-file')
    expect(await backups()).not.toContain('backups.unreachable')
    const other = await world.open({ backups: undefined })
    expect(await backups(other)).toContain('backups.not-configured')
    expect(await backups()).not.toContain('backups.not-configured')
  })
})
