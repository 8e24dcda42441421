/** Audit entries and log lines of tokens: they name people, and contain no secret. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createLogger } from '../../src/kernel/base/logger.ts'
import { auditLogs } from '../../src/satellites/audit-logs/index.ts'
import { type Access, ADMIN, cookieOf, openAccess, type Process } from '../../src/tenancy/tokens/access.fixture.ts'

const lines: string[] = []
const secrets: string[] = []

let access: Access
let here: Process
let there: Process
beforeAll(async () => {
  const logger = createLogger({ level: 'trace', write: (line) => void lines.push(line) })
  access = await openAccess(inject('postgresUrl'), { satellites: [auditLogs()], logger }, { accessLog: true })
  ;({ here, there } = access)
})
afterAll(() => access?.opened.end())

const entriesOf = async (action: string): Promise<any[]> =>
  (await here.call(ADMIN, `GET /audit-logs?limit=200&action=${action}`)).json.data

const create = async (may: string[], more: object = {}) => {
  const created = await access.create({ may, ...more })
  secrets.push(created.token.slice(-43))
  return created
}

test('a creation and a revocation are entries with their actor', async () => {
  const ann = await create(['tokens.*', 'tenants.*', '!tenants.delete'], { name: 'ann' })
  const { json: ci } = await here.call(ann.token, 'POST /tokens', {
    name: 'ci',
    may: ['tenants.get'],
    tenants: ['acme'],
  })
  secrets.push(ci.token.slice(-43))
  expect((await here.call(ann.token, `DELETE /tokens/${ci.id}`)).status).toBe(204)
  const actor = { actorType: 'admin', actorId: `tnt_${ann.id}`, actorName: 'ann' }
  const image = { name: 'ci', may: ['tenants.get'], tenants: ['acme'], expiresAt: null }
  const target = `token:${ci.id}`
  const [created] = await entriesOf('tokens.create')
  expect(shown(created)).toEqual({ ...actor, target, before: null, after: image, outcome: 'success' })
  const [revoked] = await entriesOf('tokens.delete')
  expect(shown(revoked)).toEqual({ ...actor, target, before: image, after: null, outcome: 'success' })
})

test('a change with a token, or with its session, names its owner', async () => {
  const { id, token } = await create(['tenants.*'], { name: 'bob' })
  await here.call(token, 'POST /tenants', { id: 'by-token', name: 'By token' })
  const cookie = cookieOf(await here.call(undefined, 'POST /session', { token }))
  secrets.push(decodeURIComponent(cookie.split('=')[1] ?? ''))
  const headers = { cookie, origin: 'http://localhost' }
  expect((await here.call(undefined, 'POST /tenants', { id: 'by-session', name: 'By session' }, headers)).status).toBe(
    201,
  )
  const entries = await entriesOf('tenants.create')
  const actors = entries.map(({ target, actor }) => [target, actor.id, actor.name])
  expect(actors).toEqual(
    expect.arrayContaining([
      ['tenant:by-token', `tnt_${id}`, 'bob'],
      ['tenant:by-session', `tnt_${id}`, 'bob'],
    ]),
  )
})

test('a denied call is an entry; the entries of one token are limited over all processes', async () => {
  const { id, token } = await create(['plans.list'], { name: 'eve' })
  for (let call = 0; call < 12; call++) {
    expect(await here.statusOf(token, 'DELETE /tenants/acme')).toBe(403)
    expect(await there.statusOf(token, 'GET /tokens')).toBe(403)
  }
  const denied = (await entriesOf('tokens.deny')).filter(({ actor }) => actor.name === 'eve')
  expect(denied).toHaveLength(10)
  expect(denied.map(shown)).toEqual(
    expect.arrayContaining([
      {
        ...{ actorType: 'admin', actorId: `tnt_${id}`, actorName: 'eve' },
        ...{ target: 'operation:tenants.delete', before: null, outcome: 'failure' },
        after: { operation: 'tenants.delete', tenantId: 'acme' },
      },
      {
        ...{ actorType: 'admin', actorId: `tnt_${id}`, actorName: 'eve' },
        ...{ target: 'operation:tokens.list', before: null, outcome: 'failure', after: { operation: 'tokens.list' } },
      },
    ]),
  )
  const other = await create(['plans.list'], { name: 'mallory' })
  await here.statusOf(other.token, 'GET /tokens')
  expect((await entriesOf('tokens.deny')).filter(({ actor }) => actor.name === 'mallory')).toHaveLength(1)
})

test('denied calls of one token are recorded while they continue slowly in several processes', async () => {
  const { id, token } = await create(['plans.list'], { name: 'walter' })
  for (let call = 0; call < 24; call++) {
    expect(await (call % 2 ? here : there).statusOf(token, 'GET /tokens')).toBe(403)
    access.clock.advance(30_000)
  }
  const denied = (await entriesOf('tokens.deny')).filter(({ actor }) => actor.id === `tnt_${id}`)
  expect(denied).toHaveLength(24)
})

test('a denied creation of a token is an entry, also with an Idempotency-Key', async () => {
  const { id, token } = await create(['tokens.*'], { name: 'oscar' })
  const body = { name: 'wider', may: ['admin'] }
  for (const headers of [{}, { 'idempotency-key': 'wider' }] as Record<string, string>[])
    expect(await here.call(token, 'POST /tokens', body, headers)).toMatchObject({ status: 403 })
  const denied = (await entriesOf('tokens.deny')).filter(({ actor }) => actor.name === 'oscar')
  const entry = {
    ...{ actorType: 'admin', actorId: `tnt_${id}`, actorName: 'oscar' },
    ...{ target: 'operation:tokens.create', before: null, outcome: 'failure', after: { operation: 'tokens.create' } },
  }
  expect(denied.map(shown)).toEqual([entry, entry])
  expect(await entriesOf('tokens.create')).not.toContainEqual(
    expect.objectContaining({ after: expect.objectContaining({ name: 'wider' }) }),
  )
})

test('a denied call with a path that is no tenant id is an entry without it', async () => {
  const { token } = await create(['plans.list'], { name: 'trent' })
  expect(await here.statusOf(token, 'GET /tenants/%00')).toBe(403)
  expect((await entriesOf('tokens.deny')).find(({ actor }) => actor.name === 'trent')).toMatchObject({
    after: { operation: 'tenants.get' },
  })
})

test('an ended session is an entry', async () => {
  const { json } = await here.call(undefined, 'POST /session', { token: ADMIN })
  expect((await here.call(ADMIN, `DELETE /sessions/${json.id}`)).status).toBe(204)
  const [ended] = await entriesOf('sessions.delete')
  expect(shown(ended)).toMatchObject({
    actorName: 'admin',
    target: `session:${json.id}`,
    before: { name: 'admin', tokenId: null },
  })
})

test('audit entries, log lines and rows contain no secret of a token or session', async () => {
  secrets.push(ADMIN)
  await here.call(`tnt_00000000-0000-7000-8000-000000000000_${'S'.repeat(43)}`, 'GET /tenants')
  secrets.push('S'.repeat(43))
  const { database } = here.tenancy.kernel
  const { rows: tables } = await database.sql(
    `select relname as name from pg_class where relnamespace = 'multitenancy'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  )
  const texts: string[] = [...lines]
  for (const { name } of tables) {
    const { rows } = await database.sql(`select to_jsonb(t)::text as text from multitenancy.${name} t`)
    texts.push(...rows.map(({ text }) => text))
  }
  expect(lines.length).toBeGreaterThan(20)
  expect(secrets.length).toBeGreaterThan(5)
  const found = secrets.filter((secret) => texts.some((text) => text.includes(secret)))
  expect(found).toEqual([])
})

const shown = ({ actor, target, before, after, outcome }: any) => ({
  ...{ actorType: actor.type, actorId: actor.id, actorName: actor.name },
  ...{ target, before, after, outcome },
})
