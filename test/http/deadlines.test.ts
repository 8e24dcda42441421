/** Requests to the admin API that exceed their deadline. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { operation, StreamReply } from '../../src/kernel/api/operation.ts'
import type { Database } from '../../src/kernel/database/database.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Opened, openApi } from '../contract/api.ts'
import type { Api } from '../contract/calls.ts'
import { type Notes, notes } from './notes.fixture.ts'

const SHORT = 0.3
const LOCK = 4711
const never = new Promise<never>(() => undefined)

/** A COMMIT with a slow note waits for an advisory lock. */
const SLOW_COMMIT = `
  create function public.wait_for_lock() returns trigger language plpgsql as $$ begin
    if new.text like 'slow commit%' then perform pg_advisory_xact_lock(${LOCK}); end if;
    return null;
  end $$;
  create constraint trigger slow_commit after insert on multitenancy.desk_notes
    deferrable initially deferred for each row execute function public.wait_for_lock()`

/** Operations that do not end. */
const slow = defineSatellite({
  name: 'slow',
  summary: 'Slow operations',
  service: ({ database }: Kernel) => database,
  operations: [
    operation({
      name: 'slow.read',
      method: 'GET',
      path: '/slow',
      summary: 'Read slowly',
      reply: z.void(),
      handle: async (database: Database) => void (await database.sql('select pg_sleep(60)')),
    }),
    operation({
      name: 'slow.change',
      method: 'PUT',
      path: '/slow/{text}',
      summary: 'Change, and do not end',
      params: z.object({ text: z.string() }),
      reply: z.void(),
      handle: async (database: Database, { params }) => {
        await database.sql(`insert into multitenancy.desk_notes values ('slow', $1)`, [params.text])
        await never
      },
    }),
    operation({
      name: 'slow.send',
      method: 'PUT',
      path: '/slow/{text}/sent',
      summary: 'Change another system, and do not end',
      changesOutside: true,
      params: z.object({ text: z.string() }),
      reply: z.void(),
      handle: async () => {
        await never
      },
    }),
    operation({
      name: 'slow.export',
      method: 'GET',
      path: '/slow/export',
      summary: 'Export slowly',
      reply: z.void(),
      streams: ['text/plain'],
      handle: async (database: Database) =>
        new StreamReply(
          'text/plain',
          'slow.txt',
          (async function* () {
            for (let part = 0; part < 3; part++) {
              await database.sql(`select pg_sleep(${SHORT / 2})`)
              yield `part ${part}\n`
            }
            await database.sql('select pg_sleep(60)')
          })(),
        ),
    }),
  ],
})

let opened: Opened
/** Another process with a short deadline. */
let hasty: Api
/** Of that process. */
let service: Notes
beforeAll(async () => {
  opened = await openApi(inject('postgresUrl'), { satellites: [notes(), slow], role: 'api' })
  hasty = await opened.open({}, { deadlineSeconds: SHORT, streamIdleSeconds: SHORT })
  service = (hasty.tenancy as unknown as { notes: Notes }).notes
  await sql(SLOW_COMMIT)
})
afterAll(() => opened.end())

let id: string
beforeEach(() => {
  id = crypto.randomUUID()
  service.gate = Promise.resolve()
})

const sql = async (text: string) => (await opened.tenancy.kernel.database.sql(text)).rows
const keyed = () => ({ 'idempotency-key': `key-${id}` })
const add = (api: Api, text: string, headers: Record<string, string> = {}) =>
  api.call('POST', `/tenants/${id}/notes`, { body: { text }, headers })
const exceeded = (outcome: 'not_committed' | 'unknown') => ({
  status: 503,
  json: { code: 'E_DEADLINE_EXCEEDED', outcome },
})
/** Statements and transactions in progress, of others. */
const busy = () =>
  sql(`select query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
       and (state in ('active', 'idle in transaction') or wait_event = 'PgSleep')`)

