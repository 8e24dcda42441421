/** What a superuser does behind the triggers, and what the verification says of it. */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { recordChange } from '../../kernel/changes.ts'
import { WAITING_LOCKS } from '../../testing/database.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { behind as alter } from './behind.fixture.ts'

let audited: Audited
let made = 0
let id: string
/** Of the tenant, the oldest first. */
let entries: string[]

const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const behind = (text: string, values?: unknown[]) => alter(audited, text, values)
const verify = (wish = {}) => audited.tenancy.auditLogs.verify({ tenantId: id, ...wish })
const brokenOf = async () => (await verify()).broken.map(({ entryId, reason }) => [entryId, reason])
const seal = () => audited.tenancy.auditLogs.sealer.seal()

beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
afterAll(() => audited.close())

beforeEach(async () => {
  id = `tenant-${++made}`
  await audited.tenancy.tenants.create({ id, name: 'Acme' })
  for (const name of ['one', 'two', 'three', 'four']) {
    audited.clock.advance(1_000)
    await audited.tenancy.tenants.update(id, { name })
  }
  await seal()
  entries = (
    await query('select entry_id as id from multitenancy.audit_seals where tenant_id = $1 order by seq', [id])
  ).map((row) => row.id)
})

test('a log that nobody touched is as it was sealed', async () => {
  expect(entries).toHaveLength(5)
  expect(await verify()).toEqual({ ok: true, checked: 5, broken: [] })
  const { data } = await audited.tenancy.auditLogs.list(id)
  expect(new Set(data.map(({ hash }) => hash)).size).toBe(5)
  expect(data[0]?.hash).toMatch(/^[0-9a-f]{64}$/)
})

test.each([
  ['action', `action = 'tenants.read'`],
  ['who did it', `actor_id = 'mallory'`],
  ['how that was called', `actor_name = 'Mallory'`],
  ['what kind of actor', `actor_type = 'system'`],
  ['the target', `target = 'tenant:other'`],
  ['what was before', `before = null`],
  ['one value in what is after', `after = jsonb_set(after, '{name}', '"two "')`],
  ['the request', `request_id = 'r'`],
  ['the address', `ip = '192.0.2.1'`],
  ['the outcome', `outcome = 'failure'`],
])('an entry whose %s was changed is named', async (_, change) => {
  await behind(`update multitenancy.audit_entries set ${change} where id = $1`, [entries[2]])
  expect(await brokenOf()).toEqual([[entries[2], 'changed']])
})

test.each([
  ['its time', `created_at = created_at + interval '1 millisecond'`],
  ['its tenant', `tenant_id = 'another'`],
])('one that was moved by %s is gone from its place, and sealed nowhere', async (_, change) => {
  await behind(`update multitenancy.audit_entries set ${change} where id = $1`, [entries[2]])
  const { broken } = await audited.tenancy.auditLogs.verify()
  expect(broken.filter(({ entryId }) => entryId === entries[2]).map(({ reason }) => reason)).toEqual([
    'removed',
    'inserted: it has no seal and waits for none',
  ])
  await behind('delete from multitenancy.audit_entries where id = $1', [entries[2]])
})

test('one that was removed is named, with its seal or without', async () => {
  await behind('delete from multitenancy.audit_entries where id = any($1)', [[entries[1], entries[3]]])
  expect(await brokenOf()).toEqual([
    [entries[1], 'removed'],
    [entries[3], 'removed'],
  ])
  await query('delete from multitenancy.audit_seals where entry_id = any($1)', [[entries[1], entries[3]]])
  expect(await brokenOf()).toEqual([
    [entries[2], 'removed: number 2 of the chain, before it'],
    [entries[4], 'removed: number 4 of the chain, before it'],
  ])
})

test('so are the oldest, and the newest', async () => {
  await behind('delete from multitenancy.audit_entries where id = any($1)', [[entries[0], entries[3], entries[4]]])
  await query('delete from multitenancy.audit_seals where entry_id = any($1)', [[entries[0], entries[3], entries[4]]])
  expect(await brokenOf()).toEqual([
    [entries[1], 'removed: number 1 of the chain, before it'],
    [entries[4], 'removed: numbers 4 to 5 of the chain, its newest'],
  ])
})

