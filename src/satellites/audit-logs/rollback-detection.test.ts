/** A superuser rolls a chain back to a former valid end, and the sealer continues from there. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { type Audited, openAudited } from './audited.fixture.ts'
import { bypassTriggers } from './bypass-triggers.fixture.ts'

let audited: Audited
/** The oldest first. */
let entries: string[]
/** State of the ends after each entry. */
let heads: Record<string, unknown>[]

const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const verify = (options = {}) => audited.tenancy.auditLogs.verify({ tenantId: 'acme', ...options })
const verifyAll = () => audited.tenancy.auditLogs.verify()
const seal = () => audited.tenancy.auditLogs.sealer.seal()
const lost = (seals: number, of: number) => ({
  tenantId: null,
  entryId: null,
  reason: `removed: ${seals} of ${of} seals, with their traces in the chains`,
})

beforeEach(async () => {
  audited = await openAudited(inject('postgresUrl'))
  await audited.tenancy.tenants.create({ id: 'globex', name: 'Globex' })
  await audited.tenancy.tenants.create({ id: 'acme', name: 'Acme' })
  heads = [await sealedHead()]
  for (const name of ['one', 'two', 'three', 'four']) {
    audited.clock.advance(1_000)
    await audited.tenancy.tenants.update('acme', { name })
    heads.push(await sealedHead())
  }
  entries = (
    await query(`select entry_id as id from multitenancy.audit_seals where tenant_id = 'acme' order by seq`)
  ).map((row) => row.id)
  expect(await verifyAll()).toEqual({ ok: true, checked: 6, unsealed: 0, broken: [] })
})
afterEach(() => audited.close())

async function sealedHead(): Promise<Record<string, unknown>> {
  await seal()
  const [head] = await query(`select to_jsonb(h) as kept from multitenancy.audit_heads h where tenant_id = 'acme'`)
  return head?.kept
}

/** Removes all traces of seals from that entry on. */
async function takeBackTo(seq: number): Promise<void> {
  await query(`delete from multitenancy.audit_seals where tenant_id = 'acme' and seq >= $1`, [seq])
  await query(`delete from multitenancy.audit_heads where tenant_id = 'acme'`)
  await query(
    'insert into multitenancy.audit_heads select (jsonb_populate_record(null::multitenancy.audit_heads, $1)).* where $1 is not null',
    [heads[seq - 2] ?? null],
  )
}

test('the number of seals, and a kept hash, reveal a removed newest entry with its end', async () => {
  const hash = (await audited.tenancy.auditLogs.list('acme')).data[0]?.hash ?? expect.fail()
  expect(await verify({ expect: hash })).toMatchObject({ ok: true })
  await takeBackTo(5)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = $1', [entries[4]])
  expect(await verify()).toMatchObject({ ok: true })
  expect((await verify({ expect: hash })).broken).toEqual([
    { tenantId: 'acme', entryId: null, reason: 'removed: no entry has the expected hash' },
  ])
  expect((await verifyAll()).broken).toEqual([lost(1, 6)])
})

test.each([
  ['a rolled-back watermark', `update multitenancy.audit_state set sealed_to = '0'`],
  ['a missing watermark', 'update multitenancy.audit_state set sealed_to = null'],
  ['entries that were moved to a new transaction', 'update multitenancy.audit_entries set xact = pg_current_xact_id()'],
])('the number of seals reveals a chain that was sealed again without an entry, with %s', async (_, how) => {
  await takeBackTo(2)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = $1', [entries[2]])
  await bypassTriggers(audited, how)
  expect(await seal()).toBe(3)
  expect(await verify()).toEqual({ ok: true, checked: 4, unsealed: 0, broken: [] })
  expect((await verifyAll()).broken).toEqual([lost(4, 9)])
  await audited.tenancy.tenants.update('acme', { name: 'five' })
  await seal()
  expect((await verifyAll()).broken).toEqual([lost(4, 10)])
})

test('the number of seals reveals a removed chain', async () => {
  await takeBackTo(1)
  await bypassTriggers(audited, `delete from multitenancy.audit_entries where tenant_id = 'acme'`)
  expect((await verifyAll()).broken).toEqual([lost(5, 6)])
})

test('forged ends that compensate for removed seals are reported', async () => {
  await takeBackTo(4)
  await query(`insert into multitenancy.audit_heads values ('initech', 2, gen_random_uuid(), 'x', 'x')`)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = any($1)', [[entries[3], entries[4]]])
  expect((await verifyAll()).broken).toMatchObject([{ tenantId: 'initech', reason: 'changed: end of the chain' }])
  await query(`update multitenancy.audit_heads set seq = seq + 2 where tenant_id = 'globex'`)
  await query(`delete from multitenancy.audit_heads where tenant_id = 'initech'`)
  expect((await verifyAll()).broken).toMatchObject([{ tenantId: 'globex', reason: 'changed: end of the chain' }])
})

test('an altered number of seals is reported, stays unchanged, and does not stop the sealing', async () => {
  await takeBackTo(5)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = $1', [entries[4]])
  await query('update multitenancy.audit_state set seals = seals - 1')
  const changed = { tenantId: null, entryId: null, reason: 'changed: number of all seals' }
  expect((await verifyAll()).broken).toEqual([changed])
  await audited.tenancy.tenants.update('acme', { name: 'five' })
  expect(await seal()).toBe(1)
  expect((await verifyAll()).broken).toEqual([changed])
})

test('changed and inserted entries are not sealed again', async () => {
  await bypassTriggers(audited, `update multitenancy.audit_entries set actor_id = 'mallory' where id = any($1)`, [
    entries,
  ])
  await takeBackTo(1)
  await query(`update multitenancy.audit_state set sealed_to = '0'`)
  const named = async () =>
    (await verify()).broken.filter(({ entryId }) => entries.includes(entryId ?? '')).map(({ reason }) => reason)
  expect(await seal()).toBe(0)
  expect(await named()).toEqual(Array(5).fill('changed before it was sealed, or inserted'))
  for (const [mac, reason] of [
    [null, 'inserted: no seal, and not waiting for one'],
    ['0'.repeat(64), 'changed before it was sealed, or inserted'],
  ] as const) {
    await bypassTriggers(audited, 'update multitenancy.audit_entries set xact = pg_current_xact_id(), mac = $1', [mac])
    expect(await seal()).toBe(0)
    expect(await named()).toEqual(Array(5).fill(reason))
  }
})