test('a read is answered at its deadline, and its statement is cancelled at PostgreSQL', async () => {
  const response = await hasty.call('GET', '/slow')
  expect(response).toMatchObject(exceeded('not_committed'))
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
  await eventually(async () => expect(await busy()).toEqual([]))
})

test('a change in a transaction at its deadline is not committed', async () => {
  service.gate = never
  const response = await add(hasty, 'hello', keyed())
  expect(response).toMatchObject(exceeded('not_committed'))
  await eventually(async () => expect(await busy()).toEqual([]))
  expect(await service.of(id)).toEqual([])

  service.gate = Promise.resolve()
  await eventually(async () => expect(await add(opened, 'hello', keyed())).toMatchObject({ status: 201 }))
  expect((await add(opened, 'hello', keyed())).headers.get('idempotency-replayed')).toBe('true')
  expect(await service.of(id)).toEqual(['hello'])
})

test('a change that continues after its deadline is not committed', async () => {
  const gate = Promise.withResolvers<void>()
  service.gate = gate.promise
  expect(await add(hasty, 'hello', keyed())).toMatchObject(exceeded('not_committed'))
  gate.resolve()
  await eventually(async () => expect(await add(opened, 'hello', keyed())).toMatchObject({ status: 201 }))
  expect(await service.of(id)).toEqual(['hello'])
})

test('a change outside of the transaction has an unknown outcome', async () => {
  expect(await hasty.call('PUT', '/slow/hello/sent')).toMatchObject(exceeded('unknown'))
})

test('a COMMIT in progress at the deadline has an unknown outcome, and its key is safe to repeat', async () => {
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const holder = opened.tenancy.kernel.database.transaction(async () => {
    await sql(`select pg_advisory_xact_lock(${LOCK})`)
    locked.resolve()
    await release.promise
  })
  await locked.promise
  const response = await add(hasty, 'slow commit', keyed())
  expect(response).toMatchObject(exceeded('unknown'))
  expect(response.json.detail).toContain('same Idempotency-Key')
  release.resolve()
  await holder
  await eventually(async () => expect(await add(opened, 'slow commit', keyed())).toMatchObject({ status: 201 }))
  expect(await service.of(id)).toEqual(['slow commit'])
})

test('a change outside of a transaction has an unknown outcome', async () => {
  const response = await hasty.call('PUT', `/slow/${id}`)
  expect(response).toMatchObject(exceeded('unknown'))
  expect(response.json.detail).toContain('Read the state')
})

describe('Prefer: wait', () => {
  test('adds its time to the deadline', async () => {
    const gate = Promise.withResolvers<void>()
    service.gate = gate.promise
    const response = add(hasty, 'hello', { prefer: 'wait=20' })
    await expect(add(hasty, 'hello')).resolves.toMatchObject(exceeded('unknown'))
    gate.resolve()
    expect(await response).toMatchObject({ status: 201 })
  })

  test('at the deadline of its wait, the response is the one from before the wait', async () => {
    service.gate = Promise.resolve()
    service.wait = never
    try {
      const headers = { ...keyed(), prefer: 'wait=0' }
      const response = await add(hasty, 'hello', headers)
      expect(response).toMatchObject({ status: 201, json: { text: 'hello' } })
      expect((await add(opened, 'hello', headers)).text).toBe(response.text)
    } finally {
      service.wait = Promise.resolve()
    }
  })
})

test('an export has no deadline, and ends when a part takes too long', async () => {
  const request = new Request('http://localhost/admin/multitenancy/slow/export', {
    headers: { 'x-admin-token': 'token-of-an-admin-0123456789' },
  })
  const { body } = await hasty.http.fetch(request)
  let text = ''
  const read = async () => {
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) text += chunk
  }
  await expect(read()).rejects.toThrow('the response was aborted')
  expect(text).toBe('part 0\npart 1\npart 2\n')
  await eventually(async () => expect(await busy()).toEqual([]))
})