test('and all of them', async () => {
  await behind('delete from multitenancy.audit_entries where tenant_id = $1', [id])
  await query('delete from multitenancy.audit_seals where tenant_id = $1', [id])
  expect(await brokenOf()).toEqual([[entries[4], 'removed: numbers 1 to 5 of the chain, its newest']])
})

describe('where a chain ends', () => {
  const endsWrong = { tenantId: '', entryId: null, reason: 'changed: where the chain ends' }
  const removeNewest = async () => {
    await behind('delete from multitenancy.audit_entries where id = $1', [entries[4]])
    await query('delete from multitenancy.audit_seals where entry_id = $1', [entries[4]])
  }
  const setBack = () =>
    query(
      `update multitenancy.audit_heads h set seq = s.seq, entry_id = s.entry_id, hash = s.hash from multitenancy.audit_seals s
       where h.tenant_id = $1 and s.entry_id = $2`,
      [id, entries[3]],
    )
  const named = async () => (await audited.tenancy.auditLogs.verify()).broken.filter(({ tenantId }) => tenantId === id)
  beforeEach(() => {
    endsWrong.tenantId = id
  })
  // For the other tests there are as many seals as are counted.
  afterEach(() =>
    query(
      `update multitenancy.audit_heads
       set seq = seq + (select seals from multitenancy.audit_state) - (select sum(seq) from multitenancy.audit_heads) where tenant_id = $1`,
      [id],
    ),
  )

  test('is known: who sets it back behind the newest entry is found out, by one tenant and by all', async () => {
    await removeNewest()
    await setBack()
    expect(await verify()).toEqual({ ok: false, checked: 4, broken: [endsWrong] })
    expect(await named()).toEqual([endsWrong])
    const response = await audited.call('GET', `/audit-logs/verify?tenantId=${id}`)
    expect(await response.json()).toMatchObject({ ok: false, broken: [endsWrong] })
  })

  test('is never made good by what is sealed afterwards', async () => {
    await removeNewest()
    await setBack()
    for (const name of ['five', 'six']) {
      await audited.tenancy.tenants.update(id, { name })
      expect(await seal()).toBe(1)
      expect((await verify()).broken).toEqual([endsWrong])
    }
  })

  test.each([
    ['its place', 'seq = seq + 1'],
    ['its hash', `hash = encode(sha256('x'), 'hex')`],
    ['its HMAC', `mac = ''`],
    ['the HMAC of another tenant', `mac = (select mac from multitenancy.audit_heads where tenant_id <> $1 limit 1)`],
  ])('is named when it has another value: %s', async (_, change) => {
    await query(`update multitenancy.audit_heads set ${change} where tenant_id = $1`, [id])
    expect((await verify()).broken).toEqual([endsWrong])
  })

  test('is missed when it is gone, also by who seals what comes then', async () => {
    await query('delete from multitenancy.audit_heads where tenant_id = $1', [id])
    const gone = { ...endsWrong, reason: 'removed: where the chain ends' }
    expect((await verify()).broken).toEqual([gone])
    expect(await named()).toEqual([gone])
    await audited.tenancy.tenants.update(id, { name: 'five' })
    await seal()
    expect((await verify()).broken).toEqual([endsWrong])
  })

  test('is not missed of a chain that began while somebody verifies', async () => {
    const client = new pg.Client({ connectionString: audited.url })
    await client.connect()
    const { rows } = await client.query('delete from multitenancy.audit_heads where tenant_id = $1 returning *', [id])
    await client.query('begin; lock table multitenancy.audit_checkpoints')
    const verified = verify() // which has read the heads when it waits for the checkpoints
    const waiting = `select from ${WAITING_LOCKS} where relation = 'multitenancy.audit_checkpoints'::regclass`
    await expect.poll(() => query(waiting), { timeout: 20_000 }).toHaveLength(1)
    await client.query(
      'insert into multitenancy.audit_heads select (json_populate_record(null::multitenancy.audit_heads, $1)).*',
      rows,
    )
    await client.query('commit')
    await client.end()
    expect(await verified).toEqual({ ok: true, checked: 5, broken: [] })
  })
})

