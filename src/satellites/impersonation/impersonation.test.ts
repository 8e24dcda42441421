/** Sessions: their start, their end, and their entries. */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { currentContext, enterContext, HOST, impersonated } from '../../kernel/base/context.ts'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually, type TestTenancy } from '../../testing/base/tenancy.ts'
import {
  anyTenant,
  holding,
  type ImpersonationSatellites,
  type ImpersonationTenancy,
  openImpersonation,
  type Recording,
} from './impersonation.fixture.ts'
import { ImpersonationEnded, ImpersonationInvalid, ImpersonationStarted, impersonation } from './index.ts'

const START_OPTIONS = { userId: 'user-42', reason: 'Ticket 4711: exports fail' }
const ALICE = { type: 'admin', id: 'alice', name: 'Alice' } as const
const REQUEST = { method: 'GET', path: '/orders' }
const inCode = (code: string) => expect.objectContaining({ code })

let opened: TestTenancy<ImpersonationSatellites>
let tenancy: ImpersonationTenancy
let record: Recording
let clock: Awaited<ReturnType<typeof openImpersonation>>['clock']
let id: string
const receivedEvents: { name: string; event: object }[] = []

beforeAll(async () => {
  ;({ opened, tenancy, record, clock } = await openImpersonation(inject('postgresUrl')))
  for (const type of [ImpersonationStarted, ImpersonationEnded]) {
    tenancy.on(type, (event) => void receivedEvents.push({ name: type.name, event }))
  }
})
afterAll(() => opened?.end())
beforeEach(async () => {
  id = await anyTenant(tenancy)
  record.entries.splice(0)
  receivedEvents.splice(0)
})
afterEach(() => {
  record.failure = undefined
  record.onRequest = undefined
})

const start = (tenantId = id, more: object = {}) => tenancy.impersonation.start(tenantId, { ...START_OPTIONS, ...more })
const asAlice = <T>(work: () => T): T => enterContext({ requestId: 'r-1', actor: ALICE, ip: null }, work)
const authenticate = (token: string, tenantId = id, request = REQUEST) =>
  tenancy.impersonation.authenticator().authenticate(tenantId, token, request)
const rowsOf = async (tenantId = id) =>
  (await tenancy.kernel.database.sql('select * from multitenancy.impersonations where tenant_id = $1', [tenantId])).rows
const secondsOf = ({ createdAt, expiresAt }: { createdAt: string; expiresAt: string }) =>
  (Date.parse(expiresAt) - Date.parse(createdAt)) / 1_000

/** Kinds of advisory locks that statements of this database wait for. */
const waiting = async (): Promise<string[]> => {
  const { rows } = await tenancy.kernel.database.sql(
    `select mode from ${WAITING_LOCKS} where locktype = 'advisory' order by mode`,
  )
  return rows.map(({ mode }) => mode)
}

