/** A superuser takes a chain back, with a head that was once its own and that he has kept, and has the sealer go on from there. */
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { type Audited, openAudited } from './audited.fixture.ts'
import { bypassTriggers } from './bypass-triggers.fixture.ts'

let audited: Audited
/** The oldest first. */
let entries: string[]
/** As they were after each of them. */
let heads: Record<string, unknown>[]

const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const verify = (options = {}) => audited.tenancy.auditLogs.verify({ tenantId: 'acme', ...options })
const verifyAll = () => audited.tenancy.auditLogs.verify()
const seal = () => audited.tenancy.auditLogs.sealer.seal()
const lost = (seals: number, of: number) => ({
  tenantId: null,
  entryId: null,
  reason: `removed: ${seals} of ${of} seals, with all that chains know of them`,
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
  expect(await verifyAll()).toEqual({ ok: true, checked: 6, broken: [] })
})
afterEach(() => audited.close())

async function sealedHead(): Promise<Record<string, unknown>> {
  await seal()
  const [head] = await query(`select to_jsonb(h) as kept from multitenancy.audit_heads h where tenant_id = 'acme'`)
  return head?.kept
}

/** As if nothing had been sealed from that entry on. */
async function takeBackTo(seq: number): Promise<void> {
  await query(`delete from multitenancy.audit_seals where tenant_id = 'acme' and seq >= $1`, [seq])
  await query(`delete from multitenancy.audit_heads where tenant_id = 'acme'`)
  await query(
    'insert into multitenancy.audit_heads select (jsonb_populate_record(null::multitenancy.audit_heads, $1)).* where $1 is not null',
    [heads[seq - 2] ?? null],
  )
}

test('the newest entry of a chain is gone with its head: who counts all seals knows, and who kept a hash', async () => {
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
  ['the bound was taken back', `update multitenancy.audit_state set sealed_to = '0'`],
  ['the bound is gone', 'update multitenancy.audit_state set sealed_to = null'],
  ['they were moved to a new transaction', 'update multitenancy.audit_entries set xact = pg_current_xact_id()'],
])('the others are sealed anew without one, as %s: who counts all seals knows', async (_, how) => {
  await takeBackTo(2)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = $1', [entries[2]])
  await bypassTriggers(audited, how)
  expect(await seal()).toBe(3)
  expect(await verify()).toEqual({ ok: true, checked: 4, broken: [] })
  expect((await verifyAll()).broken).toEqual([lost(4, 9)])
  await audited.tenancy.tenants.update('acme', { name: 'five' })
  await seal()
  expect((await verifyAll()).broken).toEqual([lost(4, 10)])
})

test('a whole chain is gone with its head: who counts all seals knows', async () => {
  await takeBackTo(1)
  await bypassTriggers(audited, `delete from multitenancy.audit_entries where tenant_id = 'acme'`)
  expect((await verifyAll()).broken).toEqual([lost(5, 6)])
})

test('heads that make up for it are named', async () => {
  await takeBackTo(4)
  await query(`insert into multitenancy.audit_heads values ('initech', 2, gen_random_uuid(), 'x', 'x')`)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = any($1)', [[entries[3], entries[4]]])
  expect((await verifyAll()).broken).toMatchObject([{ tenantId: 'initech', reason: 'changed: where the chain ends' }])
  await query(`update multitenancy.audit_heads set seq = seq + 2 where tenant_id = 'globex'`)
  await query(`delete from multitenancy.audit_heads where tenant_id = 'initech'`)
  expect((await verifyAll()).broken).toMatchObject([{ tenantId: 'globex', reason: 'changed: where the chain ends' }])
})

test('a count that was altered is named, is never counted on, and keeps nothing from being sealed', async () => {
  await takeBackTo(5)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = $1', [entries[4]])
  await query('update multitenancy.audit_state set seals = seals - 1')
  const changed = { tenantId: null, entryId: null, reason: 'changed: how many seals were made' }
  expect((await verifyAll()).broken).toEqual([changed])
  await audited.tenancy.tenants.update('acme', { name: 'five' })
  expect(await seal()).toBe(1)
  expect((await verifyAll()).broken).toEqual([changed])
})

test('nobody has a chain sealed anew that was changed, nor an entry of their own', async () => {
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
    [null, 'inserted: it has no seal and waits for none'],
    ['0'.repeat(64), 'changed before it was sealed, or inserted'],
  ] as const) {
    await bypassTriggers(audited, 'update multitenancy.audit_entries set xact = pg_current_xact_id(), mac = $1', [mac])
    expect(await seal()).toBe(0)
    expect(await named()).toEqual(Array(5).fill(reason))
  }
})
