/** Tests backups, restores and moves of adopted tenants. */
import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openTestEnvironment, type TestEnvironment } from '../../../test/support/two-servers.ts'
import { raw } from '../../testing/leak/operations.ts'
import { NOTES, TAGS } from './adoptions.fixture.ts'

let environment: TestEnvironment
const tenants = () => environment.tenancy.tenants
const rowOf = async (id: string) =>
  (await environment.tenancy.kernel.database.sql('select * from multitenancy.tenants where id = $1', [id])).rows[0]
const bodies = async (id: string) => raw((await tenants().handle(id)).db, 'select body from notes order by id')

beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { migrations: [NOTES, TAGS] })
  await environment.tenant('other', { isolation: 'schema-pg' }, [])
  const client = new pg.Client({ connectionString: environment.url })
  await client.connect()
  await client.query(
    `create schema legacy_1; set search_path = legacy_1; ${NOTES.up}; insert into notes values ('first', 1, 'of legacy_1')`,
  )
  await client.end()
  const request = { id: 'first', isolation: 'schema-pg', schema: 'legacy_1', baseline: NOTES.name }
  const { digest } = await tenants().adoptions.plan(request)
  await tenants().adoptions.adopt({ ...request, digest })
})
afterAll(() => environment.end())

test('migrates, is suspended and activated, is backed up and restored', async () => {
  await tenants().migrations.run({ ids: ['first'] })
  expect(await tenants().migrations.status.plan({ ids: ['first'] })).toEqual([])
  await tenants().suspend('first')
  await expect(bodies('first')).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
  await tenants().activate('first')
  const backup = await tenants().transfers.backups.create('first')
  await environment.done(backup)
  await environment.done(await tenants().transfers.backups.restore('first', { backupId: backup.id }))
  expect(await bodies('first')).toEqual([{ body: 'of legacy_1' }])
  await expect(tenants().release('first')).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
  await environment.done(await tenants().transfers.move('first', { undo: true }))
  expect((await rowOf('first')).locator).toBe('legacy_1')
})

test('moves to another driver and server, and back to its storage', async () => {
  await environment.done(await tenants().transfers.move('first', { isolation: 'database-pg', placement: 'other' }))
  expect(await bodies('first')).toEqual([{ body: 'of legacy_1' }])
  await environment.done(await tenants().transfers.move('first', { undo: true }))
  expect(await bodies('first')).toEqual([{ body: 'of legacy_1' }])
  expect((await rowOf('first')).locator).toBe('legacy_1')
})
