/**
 * Erasures whose process is killed after each step, and at other times: another process continues, and the report has what the first search has found.
 * An unavailable server delays an erasure until it is available again.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { startChild } from '../support/child.ts'
import { type Proxy as ServerProxy, startProxy } from '../support/proxy.ts'
import { openTestEnvironment, type TestEnvironment } from '../support/two-servers.ts'
import type { ProcessCommand, ProcessOptions } from './process.fixture.ts'

const PROGRAM = new URL('./process.fixture.ts', import.meta.url)
/** As in the program. */
const LEASE_MS = 1_000
const SYSTEMS = ['placements', 'store', 'archives', 'backoffice', 'jobs', 'audit log']
/** Milliseconds after the start of an attempt. */
const KILLED_AFTER = [3, 10, 25, 50, 100]
const signal = AbortSignal.timeout(300_000)
const request = (id: string) => ({ confirm: id, reason: 'request 4711' })

let proxy: ServerProxy
let environment: TestEnvironment<[ReturnType<typeof auditLogs>]>
beforeAll(async () => {
  proxy = await startProxy(inject('postgresUrl'))
  const options = { satellites: [auditLogs()] as [ReturnType<typeof auditLogs>], role: 'api' as const }
  environment = await openTestEnvironment(inject('postgresUrl'), options, proxy.url)
})
afterAll(async () => {
  await environment?.end()
  await proxy?.close()
})

/** A tenant with rows, former storage, an archive, and a key in the store. */
async function plant(id: string, isolation: string): Promise<void> {
  const { tenants, kernel } = environment.tenancy
  await tenants.create({ id, name: id, isolation })
  await tenants.installation.install(id, { isLast: true })
  await (await environment.tenancy.tenant(id)).db.insertInto('notes').values({ text: 'note' }).execute()
  const { id: backupId } = await tenants.transfers.backups.create(id)
  await tenants.transfers.work(backupId, { isLast: true, signal })
  const { transfer } = await tenants.transfers.move(id, { placement: 'other' })
  await tenants.transfers.work(transfer.id, { isLast: true, signal })
  await kernel.store.set(id, 'key', 'value')
}

/** The report has what the first search has found, and nothing remains. */
async function assertErased(id: string): Promise<void> {
  const { erasures } = environment.tenancy.tenants
  await eventually(async () => {
    await erasures.work(id, { signal })
    expect((await erasures.get(id)).state).toBe('completed')
  })
  const { report, signature } = await erasures.get(id)
  const lines = report?.systems.filter(({ kept }) => kept === null) ?? []
  expect(signature).toMatchObject({ key: 'audit', isValid: true })
  expect(lines.filter(({ system }) => system === 'placements').map(({ found }) => found)).toEqual([1, 1])
  for (const one of ['archives', 'store']) {
    expect(lines.find(({ system }) => system === one)).toMatchObject({ found: 1, removed: 1, foundAfterwards: 0 })
  }
  expect(lines.every(({ found, removed, foundAfterwards }) => found === removed && foundAfterwards === 0)).toBe(true)
  expect(await environment.files()).toEqual([])
}

/** All steps on one driver; on the others those that depend on it. */
const KILLED = { 'schema-pg': SYSTEMS, 'rowscope-pg': ['placements'], 'database-pg': ['placements'] } as const

describe.each(Object.entries(KILLED))('an erasure on %s', (isolation, systems) => {
  const counted = isolation === 'rowscope-pg' ? ['placements counted'] : []
  const points = ['placements found', ...counted, ...systems.map((system) => `${system} removed`)]
  test.each(points)('ends after its process was killed after the step "%s"', async (killAfter) => {
    const id = `after-${isolation.slice(0, 3)}-${killAfter.replaceAll(' ', '-')}`
    await plant(id, isolation)
    await environment.tenancy.tenants.erasures.request(id, request(id))
    const { url, otherUrl, archives } = environment
    const child = await startChild(PROGRAM, { url, otherUrl, archives } satisfies ProcessOptions)
    await expect(child.request({ work: id, killAfter } satisfies ProcessCommand)).rejects.toThrow('has exited')
    await assertErased(id)
  })

  test('ends after its process was killed at any time', async () => {
    const { erasures } = environment.tenancy.tenants
    const id = `ended-${isolation.slice(0, 3)}`
    await plant(id, isolation)
    await erasures.request(id, request(id))
    for (const delayMs of KILLED_AFTER) {
      const { url, otherUrl, archives } = environment
      const child = await startChild(PROGRAM, { url, otherUrl, archives } satisfies ProcessOptions)
      const working = child.request({ work: id } satisfies ProcessCommand).catch(() => undefined)
      await sleep(delayMs)
      await child.kill('SIGKILL')
      await working
      await sleep(LEASE_MS) // the next attempt can claim the erasure
    }
    await assertErased(id)
  })
})

test('a transaction from before the fence commits no rows after the erasure', async () => {
  const { tenants, kernel } = environment.tenancy
  await tenants.create({ id: 'open', name: 'open', isolation: 'rowscope-pg' })
  await tenants.installation.install('open', { isLast: true })
  const client = await (await environment.tenancy.tenant('open')).pool.connect()
  await client.query('begin')
  await client.query(`insert into notes (text) values ('late')`)
  await tenants.erasures.request('open', request('open'))
  await tenants.erasures.work('open', { signal })
  await client.query('commit').catch(() => undefined) // the erasure has ended its session
  client.release(true)
  expect(await tenants.erasures.get('open')).toMatchObject({ state: 'completed' })
  const { rows } = await kernel.database.sql(`select text from tenantry_rows.notes where tenant_id = 'open'`)
  expect(rows).toEqual([])
})

test('an unavailable placement keeps the erasure pending with its name, and delays no other removal but that of the rows', async () => {
  const { tenants, kernel } = environment.tenancy
  const { erasures } = tenants
  await plant('away', 'schema-pg')
  await proxy.close()
  await erasures.request('away', request('away'))
  await erasures.work('away', { signal })
  expect(await erasures.get('away')).toMatchObject({ state: 'pending', waitingFor: 'placement "other"', report: null })
  expect(await environment.files()).toEqual([])
  expect(await kernel.store.count('away')).toBe(0)
  const { rows } = await kernel.database.sql(`select purged_at from multitenancy.tenants where id = 'away'`)
  expect(rows).toEqual([{ purged_at: null }])
  await expect(tenants.restore('away')).rejects.toMatchObject({ code: 'E_TENANT_STATE' })

  await proxy.open()
  await eventually(async () => {
    await erasures.work('away', { signal })
    expect(await erasures.get('away')).toMatchObject({ state: 'completed', waitingFor: null })
  })
})

test('a move in progress is cancelled, and both storage locations are removed', async () => {
  const { tenants } = environment.tenancy
  const { erasures } = tenants
  await tenants.create({ id: 'moving', name: 'moving' })
  await tenants.installation.install('moving', { isLast: true })
  const { transfer } = await tenants.transfers.move('moving', { placement: 'other' })
  const moved = tenants.transfers.work(transfer.id, { isLast: true, signal })
  await eventually(async () => {
    expect((await tenants.transfers.get('moving', transfer.id)).state).not.toBe('pending')
  })
  await erasures.request('moving', request('moving'))
  await Promise.all([moved, erasures.work('moving', { signal })])
  expect(await erasures.get('moving')).toMatchObject({ state: 'completed', waitingFor: null })
  for (const placement of tenants.storage.placements) {
    expect(await tenants.storage.driver('schema-pg').search?.(placement, 'moving', 3)).toEqual([])
  }
})