describe('beginning', () => {
  test('returns a session of 15 minutes with its token, records the actor, and publishes user and reason', async () => {
    const { token, ...session } = await asAlice(() => start())
    expect(session).toEqual({
      sessionId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      tenantId: id,
      userId: 'user-42',
      actor: ALICE,
      reason: START_OPTIONS.reason,
      createdAt: expect.any(String),
      expiresAt: expect.any(String),
      endedAt: null,
    })
    expect(token).toMatch(/^imp_[\w-]{43}$/)
    expect(secondsOf(session)).toBe(900)
    expect(Math.abs(Date.parse(session.createdAt) - clock.now().getTime())).toBeLessThan(60_000)
    const { sessionId, expiresAt } = session
    expect(record.entries).toEqual([
      {
        action: 'impersonations.start',
        tenantId: id,
        target: `impersonation:${sessionId}`,
        before: null,
        after: { userId: 'user-42', reason: START_OPTIONS.reason, expiresAt },
        actor: ALICE,
      },
    ])
    await eventually(() => expect(receivedEvents).toHaveLength(1))
    expect(receivedEvents).toMatchObject([
      {
        name: 'ImpersonationStarted',
        event: { tenantId: id, sessionId, userId: 'user-42', reason: START_OPTIONS.reason, expiresAt },
      },
    ])
    expect(JSON.stringify(receivedEvents)).not.toMatch(/alice/i)
  })

  test('a host names the signed-in actor', async () => {
    const { actor } = await start(id, { actor: { id: 'staff-7', name: 'Bob' } })
    expect(actor).toEqual({ type: 'host', id: 'staff-7', name: 'Bob' })
    expect((await start(id, { actor: { id: 'staff-7' } })).actor).toEqual({
      ...{ type: 'host', id: 'staff-7', name: 'staff-7' },
    })
    expect((await start()).actor).toEqual(HOST)
    expect(record.entries.map(({ actor }) => actor.name)).toEqual(['Bob', 'staff-7', 'host'])
  })

  test('stores only a hash of the token, and never returns the token again', async () => {
    const { token } = await start()
    const rows = JSON.stringify(await rowsOf())
    const bytes = Buffer.from(token.slice(4), 'base64url')
    for (const spelling of [token, token.slice(4), bytes.toString('hex'), bytes.toString('base64')]) {
      expect(rows).not.toContain(spelling)
      expect(JSON.stringify(await tenancy.impersonation.list(id))).not.toContain(spelling)
      expect(JSON.stringify([record.entries, receivedEvents])).not.toContain(spelling)
    }
  })

  test.each([
    ['no reason', { reason: undefined }],
    ['an empty reason', { reason: '' }],
    ['a blank reason', { reason: ' \u00a0\u2003' }],
    ['an invisible reason', { reason: '\u200b\u2060' }],
    ['a reason of two lines', { reason: 'Ticket\n4711' }],
    ['a reason that changes the writing direction', { reason: 'Ticket \u202e4711' }],
    ['a too long reason', { reason: 'x'.repeat(501) }],
    ['no user', { userId: undefined }],
    ['an empty user', { userId: '' }],
    ['a blank user', { userId: '  ' }],
    ['a user with a NUL', { userId: 'a\0b' }],
    ['a user with an unpaired surrogate', { userId: 'a\ud800' }],
    ['a too long user', { userId: 'x'.repeat(201) }],
    ['no time', { durationSeconds: 0 }],
    ['less', { durationSeconds: -1 }],
    ['a fraction of a second', { durationSeconds: 1.5 }],
    ['more than an hour', { durationSeconds: 3_601 }],
    ['no number', { durationSeconds: Number.NaN }],
    ['a token of the caller', { token: 'imp_mine' }],
  ])('rejects %s, and starts no session', async (_, more) => {
    await expect(start(id, more)).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    expect(await rowsOf()).toEqual([])
    expect(record.entries).toEqual([])
  })

  test.each([1, 60, 3_600])('accepts %i seconds', async (durationSeconds) => {
    expect(secondsOf(await start(id, { durationSeconds }))).toBe(durationSeconds)
  })

  test('the configuration sets the maximum and the default duration', async () => {
    const at = async (options: object) =>
      (await opened.open({ satellites: [impersonation(options)] as never })).impersonation
    const short = await at({ maxSeconds: 600 })
    expect(secondsOf(await short.start(id, START_OPTIONS))).toBe(600)
    await expect(short.start(id, { ...START_OPTIONS, durationSeconds: 601 })).rejects.toThrow(
      'durationSeconds: must be at most 600',
    )
    expect(secondsOf(await (await at({ defaultSeconds: 1_800 })).start(id, START_OPTIONS))).toBe(1_800)
    for (const wrong of [
      { maxSeconds: 3_601 },
      { maxSeconds: 0 },
      { maxSeconds: 60, defaultSeconds: 61 },
      { max: 1 },
    ]) {
      expect(() => impersonation(wrong)).toThrow(inCode('E_INVALID_REQUEST'))
    }
  })

  test('starts for a suspended tenant or one in maintenance, and not for a deleted or unknown tenant', async () => {
    await tenancy.tenants.suspend(id)
    await start()
    await tenancy.tenants.activate(id)
    await tenancy.tenants.enterMaintenance(id)
    await start()
    await tenancy.tenants.exitMaintenance(id)
    await tenancy.tenants.delete(id)
    await expect(start()).rejects.toThrow(inCode('E_TENANT_STATE'))
    await expect(start('unknown')).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
  })

  test('a session cannot be started in the name of a user, so time limits cannot be extended', async () => {
    const { token } = await start()
    const active = await authenticate(token)
    await expect(enterContext(impersonated(currentContext(), active), () => start())).rejects.toThrow(
      inCode('E_FORBIDDEN'),
    )
    expect(await rowsOf()).toHaveLength(1)
  })
})

