import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { fakeClock } from '../../testing/base/clock.ts'
import { createTestDatabase, type TestDatabase } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { enterContext, SYSTEM } from '../base/context.ts'
import { createLogger } from '../base/logger.ts'
import { Database } from '../database/database.ts'
import { ChangeRecorded, recordChange } from './changes.ts'
import { Events, event, on } from './events.ts'

const log = createLogger({ level: 'silent' })
const NoteWritten = event(
  'NoteWritten',
  'A note was written',
  z.object({ title: z.string(), pages: z.number().default(1) }),
)
const NoteBurnt = event('NoteBurnt', 'A note was burnt', z.object({ title: z.string() }))

let created: TestDatabase
let database: Database
let onlooker: Database
let events: Events
const clock = fakeClock(new Date('2026-03-01T12:00:00Z'))

beforeAll(async () => {
  created = await createTestDatabase(inject('postgresUrl'))
  database = new Database({ url: created.url, max: 3 }, log)
  onlooker = new Database({ url: created.url, max: 1 }, log)
  await database.sql('create table notes (id serial, title text)')
})
beforeEach(async () => {
  events = new Events(database, clock)
  await database.sql('truncate notes')
})
afterAll(async () => {
  await database.close()
  await onlooker.close()
  await created.drop()
})

const keep = (title: string) => database.sql('insert into notes (title) values ($1)', [title])
const kept = async (by = database): Promise<string[]> =>
  (await by.sql('select title from notes order by id')).rows.map(({ title }) => title)
const failWith = (message: string) => {
  throw new Error(message)
}

describe('an event', () => {
  test('has its payload and the members of every event', async () => {
    const published = await events.publish(NoteWritten, { title: 'a' })
    expect(published).toEqual({
      title: 'a',
      pages: 1,
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      occurredAt: '2026-03-01T12:00:00.000Z',
      requestId: null,
    })
    expect(NoteWritten.schema.parse(published)).toEqual(published)
  })

  test('has the id of its request', async () => {
    const context = { requestId: 'request-7', actor: SYSTEM, ip: null }
    const published = await enterContext(context, () => events.publish(NoteWritten, { title: 'a' }))
    expect(published.requestId).toBe('request-7')
  })

  test('with an invalid payload reaches no listener', async () => {
    const received: unknown[] = []
    events.subscribe(NoteWritten, 'within', (event) => void received.push(event))
    events.subscribe(NoteWritten, 'after', (event) => void received.push(event))
    await expect(events.publish(NoteWritten, { title: 7 } as never)).rejects.toThrow()
    expect(received).toEqual([])
  })

  test('is received only by listeners of its type, until they unsubscribe', async () => {
    const received: string[] = []
    const stop = events.subscribe(NoteWritten, 'after', ({ title }) => void received.push(`first heard ${title}`))
    events.subscribe(NoteWritten, 'after', ({ title }) => void received.push(`second heard ${title}`))
    await events.publish(NoteBurnt, { title: 'x' })
    await events.publish(NoteWritten, { title: 'a' })
    stop()
    await events.publish(NoteWritten, { title: 'b' })
    expect(received).toEqual(['first heard a', 'second heard a', 'second heard b'])
  })

  test('with two subscriptions of one function is received once after one has ended', async () => {
    let received = 0
    const listener = () => {
      received += 1
    }
    const stop = events.subscribe(NoteWritten, 'after', listener)
    events.subscribe(NoteWritten, 'after', listener)
    stop()
    stop()
    await events.publish(NoteWritten, { title: 'a' })
    expect(received).toBe(1)
  })
})

