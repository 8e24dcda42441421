import pg from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../../testing/base/database.ts'
import { lockOf } from './owner-transaction.ts'
import { aloneWithTimeout, locked, lockedWithTimeout } from './storage-lock.ts'

const SOON = { lockTimeoutMs: 50 }
/** Their keys are negative and positive, with the highest bit of each half set or not. */
const NAMES = ['t1_acme', 't1_globex', 'a', 'b', 'c', 'd', 'e', 'f']

let created: TestDatabase
let holder: pg.Client
let client: pg.Client
beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  holder = new pg.Client({ connectionString: created.url, application_name: 'hanging' })
  client = new pg.Client({ connectionString: created.url })
  await holder.connect()
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await holder.end()
  await created.drop()
})

const pidOf = async (one: pg.Client) => (await one.query('select pg_backend_pid() as pid')).rows[0].pid
const never = async () => expect.fail('the lock was taken although another session has it')
const waits = {
  'in a transaction': (name: string) => aloneWithTimeout(client, name, never, SOON),
  'as a part of another': (name: string) => aloneWithTimeout(client, 'part', never, { ...SOON, partOf: name }),
  'for a session': (name: string) => lockedWithTimeout(client, lockOf(name), never, SOON),
}
/** Checks that no lock, transaction or setting is left. */
async function expectClean(): Promise<void> {
  const { rows } = await client.query(
    `select current_setting('lock_timeout') as "lockTimeout", pg_current_xact_id_if_assigned() as transaction,
       now() = statement_timestamp() as "isAlone",
       (select count(*)::int from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks`,
  )
  expect(rows).toEqual([{ lockTimeout: '0', transaction: null, isAlone: true, locks: 0 }])
}

test.each(Object.entries(waits))(
  'a caller that waits %s fails after the timeout with the lock’s holder and leaves nothing on the connection',
  async (_, wait) => {
    const pid = await pidOf(holder)
    for (const name of NAMES) {
      await holder.query(`begin; select pg_advisory_xact_lock(${lockOf(name)})`)
      const failure = await wait(name).catch((error) => error)
      await holder.query('commit')
      expect(failure).toMatchObject({
        code: 'E_DEPENDENCY_UNAVAILABLE',
        status: 503,
        message: expect.stringMatching(/in use by another process since \d{4}-.* The call is repeated/),
        cause: { message: expect.stringContaining(`${pid} (hanging, `) },
      })
      expect(failure.message).not.toContain(String(pid))
      await expectClean()
    }
  },
)

test('the wait for a lock inside of the work is limited, too', async () => {
  await holder.query('create table kept (); commit; begin; lock table kept')
  const dropping = aloneWithTimeout(client, 'own', () => client.query('drop table kept'), SOON)
  await expect(dropping).rejects.toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  await holder.query('commit')
  await expectClean()
})

test.each([
  ['in a transaction', () => aloneWithTimeout(client, 'own', async () => 'done', SOON)],
  ['as a part with other parts', () => aloneWithTimeout(client, 'own', async () => 'done', { partOf: 'whole' })],
  ['for a session', () => lockedWithTimeout(client, lockOf('own'), async () => 'done', SOON)],
  ['for a session, without a timeout', () => locked(client, lockOf('own'), async () => 'done')],
])('a free lock is taken immediately, %s, and released', async (_, work) => {
  await holder.query(`begin; select pg_advisory_xact_lock_shared(${lockOf('whole')})`)
  expect(await work()).toBe('done')
  await holder.query('commit')
  await expectClean()
})

test('a failed work passes on its error and releases the lock', async () => {
  const failure = new Error('no')
  const fail = () => Promise.reject(failure)
  await expect(aloneWithTimeout(client, 'own', fail)).rejects.toBe(failure)
  await expect(lockedWithTimeout(client, lockOf('own'), fail)).rejects.toBe(failure)
  await expectClean()
})
