/** The stream of changes: over processes, by permission, with missed changes, and its end. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../../http/app.ts'
import { serveNode } from '../../http/hosts/node.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { eventually, notificationsReceived, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Tenancy } from '../tenancy.ts'
import { MAX_STREAMS, MAX_STREAMS_OF_CALLER } from './activity.ts'

const ADMIN = 'token-of-an-admin-0123456789'
const ORIGIN = 'http://localhost'
const ACTIVITY = `${ORIGIN}/admin/multitenancy/activity`

let world: TestTenancy<[]>
let here: Http
/** Another process. */
let other: Tenancy<[]>
let there: Http
const open: Reading[] = []

const httpOf = (tenancy: Tenancy<[]>) => createHttp(tenancy, { adminTokens: [{ name: 'admin', token: ADMIN }] })
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), { role: 'api' })
  other = await world.open()
  here = httpOf(world.tenancy)
  there = httpOf(other)
  for (const id of ['acme', 'globex']) await install(id)
})
beforeEach(async () => {
  for (const one of [world.tenancy, other]) await notificationsReceived(one)
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})
afterAll(() => world.end())

async function install(id: string): Promise<void> {
  await world.tenancy.tenants.create({ id, name: id })
  await world.tenancy.tenants.installation.install(id, { isLast: true })
}

const tokenOf = async (may: string[], tenants?: string[]) =>
  world.tenancy.tokens.create({ name: `${may} ${tenants} ${Math.random()}`, may, tenants })

async function signIn(): Promise<string> {
  const headers = { 'content-type': 'application/json', origin: ORIGIN }
  const body = JSON.stringify({ token: ADMIN })
  const url = `${ORIGIN}/admin/multitenancy/session`
  const response = await here.fetch(new Request(url, { method: 'POST', headers, body }))
  return response.headers.getSetCookie()[0]?.split(';')[0] ?? expect.fail('no cookie')
}

interface Event {
  readonly id: string
  readonly event: string
  readonly data: any
}

interface Reading {
  readonly response: Response
  readonly events: Event[]
  readonly ids: string[]
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>
  close(): Promise<void>
}

async function read(http: Http, headers: Record<string, string> = {}): Promise<Reading> {
  const identity = headers.cookie === undefined ? { 'x-admin-token': ADMIN } : {}
  const request = new Request(ACTIVITY, { headers: { accept: 'text/event-stream', ...identity, ...headers } })
  const response = await http.fetch(request)
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  const [events, ids]: [Event[], string[]] = [[], []]
  const ended = (async () => {
    let text = ''
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      const blocks = (text + part.value).split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const members = Object.fromEntries(block.split('\n').map((line) => line.split(/: ?(.*)/s, 2)))
        if (members.id) ids.push(members.id)
        if (members.event) events.push({ id: members.id, event: members.event, data: JSON.parse(members.data) })
      }
    }
  })()
  const reading = { response, events, ids, ended, close: async () => void (await reader?.cancel()) }
  open.push(reading)
  if (response.status === 200) await eventually(() => expect(ids.length).toBeGreaterThan(0))
  return reading
}

const namesOf = ({ events }: Reading) => events.map(({ event, data }) => data.action ?? event)
const until = (reading: Reading, action: string) => eventually(() => expect(namesOf(reading)).toContain(action))