describe('a listener within', () => {
  test('writes in the transaction of the change', async () => {
    events.subscribe(NoteWritten, 'within', async ({ title }) => {
      await keep(`audit of ${title}`)
    })
    await database.transaction(async () => {
      await keep('a')
      await events.publish(NoteWritten, { title: 'a' })
      expect(await kept(onlooker)).toEqual([])
    })
    expect(await kept(onlooker)).toEqual(['a', 'audit of a'])
  })

  test('is rolled back with the change', async () => {
    events.subscribe(NoteWritten, 'within', async ({ title }) => {
      await keep(`audit of ${title}`)
    })
    const failing = database.transaction(async () => {
      await events.publish(NoteWritten, { title: 'a' })
      failWith('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await kept()).toEqual([])
  })

  test('rejects the change by an error; later listeners are not called', async () => {
    const received: string[] = []
    events.subscribe(NoteWritten, 'within', () => failWith('refused'))
    events.subscribe(NoteWritten, 'within', () => void received.push('within'))
    events.subscribe(NoteWritten, 'after', () => void received.push('after'))
    const refused = database.transaction(async () => {
      await keep('a')
      await events.publish(NoteWritten, { title: 'a' })
    })
    await expect(refused).rejects.toThrow('refused')
    expect(await kept()).toEqual([])
    expect(received).toEqual([])
  })

  test('has a transaction, also if the publisher has none', async () => {
    const inTransaction: boolean[] = []
    events.subscribe(NoteWritten, 'within', async () => {
      inTransaction.push(database.inTransaction)
      await keep('half')
      failWith('refused')
    })
    await expect(events.publish(NoteWritten, { title: 'a' })).rejects.toThrow('refused')
    expect(inTransaction).toEqual([true])
    expect(await kept()).toEqual([])
  })
})

describe('a listener after', () => {
  test('receives committed events, outside of the transaction', async () => {
    const received: unknown[] = []
    events.subscribe(NoteWritten, 'after', async ({ title }) => {
      received.push({ title, inTransaction: database.inTransaction, kept: await kept(onlooker) })
    })
    await database.transaction(async () => {
      await keep('a')
      await events.publish(NoteWritten, { title: 'a' })
      expect(received).toEqual([])
    })
    await eventually(() => expect(received).toEqual([{ title: 'a', inTransaction: false, kept: ['a'] }]))
  })

  test('receives no event of a failed change or of a part that was rolled back', async () => {
    const received: string[] = []
    events.subscribe(NoteWritten, 'after', ({ title }) => void received.push(title))
    const failing = database.transaction(async () => {
      await events.publish(NoteWritten, { title: 'never' })
      failWith('no')
    })
    await expect(failing).rejects.toThrow('no')
    await database.transaction(async () => {
      const inner = database.transaction(async () => {
        await events.publish(NoteWritten, { title: 'taken back' })
        failWith('no')
      })
      await expect(inner).rejects.toThrow('no')
      await events.publish(NoteWritten, { title: 'a' })
    })
    expect(received).toEqual(['a'])
  })

  test('that fails affects neither the change nor the next listener', async () => {
    const received: string[] = []
    events.subscribe(NoteWritten, 'after', () => failWith('thrown'))
    events.subscribe(NoteWritten, 'after', async () => failWith('rejected'))
    events.subscribe(NoteWritten, 'after', () => void received.push('last'))
    await events.publish(NoteWritten, { title: 'a' })
    expect(received).toEqual(['last'])
  })
})

test('listeners within are called and awaited in order, then listeners after, event by event', async () => {
  const received: string[] = []
  for (const type of [NoteWritten, NoteBurnt]) {
    for (const when of ['within', 'after'] as const) {
      for (const n of [1, 2]) {
        events.subscribe(type, when, async () => {
          if (when === 'within') await kept()
          received.push(`${when} ${n} ${type.name}`)
        })
      }
    }
  }
  await database.transaction(async () => {
    await events.publish(NoteWritten, { title: 'a' })
    await events.publish(NoteBurnt, { title: 'a' })
    received.push('commit')
  })
  expect(received).toEqual([
    'within 1 NoteWritten',
    'within 2 NoteWritten',
    'within 1 NoteBurnt',
    'within 2 NoteBurnt',
    'commit',
    'after 1 NoteWritten',
    'after 2 NoteWritten',
    'after 1 NoteBurnt',
    'after 2 NoteBurnt',
  ])
})

test('listeners of a satellite are data and receive its service first', async () => {
  const listener = on(
    NoteWritten,
    'within',
    (service: { titles: string[] }, { title }) => void service.titles.push(title),
  )
  expect(listener).toMatchObject({ type: NoteWritten, when: 'within' })
  const service = { titles: [] as string[] }
  events.subscribe(listener.type, listener.when, (event) => listener.handle(service, event))
  await events.publish(NoteWritten, { title: 'a' })
  expect(service.titles).toEqual(['a'])
})

test('a change is recorded in its own transaction', async () => {
  const received: unknown[] = []
  events.subscribe(ChangeRecorded, 'within', (event) => void received.push([database.inTransaction, event]))
  await recordChange(events, {
    action: 'tenants.suspend',
    tenantId: 'acme',
    target: 'tenant:acme',
    after: { status: 'suspended' },
  })
  expect(received).toMatchObject([
    [true, { action: 'tenants.suspend', before: null, after: { status: 'suspended' }, outcome: 'success' }],
  ])
})

test('an invalid change is a problem with the path of each error', async () => {
  const change = recordChange(events, { action: 1, tenantId: 'acme', target: undefined } as never)
  await expect(change).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    extras: { errors: [{ path: 'change.action' }, { path: 'change.target' }] },
  })
})

test('a change with empty texts, an unknown member or a value that is not JSON is a problem', async () => {
  const after: Record<string, unknown> = { total: 1 }
  const whole = { action: 'notes.create', tenantId: 'acme', target: 'note:1', after }
  const empty = recordChange(events, { ...whole, action: '', target: '', actor: 'ann' } as never)
  await expect(empty).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    message: expect.stringMatching(/change\.action: .*change\.target: .*change: Unrecognized key: "actor"/),
  })
  after.itself = after
  await expect(recordChange(events, whole)).rejects.toMatchObject({
    code: 'E_INVALID_REQUEST',
    message: 'change: must be serialisable as JSON',
  })
})
