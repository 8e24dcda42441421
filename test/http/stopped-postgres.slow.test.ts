/** Every request is answered while PostgreSQL is stopped, and none of them commits after it has continued. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'
import { onServer, WAITING_LOCKS } from '../../src/testing/base/database.ts'
import { eventually, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Api, apiOf } from '../contract/calls.ts'
import { signalPostgres } from '../support/signal-postgres.ts'
import { notes } from './notes.fixture.ts'

const CONNECTIONS = 10
const DEADLINE_SECONDS = 3
const WAIT_SECONDS = 1

let directory: string
let postgres: EmbeddedPostgres
let made: TestTenancy<[ReturnType<typeof notes>]>
let api: Api
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-stopped-'))
  postgres = await startEmbeddedPostgres({
    directory: join(directory, 'postgres'),
    password: 'p',
    settings: { fsync: 'off', client_connection_check_interval: '0' },
  })
  made = await testTenancy(postgres.url, { satellites: [notes()], role: 'api' })
  api = apiOf(made.tenancy, { deadlineSeconds: DEADLINE_SECONDS })
})
afterAll(async () => {
  signal('SIGCONT')
  await made?.end()
  await postgres?.stop()
  await rm(directory, { recursive: true, force: true })
})

const signal = (name: 'SIGSTOP' | 'SIGCONT') => signalPostgres(postgres.pid, name)
const texts = async (): Promise<string[]> => {
  const { rows } = await made.tenancy.kernel.database.sql('select text from multitenancy.desk_notes order by text')
  return rows.map(({ text }) => text)
}
const add = (text: string, headers: Record<string, string> = {}) =>
  api.call('POST', '/tenants/acme/notes', { body: { text }, headers })
const keyed = (text: string) => add(text, { 'idempotency-key': text })
const names = (kind: string, count: number): string[] => Array.from({ length: count }, (_, index) => `${kind}-${index}`)
const isRecovered = () =>
  eventually(async () => expect(await api.call('GET', '/tenants')).toMatchObject({ status: 200 }))

test('requests to a stopped server end with 503, and their outcome is as they report', async () => {
  await Promise.all(names('warm', CONNECTIONS).map(() => api.call('GET', '/tenants'))) // opens the connections
  signal('SIGSTOP')
  const [reads, keyedNotes, unkeyedNotes, waits] = await Promise.all([
    Promise.all(names('read', 10).map(() => api.call('GET', '/tenants'))),
    Promise.all(names('keyed', 5).map(keyed)),
    Promise.all(names('unkeyed', 5).map((text) => add(text))),
    Promise.all(names('waiting', 2).map((text) => add(text, { prefer: `wait=${WAIT_SECONDS}` }))),
  ])
  for (const { status, json, headers } of [...reads, ...keyedNotes, ...unkeyedNotes, ...waits]) {
    expect({ status, code: json.code }).toEqual({ status: 503, code: 'E_DEADLINE_EXCEEDED' })
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
  }
  signal('SIGCONT')
  await isRecovered()

  for (const text of names('keyed', 5)) {
    await eventually(async () => expect(await keyed(text)).toMatchObject({ status: 201 }))
  }
  const written = await texts()
  expect(written.filter((text) => text.startsWith('keyed'))).toEqual(names('keyed', 5))
  for (const [index, { json }] of unkeyedNotes.entries()) {
    if (json.outcome === 'not_committed') expect(written).not.toContain(`unkeyed-${index}`)
  }
})

test('statements of expired requests are cancelled when the server continues', async () => {
  await onServer(made.url, async (holder) => {
    await holder.transaction(async () => {
      await holder.sql('lock table multitenancy.desk_notes in exclusive mode')
      const waiting = names('locked', 5).map(keyed)
      const isWaiting = async (count: number) => {
        const { rows } = await made.tenancy.kernel.database.sql(`select pid from ${WAITING_LOCKS}`)
        expect(rows).toHaveLength(count)
      }
      await eventually(() => isWaiting(5))
      signal('SIGSTOP')
      for (const response of await Promise.all(waiting)) {
        expect(response).toMatchObject({
          status: 503,
          json: { code: 'E_DEADLINE_EXCEEDED', outcome: 'not_committed' },
        })
      }
      signal('SIGCONT')
      await eventually(() => isWaiting(0)) // the lock is still held
    })
  })
  expect((await texts()).filter((text) => text.startsWith('locked'))).toEqual([])
  for (const text of names('locked', 5)) {
    await eventually(async () => expect(await keyed(text)).toMatchObject({ status: 201 }))
  }
  expect((await texts()).filter((text) => text.startsWith('locked'))).toEqual(names('locked', 5))
})
