/** Concurrent changes of a tenant during a move, and the rules for replacing its storage. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { latch, latchImport } from '../../../../test/support/latch.ts'
import { openTestEnvironment, type TestEnvironment } from '../../../../test/support/two-servers.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { toLocation } from '../../registry/registry.ts'

let environment: TestEnvironment
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => environment.end())

const database = () => environment.tenancy.kernel.database
const tenants = () => environment.tenancy.tenants
const only = { isLast: true, signal: new AbortController().signal }
const install = async (id: string) => {
  await tenants().create({ id, name: id })
  await tenants().installation.install(id, only)
  const { db } = await environment.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'first' }).execute()
}
const locationOf = async (id: string) => toLocation(await tenants().registry.row(id))
const isFenced = async (of: Awaited<ReturnType<typeof locationOf>>) =>
  tenants().storage.driver(of.isolation).isFenced(of)

const until = (id: string, phase: string) =>
  eventually(async () => {
    const { rows } = await database().sql('select phase from multitenancy.transfers where id = $1', [id])
    expect(rows[0].phase).toBe(phase)
  })

test('during the copy of a move, rejects a statement of a process with a stale cache', async () => {
  await install('stale')
  const before = await locationOf('stale')
  const release = await latchImport(environment.otherUrl, 't2_stale')
  const { transfer } = await environment.transfers.move('stale', { placement: 'other' })
  const moving = environment.transfers.work(transfer.id, only)
  await until(transfer.id, 'making')
  const writing = tenants()
    .storage.driver('schema-pg')
    .execute(before, { text: `insert into notes (text) values ('lost')` })
  const outcome = await writing.then(
    () => 'acknowledged',
    ({ code }) => code,
  )
  await release()
  await moving
  expect(outcome).toBe('E_TENANT_STORAGE_FENCED')
  expect(await environment.notes('stale')).toEqual(['first'])
})

test('a tenant that is suspended and activated during a move stays closed until the move ends', async () => {
  await install('busy')
  const release = await latchImport(environment.otherUrl, 't2_busy')
  const { transfer } = await environment.transfers.move('busy', { isolation: 'schema-pg', placement: 'other' })
  const moving = environment.transfers.work(transfer.id, only)
  await eventually(async () => expect((await tenants().get('busy')).maintenance).not.toBeNull())
  const before = await locationOf('busy')
  await eventually(async () => expect(await isFenced(before)).toBe(true))
  await tenants().suspend('busy')
  await tenants().activate('busy')
  await tenants().fences.repair('busy')
  expect(await isFenced(before)).toBe(true)
  await release()
  await moving
  expect(await environment.transfers.get('busy', transfer.id)).toMatchObject({ state: 'completed' })
  expect(await environment.notes('busy')).toEqual(['first'])
})

test('a move waits for earlier transactions and includes their rows', async () => {
  await install('open')
  const [hasWritten, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const writing = (await environment.tenancy.tenant('open')).transaction(async (db) => {
    await db.insertInto('notes').values({ text: 'second' }).execute()
    hasWritten.resolve()
    await gate.promise
  })
  await hasWritten.promise
  const { transfer } = await environment.transfers.move('open', { placement: 'other' })
  const moving = environment.transfers.work(transfer.id, only)
  const closed = eventually(async () => expect(await isFenced(await locationOf('open'))).toBe(true))
  await Promise.race([closed, moving])
  gate.resolve()
  await writing
  await moving
  expect(await environment.notes('open')).toEqual(['first', 'second'])
})

test('a tenant that is suspended during a move is suspended and closed after the move', async () => {
  await install('late')
  const release = await latchImport(environment.otherUrl, 't2_late')
  const { transfer } = await environment.transfers.move('late', { placement: 'other' })
  const moving = environment.transfers.work(transfer.id, only)
  await eventually(async () => expect((await tenants().get('late')).maintenance).not.toBeNull())
  await tenants().suspend('late')
  await release()
  await moving
  expect(await tenants().get('late')).toMatchObject({ status: 'suspended', placement: 'other', maintenance: null })
  expect(await isFenced(await locationOf('late'))).toBe(true)
})

test('a move of a tenant in maintenance keeps the maintenance', async () => {
  await install('kept')
  await tenants().enterMaintenance('kept', { message: 'Back at noon' })
  const { transfer } = await environment.transfers.move('kept', { placement: 'other' })
  await environment.transfers.work(transfer.id, only)
  expect(await tenants().get('kept')).toMatchObject({ placement: 'other', maintenance: { message: 'Back at noon' } })
})

test('the former storage is closed at its server after a restore, regardless of the caches of processes', async () => {
  await install('left')
  const backup = await environment.transfers.backups.create('left')
  await environment.transfers.work(backup.id, only)
  const before = await locationOf('left')
  const { transfer } = await environment.transfers.backups.restore('left', { backupId: backup.id })
  await environment.transfers.work(transfer.id, only)
  expect(await isFenced(before)).toBe(true)
  const driver = tenants().storage.driver('schema-pg')
  await expect(driver.execute(before, { text: `insert into notes (text) values ('stale')` })).rejects.toMatchObject({
    code: 'E_TENANT_STORAGE_FENCED',
  })
  expect(await environment.notes('left')).toEqual(['first'])
})

test('an attempt that has lost its lease does not switch the storage in any phase', async () => {
  await install('taken')
  const backup = await environment.transfers.backups.create('taken')
  await environment.transfers.work(backup.id, only)
  const before = await locationOf('taken')
  const releaseImport = await latchImport(environment.url, 't2_taken')
  const { transfer } = await environment.transfers.backups.restore('taken', { backupId: backup.id })
  const late = environment.transfers.work(transfer.id, only)
  await until(transfer.id, 'making')
  const releaseRow = await latch(environment.url, `select from multitenancy.tenants where id = 'taken' for update`)
  await releaseImport()
  await until(transfer.id, 'switching')
  await database().sql('update multitenancy.transfers set worker = gen_random_uuid() where id = $1', [transfer.id])
  await releaseRow()
  await late
  expect(await locationOf('taken')).toEqual(before)
  expect(await environment.transfers.get('taken', transfer.id)).toMatchObject({ state: 'running' })
  expect(await environment.notes('taken')).toEqual(['first'])
})

test('a restore uses another server when the server of the tenant is lost and no longer configured', async () => {
  await install('stranded')
  const backup = await environment.transfers.backups.create('stranded')
  await environment.transfers.work(backup.id, only)
  await database().sql(`update multitenancy.tenants set placement = 'lost' where id = 'stranded'`)
  const { transfer } = await environment.transfers.backups.restore('stranded', {
    backupId: backup.id,
    placement: 'other',
  })
  await environment.transfers.work(transfer.id, only)
  expect(await environment.transfers.get('stranded', transfer.id)).toMatchObject({ state: 'completed', failure: null })
  expect(await tenants().get('stranded')).toMatchObject({ placement: 'other', status: 'active' })
  expect(await environment.notes('stranded')).toEqual(['first'])
})
