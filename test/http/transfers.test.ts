/** Backups, restores, clones and moves over HTTP, with their jobs. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'

let api: Opened
beforeAll(async () => {
  api = await openApi(inject('postgresUrl'))
})
afterAll(() => api.end())

/** A tenant of one test, with one note. */
async function tenantWithNote(id: string): Promise<void> {
  await api.call('POST', '/tenants', { body: { id, name: id }, headers: { prefer: 'wait=20' } })
  const { db } = await api.tenancy.tenant(id)
  await db.insertInto('notes').values({ text: 'first' }).execute()
}

const waiting = { prefer: 'wait=30' }
const below = (location: string | null) => location?.replace('/admin/multitenancy', '') ?? ''
const notes = async (id: string) => {
  const { db } = await api.tenancy.tenant(id)
  return (await db.selectFrom('notes').select('text').orderBy('text').execute()).map(({ text }) => text)
}

test('a backup returns immediately with its location, and complete with Prefer: wait', async () => {
  await tenantWithNote('acme')
  const started = await api.call('POST', '/tenants/acme/backup', { body: { note: 'nightly' } })
  expect(started).toMatchObject({ status: 202, json: { tenantId: 'acme', note: 'nightly', state: 'pending' } })
  const at = below(started.headers.get('location'))
  await eventually(async () => expect((await api.call('GET', at)).json.state).toBe('completed'))

  const waited = await api.call('POST', '/tenants/acme/backup', { headers: waiting })
  expect(waited).toMatchObject({ status: 200, json: { state: 'completed', progress: { tables: 1, rows: 1 } } })
  expect(waited.headers.get('preference-applied')).toBe('wait=30')
  const { json } = await api.call('GET', '/tenants/acme/backups')
  expect(json.data.map(({ id }: { id: string }) => id)).toEqual([waited.json.id, started.json.id])
})

test('a restore returns the location of its progress', async () => {
  await tenantWithNote('globex')
  const backup = (await api.call('POST', '/tenants/globex/backup', { headers: waiting })).json
  const { db } = await api.tenancy.tenant('globex')
  await db.insertInto('notes').values({ text: 'later' }).execute()
  const rehearsed = await api.call('POST', '/tenants/globex/restore', {
    body: { backupId: backup.id, rehearse: true },
    headers: waiting,
  })
  expect(rehearsed.status).toBe(200)
  const rehearsal = await api.call('GET', below(rehearsed.headers.get('location')))
  expect(rehearsal.json).toMatchObject({ kind: 'rehearsal', state: 'completed', compared: 'contents' })
  expect(await notes('globex')).toEqual(['first', 'later'])

  const restored = await api.call('POST', '/tenants/globex/restore', {
    body: { backupId: backup.id },
    headers: waiting,
  })
  expect(restored).toMatchObject({ status: 200, json: { id: backup.id } })
  const transfer = await api.call('GET', below(restored.headers.get('location')))
  expect(transfer.json).toMatchObject({ kind: 'restore', state: 'completed', phase: 'done', backupId: backup.id })
  expect(await notes('globex')).toEqual(['first'])
})

test('a clone and a move return the tenant, in its first state or after the wait in its last', async () => {
  await tenantWithNote('initech')
  const cloned = await api.call('POST', '/tenants/initech/clone', {
    body: { id: 'copy', name: 'Copy' },
    headers: waiting,
  })
  expect(cloned).toMatchObject({ status: 200, json: { id: 'copy', status: 'active' } })
  const moved = await api.call('POST', '/tenants/copy/move', { body: { isolation: 'database-pg' }, headers: waiting })
  expect(moved).toMatchObject({ status: 200, json: { id: 'copy', isolation: 'database-pg', maintenance: null } })
  expect(await notes('copy')).toEqual(['first'])
  const back = await api.call('POST', '/tenants/copy/move', { body: { undo: true } })
  expect(back).toMatchObject({ status: 202, json: { id: 'copy', isolation: 'database-pg' } })
  const at = below(back.headers.get('location'))
  await eventually(async () => expect((await api.call('GET', at)).json.state).toBe('completed'))
  expect((await api.call('GET', '/tenants/copy')).json.isolation).toBe('schema-pg')
})

test('a wait for a transfer that fails returns the problem, and the location of the transfer', async () => {
  await tenantWithNote('hooli')
  const backup = (await api.call('POST', '/tenants/hooli/backup', { headers: waiting })).json
  await api.tenancy.kernel.database.sql(`update multitenancy.backups set sha256 = repeat('0', 64) where id = $1`, [
    backup.id,
  ])
  for (const rehearse of [true, false]) {
    const body = { backupId: backup.id, rehearse }
    const answered = await api.call('POST', '/tenants/hooli/restore', { body, headers: waiting })
    expect(answered).toMatchObject({ status: 409, json: { code: 'E_BACKUP_INCOMPATIBLE' } })
    expect(answered.headers.get('preference-applied')).toBe('wait=30')
    expect((await api.call('GET', below(answered.headers.get('location')))).json).toMatchObject({
      state: 'failed',
      failure: { code: 'E_BACKUP_INCOMPATIBLE' },
    })
  }
})
