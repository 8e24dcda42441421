/** A token cannot create a token with more permissions: by request, session, idempotency key, satellite or a later version. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { operation } from '../../kernel/api/operation.ts'
import { runInContext } from '../../kernel/base/context.ts'
import { notificationsReceived } from '../../testing/base/tenancy.ts'
import { defineSatellite, type Satellite } from '../satellite.ts'
import { type Access, ADMIN, cookieOf, openAccess, type Process } from './access.fixture.ts'
import type { Tokens } from './tokens.ts'

const ORIGIN = 'http://localhost'
const FORBIDDEN = { status: 403, json: { code: 'E_FORBIDDEN' } }

/** Tokens that code of a satellite can reach. */
let tokens: Tokens | undefined

const mint = operation({
  name: 'notes.mint',
  method: 'POST',
  path: '/notes/mint',
  summary: 'Create a token by code of a satellite',
  body: z.object({ may: z.array(z.string()) }),
  reply: z.object({ id: z.string() }),
  handle: async (_, { body: { may } }) =>
    runInContext({ actor: { type: 'host', id: 'root', name: 'root' } }, async () => {
      const { id } = (await tokens?.create({ name: `minted ${may}`, may })) ?? { id: '' }
      return { id }
    }),
})
const list = operation({
  name: 'notes.list',
  method: 'GET',
  path: '/notes',
  summary: 'List notes',
  reply: z.object({}),
  handle: async () => ({}),
})
const purge = operation({
  name: 'notes.purge',
  method: 'DELETE',
  path: '/notes',
  summary: 'Delete all notes',
  reply: z.object({}),
  handle: async () => ({}),
})
const notes = (...operations: (typeof list)[]): Satellite =>
  defineSatellite({ name: 'notes', summary: 'Notes', service: () => ({}), operations })

let access: Access
let here: Process
/** Has a later version of the satellite. */
let later: Process
beforeAll(async () => {
  access = await openAccess(inject('postgresUrl'), { satellites: [notes(mint, list)] })
  here = access.here
  later = await access.open({ satellites: [notes(mint, list, purge)] })
  tokens = here.tenancy.tokens
})
afterAll(() => access?.opened.end())

let count = 0
const attempt = (by: string, request: object) =>
  here.call(by, 'POST /tokens', { name: `attempt ${++count}`, ...request })