describe('one that was inserted', () => {
  const insert = `insert into multitenancy.audit_entries
    select gen_random_uuid(), tenant_id, 'tenants.read', actor_type, actor_id, actor_name, target, null, null, null, null, 'success',
      created_at from multitenancy.audit_entries where id = $1 returning id`

  test('without a seal is named', async () => {
    const [inserted] = await query(insert, [entries[2]])
    expect(await brokenOf()).toEqual([[inserted.id, 'inserted: it has no seal and waits for none']])
  })

  test('with a seal of somebody who has no key is named', async () => {
    const [inserted] = await query(insert, [entries[2]])
    await query(
      `insert into multitenancy.audit_seals select tenant_id, seq + 1, $2, created_at, digest, encode(sha256('x'), 'hex')
       from multitenancy.audit_seals where entry_id = $1`,
      [entries[4], inserted.id],
    )
    await query(
      'update multitenancy.audit_seals s set created_at = e.created_at from multitenancy.audit_entries e where s.entry_id = $1 and e.id = $1',
      [inserted.id],
    )
    expect(await brokenOf()).toEqual([[inserted.id, 'changed']])
  })
})

test('two that were put into another order are named', async () => {
  const swap = (from: number, to: number) =>
    query('update multitenancy.audit_seals set seq = $2 where tenant_id = $3 and seq = $1', [from, to, id])
  await swap(2, 99)
  await swap(3, 2)
  await swap(99, 3)
  expect((await brokenOf()).map(([entryId]) => entryId)).toEqual(expect.arrayContaining([entries[1], entries[2]]))
})

test('a seal that was changed is named with its entry, and the rest holds', async () => {
  await query(`update multitenancy.audit_seals set hash = encode(sha256('x'), 'hex') where entry_id = $1`, [entries[1]])
  expect(await brokenOf()).toEqual([[entries[1], 'changed']])
})

describe('before it was sealed', () => {
  const named = async (name: string): Promise<string> =>
    (
      await query(`select id from multitenancy.audit_entries where after ->> 'name' = $1 and tenant_id = $2`, [
        name,
        id,
      ])
    )[0]?.id

  test('what is changed is never sealed, and is named, also when the sealer has long passed it', async () => {
    await audited.tenancy.tenants.update(id, { name: 'five' })
    const five = await named('five')
    await behind(`update multitenancy.audit_entries set actor_id = 'mallory' where id = $1`, [five])
    const found = { checked: 5, broken: [{ entryId: five, reason: 'changed before it was sealed, or inserted' }] }
    expect(await verify()).toMatchObject(found)
    await seal()
    expect(await verify()).toMatchObject(found)
    await audited.tenancy.tenants.update(id, { name: 'six' })
    expect(await seal()).toBe(1)
    expect(await seal()).toBe(0)
    expect(await verify()).toMatchObject({ ...found, checked: 6 })
  })

  test('what is robbed of its HMAC is never sealed, and is named', async () => {
    await audited.tenancy.tenants.update(id, { name: 'five' })
    const five = await named('five')
    await behind('update multitenancy.audit_entries set mac = null where id = $1', [five])
    expect(await seal()).toBe(0)
    expect(await brokenOf()).toEqual([[five, 'inserted: it has no seal and waits for none']])
  })

  test('what is removed leaves no trace: nothing else knew of it; others are sealed all the same', async () => {
    await audited.tenancy.tenants.update(id, { name: 'five' })
    await audited.tenancy.tenants.update(id, { name: 'six' })
    await behind('delete from multitenancy.audit_entries where id = $1', [await named('five')])
    expect(await seal()).toBe(1)
    expect(await verify()).toEqual({ ok: true, checked: 6, broken: [] })
  })

  test('what is moved to a later transaction is sealed all the same, and to one that is still to come is named', async () => {
    await audited.tenancy.tenants.update(id, { name: 'five' })
    await behind('update multitenancy.audit_entries set xact = pg_current_xact_id() where id = $1', [
      await named('five'),
    ])
    expect(await seal()).toBe(1)
    await audited.tenancy.tenants.update(id, { name: 'six' })
    await behind(`update multitenancy.audit_entries set xact = '1000000000000000' where id = $1`, [await named('six')])
    expect(await seal()).toBe(0)
    expect(await brokenOf()).toEqual([[await named('six'), 'inserted: it has no seal and waits for none']])
  })

  test('waiting entries that a bound was put beyond are named; one that is still to come hides none', async () => {
    await audited.tenancy.tenants.update(id, { name: 'five' })
    expect(await verify()).toMatchObject({ ok: true })
    await query('update multitenancy.audit_state set sealed_to = pg_current_xact_id()')
    expect(await brokenOf()).toEqual([[await named('five'), 'inserted: it has no seal and waits for none']])
    expect(await seal()).toBe(0)
    await query(`update multitenancy.audit_state set sealed_to = '1000000000000000'`)
    await seal()
    expect(await verify()).toEqual({ ok: true, checked: 6, broken: [] })
  })
})