describe('the stream of changes', () => {
  test('a change in one process reaches the streams of every process, with names only', async () => {
    const streams = [await read(here), await read(there)]
    await world.tenancy.tenants.update('acme', { name: 'A secret name' })
    for (const stream of streams) {
      await until(stream, 'tenants.update')
      const [{ data, id }] = stream.events as [Event]
      expect(data).toEqual({
        action: 'tenants.update',
        tenantId: 'acme',
        target: 'tenant:acme',
        at: expect.stringMatching(/^\d{4}-.*Z$/),
      })
      expect(id).toBe(streams[0]?.events[0]?.id)
    }
    expect(streams[0]?.response.headers.get('content-type')).toBe('text/event-stream')
    expect(streams[0]?.response.headers.get('content-disposition')).toBeNull()
  })

  test('a transaction sends one notification, after its commit, and none after a rollback', async () => {
    const payloads: string[] = []
    const listening = await other.kernel.database.listen(
      'multitenancy_activity',
      (payload) => payloads.push(payload),
      () => undefined,
    )
    const stream = await read(there)
    const { tenants } = world.tenancy
    const failed = world.tenancy.transaction(async () => {
      await tenants.update('acme', { name: 'Never' })
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    await world.tenancy.transaction(async () => {
      await tenants.update('acme', { name: 'First' })
      await world.tenancy.transaction(() => tenants.update('globex', { name: 'Second' }))
      await world.tenancy
        .transaction(async () => {
          await tenants.enterMaintenance('globex')
          throw new Error('rolled back')
        })
        .catch(() => undefined)
      expect(stream.events).toEqual([])
    })
    await eventually(() => expect(stream.events.map(({ data }) => data.tenantId)).toEqual(['acme', 'globex']))
    expect(payloads).toHaveLength(1)
    await listening.close()
  })

  test('a transaction with more changes than a notification can hold is a gap', async () => {
    const stream = await read(there)
    await world.tenancy.transaction(async () => {
      for (let n = 0; n < 100; n++) await recordChange(world.tenancy.kernel.events, change(`tenant:${n}`))
    })
    await until(stream, 'gap')
    expect(stream.events).toHaveLength(1)
  })

  test('a use that changes nothing is not sent', async () => {
    const stream = await read(here)
    await recordChange(world.tenancy.kernel.events, {
      ...change('operation:x'),
      action: 'tokens.deny',
      isChange: false,
    })
    await recordChange(world.tenancy.kernel.events, change('tenant:last'))
    await eventually(() => expect(stream.events.map(({ data }) => data.target)).toEqual(['tenant:last']))
  })
})

const change = (target: string) => ({ action: 'tenants.update', tenantId: null, target })

describe('missed changes', () => {
  test('a reader continues after its last event in another process', async () => {
    const first = await read(here)
    await world.tenancy.tenants.update('acme', { name: 'One' })
    await until(first, 'tenants.update')
    await first.close()
    await world.tenancy.tenants.enterMaintenance('acme')
    await world.tenancy.tenants.exitMaintenance('acme')
    const lastEventId = first.events[0]?.id ?? ''
    const second = await read(there, { 'last-event-id': lastEventId })
    await eventually(() => expect(namesOf(second)).toEqual(['tenants.enterMaintenance', 'tenants.exitMaintenance']))
    expect(namesOf(await read(there, { 'last-event-id': second.events[1]?.id ?? '' }))).toEqual([])
  })

  test('a reader without an event continues after the id of the start of its stream', async () => {
    const first = await read(here)
    await first.close()
    await world.tenancy.tenants.update('acme', { name: 'Two' })
    const second = await read(here, { 'last-event-id': first.ids[0] ?? '' })
    await until(second, 'tenants.update')
    expect(second.events).toHaveLength(1)
  })

  test('a reader whose last event is unknown, or older than the last 1,000, receives a gap', async () => {
    const first = await read(here)
    await world.tenancy.tenants.update('acme', { name: 'Three' })
    await until(first, 'tenants.update')
    for (let n = 0; n < 1_000; n += 20) {
      await world.tenancy.transaction(async () => {
        for (let m = n; m < n + 20; m++) await recordChange(world.tenancy.kernel.events, change(`tenant:${m}`))
      })
    }
    await eventually(() => expect(first.events.at(-1)?.data.target).toBe('tenant:999'))
    for (const id of ['unknown', first.events[0]?.id ?? '']) {
      const late = await read(here, { 'last-event-id': id })
      expect(namesOf(late)).toEqual(['gap'])
    }
  })

  test('a lost connection for notifications is a gap', async () => {
    const stream = await read(there)
    await world.tenancy.kernel.database.sql(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'tenantry listener'`,
    )
    await until(stream, 'gap')
    await eventually(async () => {
      await world.tenancy.tenants.update('acme', { name: `Again ${stream.events.length}` })
      expect(namesOf(stream)).toContain('tenants.update')
    })
  })
})

describe('permissions', () => {
  test('a token receives the changes that it could read, of its tenants', async () => {
    const [ofAcme, ofWebhooks, counter, reader] = await Promise.all([
      tokenOf(['tenants.*'], ['acme']),
      tokenOf(['tokens.list']),
      tokenOf(['tenants.counts']),
      tokenOf(['read']),
    ])
    const limited = await read(there, { 'x-admin-token': ofAcme.token })
    const foreign = await read(there, { 'x-admin-token': ofWebhooks.token })
    const counts = await read(there, { 'x-admin-token': counter.token })
    const all = await read(there, { 'x-admin-token': reader.token })
    await world.tenancy.tenants.update('globex', { name: 'Four' })
    await world.tenancy.tokens.delete((await tokenOf(['admin'])).id)
    await recordChange(world.tenancy.kernel.events, { action: 'crm.sync', tenantId: 'acme', target: 'crm:1' })
    await world.tenancy.tenants.update('acme', { name: 'Five' })
    await eventually(() =>
      expect(namesOf(all)).toEqual(['tenants.update', 'tokens.create', 'tokens.delete', 'crm.sync', 'tenants.update']),
    )
    await eventually(() => expect(limited.events.map(({ data }) => data.tenantId)).toEqual(['acme']))
    expect(namesOf(foreign)).toEqual(['tokens.create', 'tokens.delete'])
    expect(counts.events).toEqual([])
    const request = new Request(ACTIVITY, { headers: { 'x-admin-token': ofAcme.token } })
    const listed = await ((await there.fetch(request)).json() as Promise<{ data: { tenantId: string }[] }>)
    expect(new Set(listed.data.map(({ tenantId }) => tenantId))).toEqual(new Set(['acme']))
  })

  test('a stream ends when its token is revoked in another process, and receives no later change', async () => {
    const { id, token } = await tokenOf(['tenants.*', 'tokens.*'])
    await notificationsReceived(other)
    const stream = await read(there, { 'x-admin-token': token })
    await world.tenancy.tokens.delete(id)
    await stream.ended
    expect(stream.events).toEqual([])
    await eventually(async () => expect((await read(there, { 'x-admin-token': token })).response.status).toBe(401))
  })

  test('a stream ends when its session is signed out in another process', async () => {
    const cookie = await signIn()
    const stream = await read(there, { cookie, 'sec-fetch-site': 'same-origin' })
    const request = { method: 'DELETE', headers: { cookie, origin: ORIGIN } }
    expect((await here.fetch(new Request(`${ORIGIN}/admin/multitenancy/session`, request))).status).toBe(204)
    await stream.ended
  })

  test('a session reads a stream only from a page of the same origin', async () => {
    const cookie = await signIn()
    for (const site of [undefined, 'none', 'same-site', 'cross-site']) {
      const headers: Record<string, string> = { cookie, ...(site ? { 'sec-fetch-site': site } : {}) }
      expect((await read(here, headers)).response.status).toBe(403)
    }
    expect((await read(here, { cookie, 'sec-fetch-site': 'same-origin' })).response.status).toBe(200)
    const page = new Request(ACTIVITY, { headers: { cookie } })
    expect((await here.fetch(page)).status).toBe(200)
  })
})

describe('streams of a process', () => {
  test('a caller has at most 20 streams with all its sessions, others 20 more, and a closed one leaves its place', async () => {
    const streams = await Promise.all(Array.from({ length: MAX_STREAMS_OF_CALLER }, () => read(here)))
    const ofSession = await read(here, { cookie: await signIn(), 'sec-fetch-site': 'same-origin' })
    for (const { response } of [await read(here), ofSession]) {
      expect(response.status).toBe(503)
      expect(response.headers.get('retry-after')).toBe('15')
    }
    const other = await tokenOf(['tenants.*'])
    expect((await read(here, { 'x-admin-token': other.token })).response.status).toBe(200)
    await streams[0]?.close()
    expect((await read(here)).response.status).toBe(200)
  })

  test('a process has at most 100 streams', async () => {
    const callers = await Promise.all(
      Array.from({ length: MAX_STREAMS / MAX_STREAMS_OF_CALLER }, () => tokenOf(['tenants.*'])),
    )
    for (const { token } of callers) {
      await Promise.all(Array.from({ length: MAX_STREAMS_OF_CALLER }, () => read(here, { 'x-admin-token': token })))
    }
    const rejected = await read(here)
    expect(rejected.response.status).toBe(503)
    expect(rejected.response.headers.get('retry-after')).toBe('15')
  })

  test('the close of a server ends its streams', async () => {
    const server = await serveNode(here, { port: 0, host: '127.0.0.1' })
    const headers = { 'x-admin-token': ADMIN, accept: 'text/event-stream' }
    const response = await fetch(server.url + new URL(ACTIVITY).pathname, { headers })
    await server.close(60_000)
    expect(await response.text()).toMatch(/^retry: 2000\nid: /)
  })

  test('a stop ends all streams', async () => {
    const third = await world.open()
    const stream = await read(httpOf(third))
    await third.stop()
    await stream.ended
  })
})

test('lists recent changes, the newest first, by pages', async () => {
  for (const name of ['Six', 'Seven', 'Eight']) await world.tenancy.tenants.update('acme', { name })
  const list = async (query: string) => {
    const response = await here.fetch(new Request(`${ACTIVITY}?${query}`, { headers: { 'x-admin-token': ADMIN } }))
    return (await response.json()) as { data: { id: string; action: string; at: string }[]; nextCursor: string }
  }
  await eventually(async () => {
    const { data: all } = await list('limit=3')
    expect(all.map(({ action }) => action)).toEqual(['tenants.update', 'tenants.update', 'tenants.update'])
    expect(all.map(({ at }) => at)).toEqual(
      all
        .map(({ at }) => at)
        .toSorted()
        .toReversed(),
    )
    const { data: first, nextCursor } = await list('limit=2')
    const { data: second } = await list(`limit=1&cursor=${nextCursor}`)
    expect([...first, ...second]).toEqual(all)
  })
})