describe('operations', () => {
  const may = ['tokens.*', 'tenants.*', '!tenants.delete', 'notes.mint']
  let support: string
  beforeAll(async () => {
    support = (await access.create({ may })).token
  })

  test.each([
    ['admin'],
    ['*'],
    ['read'],
    ['tenants.*'],
    ['tenants.delete'],
    ['tenants.erase'],
    ['erase'],
    ['t*'],
    ['tenants.get', 'plans.list'],
    ['admin', '!tenants.delete'],
    ['sessions.list'],
  ])('%s %s is beyond the token', async (...wider) => {
    expect(await attempt(support, { may: wider })).toMatchObject(FORBIDDEN)
  })

  test('the problem names the missing operations', async () => {
    const { json } = await attempt(support, { may: ['tenants.*'] })
    expect(json.detail).toBe(
      'A token creates only tokens within its own permissions. may: the present token does not permit tenants.delete.',
    )
  })

  test.each([[['tenants.get']], [['tenants.*', '!tenants.delete']], [['tokens.create', 'tenants.li*']], [may]])(
    '%j is within the token',
    async (narrower) => {
      expect((await attempt(support, { may: narrower })).status).toBe(201)
    },
  )

  test('a created token has the limits of its creator, at any depth', async () => {
    let token = support
    for (let depth = 0; depth < 3; depth++) {
      const { json } = await attempt(token, { may: ['tokens.*', 'tenants.*', '!tenants.delete', `!tenants.clone`] })
      token = json.token
    }
    for (const wider of [['tenants.clone'], ['tenants.*'], ['notes.mint']])
      expect(await attempt(token, { may: wider })).toMatchObject(FORBIDDEN)
    expect(await here.statusOf(token, 'DELETE /tenants/acme')).toBe(403)
    expect(await here.statusOf(token, 'POST /tenants/acme/clone')).toBe(403)
  })

  test('the session of a token has the permissions of the token', async () => {
    const cookie = cookieOf(await here.call(undefined, 'POST /session', { token: support }))
    const create = (wider: string[]) =>
      here.call(undefined, 'POST /tokens', { name: `by session ${wider}`, may: wider }, { cookie, origin: ORIGIN })
    expect(await create(['admin'])).toMatchObject(FORBIDDEN)
    const { status, json } = await create(['tenants.get'])
    expect({ status, end: json.expiresAt }).toEqual({ status: 201, end: null })
  })

  test('the Idempotency-Key of another token does not return its response', async () => {
    const body = { name: 'keyed', may: ['admin'] }
    const headers = { 'idempotency-key': 'of-the-admin' }
    expect((await here.call(ADMIN, 'POST /tokens', body, headers)).status).toBe(201)
    expect(await here.call(support, 'POST /tokens', body, headers)).toMatchObject(FORBIDDEN)
  })

  test('code of a satellite that creates a token in a request has the limits of the request, also as another actor', async () => {
    expect(await here.call(support, 'POST /notes/mint', { may: ['admin'] })).toMatchObject(FORBIDDEN)
    expect((await here.call(support, 'POST /notes/mint', { may: ['tenants.get'] })).status).toBe(200)
    expect((await here.call(ADMIN, 'POST /notes/mint', { may: ['admin'] })).status).toBe(200)
  })

  test('code of the host, without a request, has no limits', async () => {
    const { token } = await here.tenancy.tokens.create({ name: 'of the host', may: ['admin'] })
    expect(await here.statusOf(token, 'DELETE /tenants/unknown')).toBe(404)
  })

  test('a token that may not create tokens creates none', async () => {
    const { token } = await access.create({ may: ['admin', '!tokens.create'] })
    expect(await attempt(token, { may: ['tenants.get'] })).toMatchObject(FORBIDDEN)
    expect(await attempt('reader', { may: ['tenants.get'] })).toMatchObject({ status: 401 })
  })

  test('a revoked token creates none, also in a process that has not received the revocation', async () => {
    const { id, token } = await access.create({ may: ['tokens.*'] })
    await notificationsReceived(here.tenancy)
    expect(await here.statusOf(token, 'GET /tokens')).toBe(200)
    await here.tenancy.kernel.database.sql('delete from multitenancy.api_tokens where id = $1', [id]) // without a notification
    expect(await here.statusOf(token, 'GET /tokens')).toBe(200)
    expect(await attempt(token, { may: ['tokens.list'] })).toMatchObject(FORBIDDEN)
  })

  test('a chain of tokens with different patterns has a maximal length', async () => {
    let token = (await access.create({ may: ['tokens.*', 'tenants.*'] })).token
    for (let depth = 1; depth < 10; depth++) {
      const { json } = await attempt(token, { may: ['tokens.*', ...Array(depth).fill('tenants.get')] })
      token = json.token
    }
    expect(await attempt(token, { may: ['tokens.list'] })).toMatchObject(FORBIDDEN)
  })
})

describe('operations of a later version', () => {
  test('a created token has none that its creator lacks', async () => {
    const creator = (await access.create({ may: ['tokens.create', 'notes.list', 'notes.mint'] })).token
    const { json } = await attempt(creator, { may: ['notes.*'] }) // the same operations at present
    expect(await later.statusOf(json.token, 'GET /notes')).toBe(200)
    expect(await later.statusOf(json.token, 'DELETE /notes')).toBe(403)
  })

  test('a prefix and admin include them', async () => {
    for (const may of [['notes.*'], ['admin'], ['*']]) {
      const { token } = await access.create({ may })
      expect(await later.statusOf(token, 'DELETE /notes')).toBe(200)
    }
    const created = await attempt((await access.create({ may: ['admin'] })).token, { may: ['notes.*'] })
    expect(await later.statusOf(created.json.token, 'DELETE /notes')).toBe(200)
  })
})

describe('tenants and end', () => {
  test('a token with a tenant limit creates no token, also by code of a satellite', async () => {
    const limited = await access.create({ may: ['admin'], tenants: ['acme'] })
    expect(await attempt(limited.token, { may: ['admin'], tenants: ['acme'] })).toMatchObject(FORBIDDEN)
    expect(await here.call(limited.token, 'POST /notes/mint', { may: ['admin'] })).toMatchObject(FORBIDDEN)
  })

  test('a token creates none that ends later', async () => {
    const at = (ms: number) => new Date(access.clock.now().getTime() + ms).toISOString()
    const { token, expiresAt } = await access.create({ may: ['tokens.*'], expiresAt: at(60_000) })
    expect(await attempt(token, { may: ['tokens.list'], expiresAt: at(60_001) })).toMatchObject(FORBIDDEN)
    expect(await attempt(token, { may: ['tokens.list'], expiresAt: at(59_999) })).toMatchObject({ status: 201 })
    expect(await attempt(token, { may: ['tokens.list'] })).toMatchObject({ status: 201, json: { expiresAt } })
  })
})
