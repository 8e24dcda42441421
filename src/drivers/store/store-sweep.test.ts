/** Tests that a failed removal of expired rows is logged and fails no call. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../kernel/base/clock.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import type { Store } from '../../kernel/store/store.ts'
import { type OpenedInPostgres, openInPostgres } from './postgres.fixture.ts'
import { postgresStore } from './postgres.ts'

const lines: string[] = []

let opened: OpenedInPostgres
let store: Store

beforeAll(async () => {
  opened = await openInPostgres()
  const { database } = opened
  const log = createLogger({ write: (line) => void lines.push(line) })
  store = postgresStore({ max: 1, timeoutMs: 10_000 }).open({ database, clock: systemClock, log })
  await database.sql(`create function multitenancy.reject_delete() returns trigger language plpgsql as
    $$ begin raise exception 'deletes are rejected here'; end $$`)
  for (const table of ['store', 'store_sums']) {
    await database.sql(`create trigger reject_delete before delete on multitenancy.${table}
      for each row execute function multitenancy.reject_delete()`)
  }
})
afterAll(async () => {
  await store.close()
  await opened.store.close()
  await opened.cleanUp()
})
beforeEach(() => void lines.splice(0))

test('a failed removal of expired entries is logged and fails no write', async () => {
  await opened.database.sql(
    `insert into multitenancy.store (owner, key, value, expires_at) values ('acme', 'old', 'x', now() - interval '1 day')`,
  )
  for (let n = 1; n <= 100; n++) await store.set('acme', 'key', String(n))
  expect(await store.get('acme', 'key')).toBe('100')
  expect(lines).toEqual([expect.stringMatching(/"level":40.*deletes are rejected here.*expired entries of the store/s)])
})

test('a failed removal of expired sums is logged and fails no batch', async () => {
  const source = randomUUID()
  const additions = [{ tenantId: 'acme', name: 'requests', amount: 1 }]
  for (let number = 1; number <= 100; number++) await store.sums.add({ day: '2020-01-01', source, number, additions })
  expect(await store.sums.read('acme', ['2020-01-01'])).toMatchObject([{ sum: 100 }])
  expect(lines).toEqual([expect.stringMatching(/"level":40.*deletes are rejected here.*expired sums/s)])
})
