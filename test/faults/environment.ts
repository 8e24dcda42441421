/** A driver whose server is behind a fault proxy, with tenants that have a row each. */
import type { Kysely } from 'kysely'
import { expect } from 'vitest'
import { CONNECTIONS, openSubject } from '../../src/drivers/isolation/proof/subject.fixture.ts'
import type { StorageHandle } from '../../src/tenants/handles/handle.ts'
import type { IsolationDriver } from '../../src/tenants/isolation/driver.ts'
import { locationIn, proofMigrations, provisionedIn, type Subject } from '../../src/testing/base/subject.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import type { Outside } from '../../src/testing/leak/operations-server.ts'
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts'

const TENANTS = ['a', 'b', 'c', 'd', 'e']
const WAIT_MS = 1_000

export interface Environment {
  readonly subject: Subject
  readonly driver: IsolationDriver
  readonly proxy: FaultProxy
  readonly handles: readonly StorageHandle[]
}

export async function openEnvironment(serverUrl: string, kind: string): Promise<Environment> {
  const proxy = await startFaultProxy(serverUrl)
  const subject = await openSubject(serverUrl, kind, { way: (url) => proxy.through(url), limits: { waitMs: WAIT_MS } })
  const driver = await subject.open(proofMigrations('postgres'))
  const handles: StorageHandle[] = []
  for (const id of TENANTS) handles.push(await provisionedIn(subject, driver, id))
  for (const { id, db } of handles)
    await db
      .insertInto('items')
      .values({ id: 0, owner: `of ${id}` })
      .execute()
  return { subject, driver, proxy, handles }
}

export const rowsOf = (db: Kysely<any>) => db.selectFrom('items').select(['owner', 'id']).orderBy('id').execute()

/** State after every fault: no connection is in use, the budget is complete, and each row is in its tenant. */
export async function expectRecovered({ driver, handles, proxy }: Environment): Promise<void> {
  await eventually(() => {
    for (const { busy, waiting } of driver.connections()) expect({ busy, waiting }).toEqual({ busy: 0, waiting: 0 })
  })
  await eventually(async () => {
    let arrived = 0
    const { promise: everybody, resolve } = Promise.withResolvers<void>()
    const asked = handles.slice(0, CONNECTIONS).map(({ db }) =>
      db.transaction().execute(async (tx) => {
        await rowsOf(tx)
        if (++arrived === CONNECTIONS) resolve()
        await everybody
      }),
    )
    await Promise.all(asked).catch((error) => {
      resolve()
      throw error
    })
  })
  expect(proxy.open).toBeLessThanOrEqual(CONNECTIONS)
  for (const { id, db } of handles) {
    const rows = await rowsOf(db)
    expect(rows.map(({ owner }) => owner)).toEqual(rows.map(() => `of ${id}`))
    const ids = rows.map(({ id }) => id)
    expect(ids.includes(1)).toBe(ids.includes(2)) // one transaction wrote both
    await db.deleteFrom('items').where('id', '>', 0).execute()
  }
}

/**
 * Ends all sessions of the tenants' logins, and waits until the driver has detected the loss of idle ones; those in use
 * fail later.
 */
export async function endSessions({ subject, driver }: Environment, outside: Outside): Promise<void> {
  const views = TENANTS.flatMap((id) => subject.viewOf?.(locationIn(subject, driver, id)) ?? [])
  const [view] = views
  if (!view) throw new Error('the subject must have a server')
  const logins = views.map(({ tenantUrl }) => decodeURIComponent(new URL(tenantUrl).username))
  const idle = () => driver.connections().reduce((sum, one) => sum + one.idle, 0)
  const terminate = 'select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = any($1)'
  await outside.all(view, terminate, [logins])
  await eventually(() => expect(idle()).toBe(0))
}
