import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import {
  eventually,
  installed,
  notificationsReceived,
  type TestTenancy,
  testTenancy,
} from '../../testing/base/tenancy.ts'

const SUSPENDED = { code: 'E_TENANT_SUSPENDED', status: 403 }

let opened: TestTenancy<[]>
let here: Tenancy
/** A second process on the same database. */
let there: Tenancy
let server: Database
let id: string

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  here = opened.tenancy
  there = await opened.open({ database: { url: `${opened.url}?application_name=there` }, role: 'api' })
  server = new Database({ url: inject('postgresUrl'), max: 1 }, createLogger({ level: 'silent' }))
})
beforeEach(async () => {
  const tenant = await installed(here, { name: 'Acme' })
  id = tenant.id
  await notificationsReceived(there)
  await there.tenant(id)
})
afterAll(async () => {
  await server.close()
  await opened.end()
})

const sql = (text: string, values?: string[]) => here.kernel.database.sql(text, values)
/** A change without a notification, invisible to caches. */
const changeInSecret = (status: string) =>
  sql('update multitenancy.tenants set status = $2 where id = $1', [id, status])
const loseListener = async () => {
  const { rows } = await sql(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'there' and query ~* '^(listen|select 1$)'`)
  expect(rows.length).toBeGreaterThan(0)
  await eventually(() => expect(there.kernel.database.isListening).toBe(false))
}
/** Existing connections remain; new ones are refused if `allowed` is false. */
const allowConnections = (allowed: boolean) =>
  server.sql(`alter database ${new URL(opened.url).pathname.slice(1)} allow_connections ${allowed}`)

describe('lookups on every request', () => {
  test('are served from memory', async () => {
    await changeInSecret('suspended')
    await there.tenant(id)
  })

  test('see a change in every process', async () => {
    await here.tenants.suspend(id)
    await expect(here.tenant(id)).rejects.toMatchObject(SUSPENDED)
    await eventually(() => expect(there.tenant(id)).rejects.toMatchObject(SUSPENDED))
    await there.tenants.activate(id)
    await there.tenant(id)
    await eventually(() => here.tenant(id))
    await here.tenants.delete(id)
    const gone = { code: 'E_TENANT_NOT_FOUND', message: `Tenant "${id}" not found.` }
    await eventually(() => expect(there.tenant(id)).rejects.toMatchObject(gone))
    await expect(there.tenant('never')).rejects.toMatchObject({ ...gone, message: 'Tenant "never" not found.' })
  })

  test('do not see a change before its commit, or after its rollback', async () => {
    const failing = here.transaction(async () => {
      await here.tenants.suspend(id)
      await expect(here.tenant(id)).rejects.toMatchObject(SUSPENDED)
      await there.tenant(id)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    await here.tenant(id)
    await there.tenant(id)
  })

  test('are never older than the last notification, with any number of concurrent lookups', async () => {
    let isFinished = false
    const ask = async () => {
      while (!isFinished) {
        await there.tenants.registry.find(id)
        await new Promise(setImmediate) // lookups from memory are synchronous
      }
    }
    const asking = Promise.all([ask(), ask(), ask()])
    for (let round = 0; round < 40; round++) {
      // The changes follow so closely that the read caused by the first one is outdated on arrival.
      await Promise.all(['a', 'b', 'c'].map((key) => here.tenants.update(id, { metadata: { [key]: round } })))
      await notificationsReceived(there)
      expect((await there.tenants.registry.find(id))?.tenant.metadata).toEqual({ a: round, b: round, c: round })
    }
    isFinished = true
    await asking
  })
})

describe('a process that cannot receive notifications', () => {
  test('is notified after a gap that changes may have been missed', async () => {
    await loseListener()
    await changeInSecret('suspended')
    await eventually(() => expect(there.kernel.database.isListening).toBe(true))
    await expect(there.tenant(id)).rejects.toMatchObject(SUSPENDED)
    await here.tenants.activate(id)
    await eventually(() => there.tenant(id))
  })

  test('trusts its cache for five seconds', async () => {
    await allowConnections(false)
    try {
      await loseListener()
      vi.useFakeTimers({ toFake: ['performance'] })
      await there.tenants.update(id, { name: 'A name without a notification' })
      await there.tenant(id)
      await here.tenants.suspend(id)
      await there.tenant(id)
      vi.advanceTimersByTime(5_001)
      await expect(there.tenant(id)).rejects.toMatchObject(SUSPENDED)
    } finally {
      vi.useRealTimers()
      await allowConnections(true)
    }
    await eventually(() => expect(there.kernel.database.isListening).toBe(true))
  })
})
