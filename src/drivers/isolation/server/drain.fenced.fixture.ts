/** Tests drains after a fence, on every driver: acknowledged rows are stored, and no later transaction commits. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { StorageHandle } from '../../../tenants/handles/handle.ts'
import type { IsolationDriver } from '../../../tenants/isolation/driver.ts'
import { directHandle } from '../../../testing/base/direct-handle.ts'
import { locationIn, proofMigrations, type Subject } from '../../../testing/base/subject.ts'
import { eventually } from '../../../testing/base/tenancy.ts'
import { itemsOf, Outside } from '../../../testing/leak/operations-server.ts'
import { openSubject } from '../proof/subject.fixture.ts'

export const insert = (id: number, tenant: string) => ({
  text: 'insert into items (id, owner) values ($1, $2)',
  values: [id, `of ${tenant}`],
})

/** @param kinds of drivers that `drains` does not test */
export function fencedDrains(kinds: readonly string[]): void {
  describe.each(kinds)('a drain of %s', (kind) => {
    const outside = new Outside()
    let subject: Subject
    let driver: IsolationDriver

    beforeAll(async () => {
      subject = await openSubject(inject('postgresUrl'), kind, { limits: { max: 8, perTenant: 8 } })
      driver = await subject.open(proofMigrations(kind.startsWith('sqlite') ? 'sqlite' : 'postgres'))
    })
    afterAll(async () => {
      await outside.close()
      await subject.close()
    })
    behindTheFence(() => ({ subject, driver, outside }))
  })
}

interface Fenced {
  readonly subject: Subject
  readonly driver: IsolationDriver
  readonly outside: Outside
}

export function behindTheFence(fenced: () => Fenced): void {
  test('keeps every acknowledged write, and no write is stored afterwards', async () => {
    const { subject, driver, outside } = fenced()
    const other = driver.capabilities.durable ? await subject.open(proofMigrations(driver.capabilities.engine)) : driver
    const location = locationIn(subject, driver, 'hammered')
    const view = subject.viewOf?.(location)
    await driver.provision(location)
    const acknowledged = new Set<number>()
    let [next, isFinished, refused] = [0, false, 0]
    const write = async (handle: StorageHandle, worker: number) => {
      const id = next++
      const one = insert(id, 'hammered')
      if (worker % 4 === 0) return handle.pool.query(one).then(() => [id])
      const ids = [id, next++]
      const isolationLevel =
        (['read committed', 'repeatable read', 'serializable'] as const)[worker % 3] ?? 'serializable'
      await handle.db
        .transaction()
        .setIsolationLevel(isolationLevel)
        .execute(async (tx) => {
          for (const id of ids) await tx.insertInto('items').values({ id, owner: 'of hammered' }).execute()
        })
      return ids
    }
    const runWorker = async (number: number) => {
      const handle = directHandle(number % 2 ? driver : other, location)
      while (!isFinished) {
        const ids = await write(handle, number).catch(() => [])
        for (const id of ids) acknowledged.add(id)
        if (ids.length === 0) refused++
        await new Promise(setImmediate)
      }
    }
    const workers = Array.from({ length: 8 }, (_, number) => runWorker(number))
    await eventually(() => expect(acknowledged.size).toBeGreaterThan(200))
    await driver.fence(location)
    await driver.drain(location)
    const rows = async () => {
      if (view) {
        const text = `select id from ${itemsOf(view)} ${view.tenantColumn === undefined ? '' : 'where tenant_id = $1'}`
        return new Set(
          (await outside.all(view, text, view.tenantColumn === undefined ? [] : [view.tenantColumn])).map(
            ({ id }) => id,
          ),
        )
      }
      return undefined
    }
    const there = await rows()
    const before = refused
    await eventually(() => expect(refused).toBeGreaterThan(before + 50))
    isFinished = true
    await Promise.all(workers)
    if (!view) await driver.unfence(location)
    const later =
      (await rows()) ??
      new Set((await driver.execute(location, { text: 'select id from items' })).rows.map(({ id }) => id))
    if (there) expect(later).toEqual(there)
    expect([...acknowledged].filter((id) => !later.has(id))).toEqual([])
    await driver.drop(location)
  })

  test('succeeds for missing storage', async () => {
    const { subject, driver } = fenced()
    await driver.drain(locationIn(subject, driver, 'never'), { maxMs: 0 })
  })
}
