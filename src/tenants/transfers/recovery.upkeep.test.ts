/** Maintenance of backups and transfers: schedule, old transfers, and findings of the doctor. */
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { only, useRecovery } from './recovery.fixture.ts'

const here = useRecovery()
const { clock, sql, install, withoutHeartbeatFor, claim } = here

describe('scheduled backups', () => {
  beforeAll(() => install('regular', { plan: 'pro' }))
  beforeEach(async () => {
    await sql(`delete from multitenancy.transfers; delete from multitenancy.backups`)
    await rm(join(here.environment.archives, 'regular'), { recursive: true, force: true })
  })
  const steps = async () =>
    (await Array.fromAsync(here.environment.transfers.due())).filter(({ tenantId }) => tenantId === 'regular')
  const backUp = async () => {
    await here.environment.transfers.runDue()
    const [{ id = '' } = {}] = (await here.environment.transfers.backups.list('regular', { limit: 1 })).data
    await here.environment.transfers.work(id, only)
    return id
  }

  test('creates backups on the schedule of the plan, and removes expired ones but no manual ones', async () => {
    await install('spared')
    const asked = await here.environment.transfers.backups.create('regular', { note: 'manual' })
    await here.environment.transfers.work(asked.id, only)
    expect(await steps()).toMatchObject([{ tenantId: 'regular', what: 'make', backupId: null }])
    const first = await backUp()
    expect(await steps()).toEqual([])
    clock.advance(3_600_000)
    const second = await backUp()
    expect(await steps()).toMatchObject([{ tenantId: 'regular', what: 'remove', backupId: first }])
    await here.environment.transfers.runDue()
    const kept = (await here.environment.transfers.backups.list('regular', { limit: 50 })).data
    expect(kept.map(({ id, isScheduled }) => [id, isScheduled])).toEqual([
      [second, true],
      [asked.id, false],
    ])
    expect((await here.environment.files()).filter((file) => file.startsWith('regular/'))).toHaveLength(2)
    expect((await here.environment.transfers.backups.list('spared', { limit: 50 })).data).toEqual([])
  })

  test('creates one backup when ten processes run the schedule concurrently', async () => {
    await Promise.all(Array.from({ length: 10 }, () => here.environment.transfers.runDue()))
    expect((await here.environment.transfers.backups.list('regular', { limit: 50 })).data).toHaveLength(1)
  })

  test('creates one backup when two processes find it due, even if the second one starts after the first backup', async () => {
    const [seen, ...more] = await steps()
    expect(more).toEqual([])
    if (!seen) throw new Error('no backup is due')
    const id = await here.environment.transfers.runDueStep(seen)
    expect(id).toBeTypeOf('string')
    await here.environment.transfers.work(String(id), only)
    expect(await here.environment.transfers.runDueStep(seen)).toBeUndefined()
    expect((await here.environment.transfers.backups.list('regular', { limit: 50 })).data).toHaveLength(1)
  })
})

test('deletes old transfers except those of existing backups', async () => {
  await install('old')
  const backup = await here.environment.transfers.backups.create('old')
  await here.environment.transfers.work(backup.id, only)
  const { transfer } = await here.environment.transfers.backups.restore('old', { backupId: backup.id })
  await here.environment.transfers.work(transfer.id, only)
  const there = async () => (await here.environment.transfers.list('old', { limit: 9 })).data.map(({ kind }) => kind)
  const ended = (days: number) =>
    sql(`update multitenancy.transfers set finished_at = now() - $1 * interval '1 day' where tenant_id = 'old'`, [days])
  await ended(89)
  await here.environment.transfers.recover()
  expect(await there()).toEqual(['restore', 'backup'])
  await here.environment.transfers.backups.delete('old', backup.id)
  expect(await there()).toEqual(['restore', 'backup']) // the backup still exists
  const kept = await here.environment.transfers.backups.create('old')
  await here.environment.transfers.work(kept.id, only)
  await ended(91)
  await here.environment.transfers.recover()
  expect(await there()).toEqual(['backup'])
  expect(await here.environment.transfers.backups.get('old', kept.id)).toMatchObject({ state: 'completed' })
})

describe('the doctor', () => {
  const findings = async () =>
    (await here.environment.tenancy.doctor.examine()).checks.filter(({ name }) =>
      ['transfers', 'backups', 'storage'].includes(name),
    )

  test('reports stuck transfers, missed backups and orphaned files, and removes its own files', async () => {
    await sql(`delete from multitenancy.transfers; delete from multitenancy.backups`)
    await here.environment.tenancy.doctor.fix({ approve: async () => true }) // left by earlier tests
    await install('sick', { plan: 'pro' })
    const backup = await here.environment.transfers.backups.create('sick')
    const killed = await claim(backup.id)
    killed.close()
    await withoutHeartbeatFor(backup.id, 3_600)
    clock.advance(3 * 3_600_000)
    await mkdir(join(here.environment.archives, 'sick'), { recursive: true })
    await writeFile(join(here.environment.archives, 'sick', `${backup.id}.7.tar.gz`), 'an abandoned attempt')
    await writeFile(
      join(here.environment.archives, 'sick', '0198f0a4-0000-7000-8000-000000000001.1.tar.gz'),
      'from another installation',
    )
    await sql(
      `insert into multitenancy.storage_locations (isolation, placement, locator, epoch, tenant_id, state, since)
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
    await here.environment.tenancy.doctor.fix({ approve: async () => true })
    expect((await codes()).sort()).toEqual(['backups.stale', 'backups.unknown-file', 'transfers.stuck'])
    expect((await here.environment.files()).filter((file) => file.startsWith('sick/'))).toHaveLength(1)
    const { rows } = await sql(`select from pg_namespace where nspname = 't7_sick'`)
    expect(rows).toEqual([])
  })

  test('reports an unusable or missing backup storage', async () => {
    const backups = async (tenancy = here.environment.tenancy) =>
      (await tenancy.doctor.examine()).checks.filter(({ name }) => name === 'backups').map(({ code }) => code)
    await install('cut-off')
    await here.environment.transfers.work((await here.environment.transfers.backups.create('cut-off')).id, only)
    const aside = `${here.environment.archives}.aside`
    await rename(here.environment.archives, aside)
    await writeFile(here.environment.archives, 'a file')
    expect(await backups()).toContain('backups.unreachable')
    await rm(here.environment.archives)
    await mkdir(here.environment.archives)
    expect(await backups()).toContain('backups.missing-file')
    await rm(here.environment.archives, { recursive: true })
    await rename(aside, here.environment.archives)
    expect(await backups()).not.toContain('backups.missing-file')
    expect(await backups()).not.toContain('backups.unreachable')
    const other = await here.environment.open({ backups: undefined })
    expect(await backups(other)).toContain('backups.not-configured')
    expect(await backups()).not.toContain('backups.not-configured')
  })
})
