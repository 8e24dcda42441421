/**
 * Moves tenants between two independent PostgreSQL servers: roles, rights and rows of one do not exist on the other.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startEmbeddedPostgres } from '../src/service/embedded-postgres.ts'
import { ISOLATIONS, openTestEnvironment, type TestEnvironment } from './support/two-servers.ts'

let directory: string
let server: Awaited<ReturnType<typeof startEmbeddedPostgres>>
let environment: TestEnvironment
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-second-'))
  const settings = { fsync: 'off', synchronous_commit: 'off' }
  server = await startEmbeddedPostgres({ directory: join(directory, 'postgres'), password: 'another', settings })
  environment = await openTestEnvironment(inject('postgresUrl'), {}, server.url)
}, 60_000)
afterAll(async () => {
  await environment?.end()
  await server?.stop()
  await rm(directory, { recursive: true, force: true })
})

const PAIRS = ISOLATIONS.flatMap((from) => ISOLATIONS.map((to) => ({ from, to })))

describe.each(PAIRS)('from $from to $to', ({ from, to }) => {
  const id = `${from.slice(0, 3)}-${to.slice(0, 3)}`
  const now = async () => {
    const { isolation, placement, status, maintenance } = await environment.tenancy.tenants.get(id)
    return { isolation, placement, status, maintenance }
  }
  const active = { status: 'active', maintenance: null }

  test('a tenant is moved to the other server, used, restored from its backup, and moved back', async () => {
    const handle = await environment.tenant(id, { isolation: from, placement: 'main' })
    const backup = await environment.transfers.backups.create(id)
    await environment.done(backup)

    await environment.done(await environment.transfers.move(id, { isolation: to, placement: 'other' }))
    expect(await now()).toEqual({ isolation: to, placement: 'other', ...active })
    await handle.db.insertInto('notes').values({ text: 'there' }).execute() // the handle from before the move
    expect(await environment.notes(id)).toEqual(['first', 'second', 'there'])

    await environment.done(await environment.transfers.backups.restore(id, { backupId: backup.id }))
    expect(await now()).toEqual({ isolation: to, placement: 'other', ...active })
    expect(await environment.notes(id)).toEqual(['first', 'second'])

    await environment.done(await environment.transfers.move(id, { undo: true }))
    expect(await environment.notes(id)).toEqual(['first', 'second', 'there'])
    await environment.done(await environment.transfers.move(id, { isolation: from, placement: 'main' }))
    expect(await now()).toEqual({ isolation: from, placement: 'main', ...active })
    expect(await environment.notes(id)).toEqual(['first', 'second', 'there'])
  })
})

test('no open connection and no storage is left on either server', async () => {
  await environment.transfers.recover()
  const { storage, reconciliation } = environment.tenancy.tenants
  for (const driver of storage.drivers) {
    for (const placement of ['main', 'other'])
      expect(await Array.fromAsync(reconciliation.mismatches(driver, placement))).toEqual([])
  }
})
