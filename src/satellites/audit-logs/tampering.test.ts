/** Sealed entries that a superuser changes, removes or inserts: the verification reports each. */

import { describe, expect, test } from 'vitest'
import { recordChange } from '../../kernel/events/changes.ts'
import { openSealed } from './tampering.fixture.ts'

const sealed = openSealed()
const { query, bypassTriggers, verify, brokenOf, seal } = sealed

test('an unchanged log matches its seals', async () => {
  expect(sealed.entries).toHaveLength(5)
  expect(await verify()).toEqual({ ok: true, checked: 5, unsealed: 0, broken: [] })
  const { data } = await sealed.audited.tenancy.auditLogs.list(sealed.id)
  expect(new Set(data.map(({ hash }) => hash)).size).toBe(5)
  expect(data[0]?.hash).toMatch(/^[0-9a-f]{64}$/)
})

test.each([
  ['action', `action = 'tenants.read'`],
  ['actor', `actor_id = 'mallory'`],
  ['action', `actor_name = 'Mallory'`],
  ['actor type', `actor_type = 'system'`],
  ['target', `target = 'tenant:other'`],
  ['before', `before = null`],
  ['value in after', `after = jsonb_set(after, '{name}', '"two "')`],
  ['request', `request_id = 'r'`],
  ['address', `ip = '192.0.2.1'`],
  ['outcome', `outcome = 'failure'`],
])('an entry with a changed %s is reported', async (_, change) => {
  await bypassTriggers(`update multitenancy.audit_entries set ${change} where id = $1`, [sealed.entries[2]])
  expect(await brokenOf()).toEqual([[sealed.entries[2], 'changed']])
})

test.each([
  ['time', `created_at = created_at + interval '1 millisecond'`],
  ['tenant', `tenant_id = 'another'`],
])('an entry whose %s was changed is removed from its position and sealed nowhere', async (_, change) => {
  await bypassTriggers(`update multitenancy.audit_entries set ${change} where id = $1`, [sealed.entries[2]])
  const { broken } = await sealed.audited.tenancy.auditLogs.verify()
  expect(broken.filter(({ entryId }) => entryId === sealed.entries[2]).map(({ reason }) => reason)).toEqual([
    'removed',
    'inserted: no seal, and not waiting for one',
  ])
  await bypassTriggers('delete from multitenancy.audit_entries where id = $1', [sealed.entries[2]])
})

test('a removed entry is reported, with its seal or without', async () => {
  await bypassTriggers('delete from multitenancy.audit_entries where id = any($1)', [
    [sealed.entries[1], sealed.entries[3]],
  ])
  expect(await brokenOf()).toEqual([
    [sealed.entries[1], 'removed'],
    [sealed.entries[3], 'removed'],
  ])
  await query('delete from multitenancy.audit_seals where entry_id = any($1)', [[sealed.entries[1], sealed.entries[3]]])
  expect(await brokenOf()).toEqual([
    [sealed.entries[2], 'removed: number 2 of the chain, before it'],
    [sealed.entries[4], 'removed: number 4 of the chain, before it'],
  ])
})

test('removed oldest and newest entries are reported', async () => {
  await bypassTriggers('delete from multitenancy.audit_entries where id = any($1)', [
    [sealed.entries[0], sealed.entries[3], sealed.entries[4]],
  ])
  await query('delete from multitenancy.audit_seals where entry_id = any($1)', [
    [sealed.entries[0], sealed.entries[3], sealed.entries[4]],
  ])
  expect(await brokenOf()).toEqual([
    [sealed.entries[1], 'removed: number 1 of the chain, before it'],
    [sealed.entries[4], 'removed: numbers 4 to 5 of the chain, its newest'],
  ])
})

test('a completely removed chain is reported', async () => {
  await bypassTriggers('delete from multitenancy.audit_entries where tenant_id = $1', [sealed.id])
  await query('delete from multitenancy.audit_seals where tenant_id = $1', [sealed.id])
  expect(await brokenOf()).toEqual([[sealed.entries[4], 'removed: numbers 1 to 5 of the chain, its newest']])
})

describe('an inserted entry', () => {
  const insert = `insert into multitenancy.audit_entries
    select gen_random_uuid(), tenant_id, 'tenants.read', actor_type, actor_id, actor_name, target, null, null, null, null, 'success',
      created_at from multitenancy.audit_entries where id = $1 returning id`

  test('without a seal is reported', async () => {
    const [inserted] = await query(insert, [sealed.entries[2]])
    expect(await brokenOf()).toEqual([[inserted.id, 'inserted: no seal, and not waiting for one']])
  })

  test('with a seal that was made without the key is reported', async () => {
    const [inserted] = await query(insert, [sealed.entries[2]])
    await query(
      `insert into multitenancy.audit_seals select tenant_id, seq + 1, $2, created_at, digest, encode(sha256('x'), 'hex')
       from multitenancy.audit_seals where entry_id = $1`,
      [sealed.entries[4], inserted.id],
    )
    await query(
      'update multitenancy.audit_seals s set created_at = e.created_at from multitenancy.audit_entries e where s.entry_id = $1 and e.id = $1',
      [inserted.id],
    )
    expect(await brokenOf()).toEqual([[inserted.id, 'changed']])
  })
})

test('two exchanged entries are reported', async () => {
  const swap = (from: number, to: number) =>
    query('update multitenancy.audit_seals set seq = $2 where tenant_id = $3 and seq = $1', [from, to, sealed.id])
  await swap(2, 99)
  await swap(3, 2)
  await swap(99, 3)
  expect((await brokenOf()).map(([entryId]) => entryId)).toEqual(
    expect.arrayContaining([sealed.entries[1], sealed.entries[2]]),
  )
})

test('a changed seal is reported with its entry, and the other entries match', async () => {
  await query(`update multitenancy.audit_seals set hash = encode(sha256('x'), 'hex') where entry_id = $1`, [
    sealed.entries[1],
  ])
  expect(await brokenOf()).toEqual([[sealed.entries[1], 'changed']])
})

test('replaced functions of the database do not affect the verification', async () => {
  const same =
    'public.jsonb_build_array(uuid, text, text, text, text, text, text, jsonb, jsonb, text, text, text, bigint)'
  await query(`create function ${same} returns jsonb language sql as $$ select '[]'::jsonb $$`)
  try {
    expect(await verify()).toMatchObject({ ok: true, checked: 5 })
  } finally {
    await query(`drop function ${same}`)
  }
})

test('entries without a tenant have a separate chain', async () => {
  await recordChange(sealed.audited.tenancy.kernel.events, { action: 'plans.reload', tenantId: null, target: 'plans' })
  await seal()
  await bypassTriggers(`update multitenancy.audit_entries set target = 'nothing' where tenant_id is null`)
  const { broken } = await sealed.audited.tenancy.auditLogs.verify()
  expect(broken.filter(({ tenantId }) => tenantId === null).map(({ reason }) => reason)).toEqual(['changed'])
  await bypassTriggers(`update multitenancy.audit_entries set target = 'plans' where tenant_id is null`)
})

test('the verification over HTTP has the same result', async () => {
  await bypassTriggers(`update multitenancy.audit_entries set ip = '1' where id = $1`, [sealed.entries[0]])
  const response = await sealed.audited.call('GET', `/audit-logs/verify?tenantId=${sealed.id}`)
  expect([response.status, await response.json()]).toEqual([
    200,
    {
      ok: false,
      checked: 5,
      unsealed: 0,
      broken: [{ tenantId: sealed.id, entryId: sealed.entries[0], reason: 'changed' }],
    },
  ])
})