describe('a token', () => {
  test('a session is valid for its tenant and its user until it expires', async () => {
    const { token, sessionId, expiresAt } = await asAlice(() => start())
    const active = { sessionId, userId: 'user-42', actor: ALICE, reason: START_OPTIONS.reason, expiresAt }
    expect(await tenancy.impersonation.verify(id, token)).toEqual(active)
    clock.advance(890_000)
    expect(await tenancy.impersonation.verify(id, token)).toEqual(active)
    clock.advance(20_000)
    await expect(tenancy.impersonation.verify(id, token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    await expect(authenticate(token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
  })

  test('an invalid token gets the same response for every reason', async () => {
    const other = await anyTenant(tenancy)
    const expired = await start(id, { durationSeconds: 1 })
    clock.advance(2_000)
    const [fits, ended] = [await start(), await start()]
    await tenancy.impersonation.end(ended.sessionId)
    record.entries.splice(0)
    const refusals: Error[] = []
    for (const [tenantId, token] of [
      [other, fits.token],
      ['unknown', fits.token],
      [id, expired.token],
      [id, ended.token],
      [id, `imp_${'A'.repeat(43)}`],
      [id, fits.token.slice(0, -1)],
      [id, `${fits.token}A`],
      [id, fits.token.toUpperCase()],
      [id, ` ${fits.token}`],
      [id, `${fits.token}, ${fits.token}`],
      [id, (await rowsOf())[0].token_hash],
      [id, 'a\0b'],
      [id, ''],
    ] as const) {
      for (const attempt of [
        () => tenancy.impersonation.verify(tenantId, token),
        () => authenticate(token, tenantId),
      ]) {
        refusals.push(
          await attempt().then(
            () => expect.fail(`token ${token} was accepted`),
            (error) => error,
          ),
        )
      }
    }
    expect(refusals.every((error) => ImpersonationInvalid.matches(error))).toBe(true)
    expect(new Set(refusals.map(({ message }) => message)).size).toBe(1)
    expect(record.entries).toEqual([])
    expect((await tenancy.impersonation.verify(id, fits.token)).sessionId).toBe(fits.sessionId)
  })
})

describe('ending', () => {
  test('an end applies immediately in every process, and is idempotent', async () => {
    const elsewhere = await opened.open()
    const { token, sessionId } = await start()
    await elsewhere.impersonation.verify(id, token)
    const [first, ...others] = await Promise.all(
      Array.from({ length: 5 }, () => asAlice(() => tenancy.impersonation.end(sessionId))),
    )
    expect(first?.endedAt).toEqual(expect.any(String))
    for (const other of others) expect(other).toEqual(first)
    for (const { impersonation } of [tenancy, elsewhere]) {
      await expect(impersonation.verify(id, token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    }
    expect(record.of('impersonations.end')).toEqual([
      {
        action: 'impersonations.end',
        tenantId: id,
        target: `impersonation:${sessionId}`,
        before: { userId: 'user-42', endedAt: null },
        after: { userId: 'user-42', endedAt: first?.endedAt },
        actor: ALICE,
      },
    ])
    await eventually(() =>
      expect(receivedEvents.map(({ name }) => name)).toEqual(['ImpersonationStarted', 'ImpersonationEnded']),
    )
    expect(receivedEvents[1]?.event).toMatchObject({ tenantId: id, sessionId, userId: 'user-42', cause: 'ended' })
  })

  test('an end takes precedence over requests that arrive while it waits for earlier ones', async () => {
    const { token, sessionId } = await start()
    await holding(tenancy, sessionId, async (release) => {
      const ending = tenancy.impersonation.end(sessionId)
      await eventually(async () => expect(await waiting()).toEqual(['ExclusiveLock']))
      const late = expect(authenticate(token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
      await eventually(async () => expect(await waiting()).toEqual(['ExclusiveLock', 'ShareLock']))
      await release()
      await Promise.all([late, ending])
    })
    expect(record.of('impersonations.request')).toEqual([])
  })

  test('an end does not affect other sessions of the user or the tenant', async () => {
    const [one, two] = [await start(), await start()]
    await tenancy.impersonation.end(one.sessionId)
    expect((await tenancy.impersonation.verify(id, two.token)).sessionId).toBe(two.sessionId)
  })

  test('an expired session stays unchanged, and an unknown one is not found', async () => {
    const { sessionId } = await start(id, { durationSeconds: 1 })
    clock.advance(2_000)
    expect(await tenancy.impersonation.end(sessionId)).toMatchObject({ sessionId, endedAt: null })
    expect(record.of('impersonations.end')).toEqual([])
    for (const unknown of [randomUUID(), 'newest', '', sessionId.slice(1)]) {
      await expect(tenancy.impersonation.end(unknown)).rejects.toThrow(inCode('E_NOT_FOUND'))
    }
  })

  test('the deletion of a tenant ends all its sessions, and a restore starts none again', async () => {
    const sessions = [await start(), await start()]
    const expired = await start(id, { durationSeconds: 1 })
    clock.advance(2_000)
    await tenancy.tenants.delete(id)
    await tenancy.tenants.restore(id)
    for (const { token } of sessions) {
      await expect(tenancy.impersonation.verify(id, token)).rejects.toThrow(inCode('E_IMPERSONATION_INVALID'))
    }
    const published = () =>
      receivedEvents.flatMap(({ event }) =>
        'cause' in event && 'sessionId' in event && event.cause === 'tenant-deleted' ? [event.sessionId] : [],
      )
    await eventually(() =>
      expect(published().toSorted()).toEqual(sessions.map(({ sessionId }) => sessionId).toSorted()),
    )
    expect(record.of('tenants.delete', 'impersonations.end')).toMatchObject([{ action: 'tenants.delete' }])
    const { data } = await tenancy.impersonation.list(id)
    expect(data.find(({ sessionId }) => sessionId === expired.sessionId)?.endedAt).toBeNull()
  })

  test('the deletion of a tenant ends a session that starts at the same time', async () => {
    for (let round = 0; round < 5; round++) {
      const tenantId = await anyTenant(tenancy)
      const [started] = await Promise.allSettled([start(tenantId), tenancy.tenants.delete(tenantId)])
      if (started.status === 'rejected') expect(started.reason).toMatchObject({ code: 'E_TENANT_STATE' })
      else {
        await expect(tenancy.impersonation.verify(tenantId, started.value.token)).rejects.toThrow(
          inCode('E_IMPERSONATION_INVALID'),
        )
      }
      expect((await rowsOf(tenantId)).every(({ ended_at }) => ended_at !== null)).toBe(true)
    }
  })

  test('a purge removes all sessions of a tenant', async () => {
    await start()
    await tenancy.tenants.delete(id)
    expect((await tenancy.impersonation.list(id)).data).toHaveLength(1)
    clock.advance(31 * 86_400_000)
    await tenancy.tenants.installation.purge(id)
    expect(await rowsOf()).toEqual([])
    await expect(tenancy.impersonation.list(id)).rejects.toThrow(inCode('E_TENANT_NOT_FOUND'))
  })
})

describe('the list of sessions', () => {
  test('the list has only sessions of the tenant, the newest first, in pages', async () => {
    await start(await anyTenant(tenancy))
    const ids: string[] = []
    for (let n = 0; n < 5; n++) {
      ids.unshift((await start()).sessionId)
      clock.advance(60_000) // more than a statement may take under load
    }
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await tenancy.impersonation.list(id, { limit: 2, cursor })
      seen.push(...page.data.map(({ sessionId }) => sessionId))
      cursor = page.nextCursor ?? undefined
    } while (cursor)
    expect(seen).toEqual(ids)
    const { nextCursor } = await tenancy.impersonation.list(id, { limit: 2 })
    const of = (tenantId: string, active?: boolean) =>
      tenancy.impersonation.list(tenantId, { cursor: nextCursor ?? '', active })
    await expect(of(await anyTenant(tenancy))).rejects.toThrow(inCode('E_INVALID_REQUEST'))
    await expect(of(id, true)).rejects.toThrow(inCode('E_INVALID_REQUEST'))
  })

  test('the list of all tenants has sessions of each, the newest first, and filters active ones and one tenant', async () => {
    const other = await anyTenant(tenancy)
    const first = await start(id)
    clock.advance(1_000)
    const second = await start(other)
    clock.advance(1_000)
    const ended = await start(other)
    await tenancy.impersonation.end(ended.sessionId)
    const idsOf = async (options: Parameters<typeof tenancy.impersonation.listAll>[0]) =>
      (await tenancy.impersonation.listAll({ limit: 200, ...options })).data.map(({ sessionId }) => sessionId)
    expect((await idsOf({})).slice(0, 3)).toEqual([ended.sessionId, second.sessionId, first.sessionId])
    expect((await idsOf({ active: true })).slice(0, 2)).toEqual([second.sessionId, first.sessionId])
    expect(await idsOf({ tenantId: other })).toEqual([ended.sessionId, second.sessionId])
    expect(await idsOf({ tenantId: other, active: false })).toEqual([ended.sessionId])
    const { nextCursor } = await tenancy.impersonation.listAll({ limit: 1 })
    expect((await idsOf({ limit: 1, cursor: nextCursor ?? '' }))[0]).toBe(second.sessionId)
  })

  test('the list filters active and ended sessions', async () => {
    const expired = await start(id, { durationSeconds: 1 })
    clock.advance(2_000)
    const [on, ended] = [await start(), await start()]
    await tenancy.impersonation.end(ended.sessionId)
    const of = async (active?: boolean) =>
      (await tenancy.impersonation.list(id, { active })).data.map(({ sessionId }) => sessionId).toSorted()
    expect(await of(true)).toEqual([on.sessionId])
    expect(await of(false)).toEqual([expired.sessionId, ended.sessionId].toSorted())
    expect(await of()).toHaveLength(3)
  })
})

describe('a request', () => {
  test('a request is recorded with both actors before it is accepted', async () => {
    const { token, sessionId } = await asAlice(() => start())
    const active = await asAlice(() => authenticate(token))
    expect(active).toMatchObject({ sessionId, userId: 'user-42', actor: ALICE })
    expect(record.of('impersonations.request')).toEqual([
      {
        action: 'impersonations.request',
        tenantId: id,
        target: 'user:user-42',
        before: null,
        after: { method: 'GET', path: '/orders', reason: START_OPTIONS.reason },
        actor: { type: 'impersonator', id: 'alice', name: 'Alice as user-42' },
      },
    ])
  })

  test('an entry contains no token, and a limited part of the path', async () => {
    const { token } = await start()
    await authenticate(token, id, { method: 'GET', path: `/x/${token}/${token}` })
    await authenticate(token, id, { method: 'GET', path: `/${'x'.repeat(9_000)}` })
    const [first, second] = record.of('impersonations.request').map(({ after }) => String(after?.path))
    expect(first).toBe('/x/…/…')
    expect(second).toHaveLength(2_000)
  })

  test('each of many concurrent requests is recorded', async () => {
    const { token } = await start()
    const paths = Array.from({ length: 30 }, (_, n) => `/orders/${n}`)
    await Promise.all(paths.map((path) => authenticate(token, id, { method: 'GET', path })))
    const recorded = record.of('impersonations.request').map(({ after }) => String(after?.path))
    expect(recorded.toSorted()).toEqual(paths.toSorted())
  })

  test('no request is recorded after the end of its session', async () => {
    for (let round = 0; round < 5; round++) {
      const { token, sessionId } = await start()
      record.entries.splice(0)
      const attempts = Array.from({ length: 12 }, () => authenticate(token))
      const [outcomes] = await Promise.all([Promise.allSettled(attempts), tenancy.impersonation.end(sessionId)])
      const passed = outcomes.filter(({ status }) => status === 'fulfilled')
      const order = record.entries.map(({ action }) => action)
      expect(order.filter((action) => action === 'impersonations.request')).toHaveLength(passed.length)
      expect(order.at(-1)).toBe('impersonations.end')
    }
  })

  test('a request that cannot be recorded is rejected', async () => {
    const { token } = await start()
    record.failure = new Error('the disk is full')
    await expect(authenticate(token)).rejects.toSatisfy(
      (error) =>
        DependencyUnavailable.matches(error) && !error.message.includes('disk') && error.retryAfterSeconds === 5,
    )
    record.failure = undefined
    await authenticate(token)
  })

  test('the entry of a request survives the rollback of the surrounding transaction', async () => {
    const { token } = await start()
    const failed = tenancy.transaction(async () => {
      await authenticate(token)
      throw new Error('rolled back')
    })
    await expect(failed).rejects.toThrow('rolled back')
    expect(record.of('impersonations.request')).toHaveLength(1)
  })

  test('the middleware needs a listener that records requests', async () => {
    const unrecorded = await opened.open({ satellites: [impersonation()] as never })
    const refused = 'requires the satellite auditLogs'
    expect(() => unrecorded.impersonation.authenticator()).toThrow(refused)
    unrecorded.on(ChangeRecorded, () => undefined)
    expect(() => unrecorded.impersonation.authenticator()).toThrow(refused)
  })
})