test.each([
  ['before', `'-1 hour'`],
  ['after', `'1 hour'`],
])('two entries with one id, the second %s, keep nobody from being sealed', async (_, distance) => {
  await audited.tenancy.tenants.update(id, { name: 'five' })
  await behind(
    `insert into multitenancy.audit_entries select id, tenant_id, action, actor_type, actor_id, actor_name, target, before, after,
       request_id, ip, outcome, created_at + interval ${distance}, xact, mac
     from multitenancy.audit_entries where tenant_id = $1`,
    [id],
  )
  await audited.tenancy.tenants.update(id, { name: 'six' })
  expect(await seal()).toBe(2)
  const { checked, broken } = await verify()
  expect(checked).toBe(7)
  expect(broken.map(({ reason }) => reason)).toEqual(Array(6).fill('inserted: it has no seal and waits for none'))
})

test('functions in the database have no say in it', async () => {
  const same =
    'public.jsonb_build_array(uuid, text, text, text, text, text, text, jsonb, jsonb, text, text, text, bigint)'
  await query(`create function ${same} returns jsonb language sql as $$ select '[]'::jsonb $$`)
  try {
    expect(await verify()).toMatchObject({ ok: true, checked: 5 })
  } finally {
    await query(`drop function ${same}`)
  }
})

test('what concerns no tenant has a chain of its own', async () => {
  await recordChange(audited.tenancy.kernel.events, { action: 'plans.reload', tenantId: null, target: 'plans' })
  await seal()
  await behind(`update multitenancy.audit_entries set target = 'nothing' where tenant_id is null`)
  const { broken } = await audited.tenancy.auditLogs.verify()
  expect(broken.filter(({ tenantId }) => tenantId === null).map(({ reason }) => reason)).toEqual(['changed'])
  await behind(`update multitenancy.audit_entries set target = 'plans' where tenant_id is null`)
})

test('more entries than are read at once are sealed once each by concurrent passes, and verified', async () => {
  const { events } = audited.tenancy.kernel
  const record = (n: number) => recordChange(events, { action: 'crm.sync', tenantId: id, target: `${n}` })
  await Promise.all(
    Array.from({ length: 40 }, async (_, lane) => {
      for (let n = 0; n < 50; n++) await record(lane * 50 + n)
    }).concat(
      Array.from({ length: 10 }, async () => {
        for (let n = 0; n < 20; n++) await seal()
      }),
    ),
  )
  await seal()
  expect(await verify()).toEqual({ ok: true, checked: 2_005, broken: [] })
})

test('over HTTP it says the same', async () => {
  await behind(`update multitenancy.audit_entries set ip = '1' where id = $1`, [entries[0]])
  const response = await audited.call('GET', `/audit-logs/verify?tenantId=${id}`)
  expect([response.status, await response.json()]).toEqual([
    200,
    { ok: false, checked: 5, broken: [{ tenantId: id, entryId: entries[0], reason: 'changed' }] },
  ])
})
