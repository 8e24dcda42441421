/** Attempts of a superuser to stop the sealing, or to get valid seals for false entries. */
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { recordChange } from '../../kernel/events/changes.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { bypassTriggers } from './bypass-triggers.fixture.ts'

/** Valid times of PostgreSQL that are no dates of JavaScript. */
const TIMES = ['infinity', '-infinity', '294276-12-31', '4713-01-01 BC']
const ALL = { tenantId: null, entryId: null }

let audited: Audited
const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const log = () => audited.tenancy.auditLogs
const record = (target: string, tenantId = 'acme') =>
  recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId, target })

beforeEach(async () => {
  audited = await openAudited(inject('postgresUrl'), 'api', { retentionDays: 40 })
})
afterEach(() => audited.close())

test('entries with impossible times are reported, and stop neither sealing nor reading', async () => {
  await record('before')
  const inserted = TIMES.map((at) => ({ at, id: randomUUID() }))
  for (const { at, id } of inserted) {
    await query(
      `insert into multitenancy.audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target, outcome, created_at, mac)
       values ($1, 'acme', 'x', 'admin', 'a', 'a', 't', 'success', $2, 'x')`,
      [id, at],
    )
  }
  await record('after')
  expect(await log().sealer.seal()).toBe(2)
  const { ok, checked, broken } = await log().verify()
  expect({ ok, checked }).toEqual({ ok: false, checked: 2 })
  const reason = 'inserted: no seal, and not waiting for one'
  expect(broken).toHaveLength(TIMES.length)
  for (const { id } of inserted) expect(broken).toContainEqual({ tenantId: 'acme', entryId: id, reason })
  expect((await log().list('acme')).data.map(({ target }) => target)).toEqual(['after', 'before'])
  expect(await log().sealing(0)).toMatchObject({ waiting: 0, since: null })
})

test('entries within their retention are not dropped for a date that was changed in their seals', async () => {
  audited.clock.set(new Date('2031-01-31T23:00:00Z'))
  await log().months.keep()
  await record('january')
  audited.clock.set(new Date('2031-02-27T00:00:00Z'))
  await record('february')
  audited.clock.set(new Date('2031-03-05T00:00:00Z'))
  await log().months.keep()
  for (const target of ['march 1', 'march 2', 'march 3']) await record(target)
  await log().sealer.seal()

  audited.clock.set(new Date('2031-04-10T00:00:00Z'))
  const stolen = await query(`select id from multitenancy.audit_entries where target in ('march 1', 'march 2')`)
  const ids = stolen.map(({ id }) => id)
  await bypassTriggers(audited, 'delete from multitenancy.audit_entries where id = any($1)', [ids])
  await query(`update multitenancy.audit_seals set created_at = '2031-02-28' where entry_id = any($1)`, [ids])
  await log().months.keep()
  const { broken } = await log().verify()
  expect(broken.map(({ entryId }) => entryId)).toEqual(expect.arrayContaining(ids))
})

test('entries within their retention are not dropped for a forged checkpoint', async () => {
  audited.clock.set(new Date('2031-01-31T23:00:00Z'))
  await log().months.keep()
  for (const target of ['january 1', 'january 2', 'january 3']) await record(target)
  audited.clock.set(new Date('2031-02-27T00:00:00Z'))
  await log().months.keep()
  await record('february')
  await log().sealer.seal()
  const [first] = await query(`select seq, hash from multitenancy.audit_seals order by seq limit 1`)
  await query('delete from multitenancy.audit_seals where seq = $1', [first.seq])
  await query(`insert into multitenancy.audit_checkpoints (tenant_id, seq, hash, mac) values ('acme', $1, $2, '')`, [
    first.seq,
    first.hash,
  ])
  audited.clock.set(new Date('2031-03-20T00:00:00Z'))
  await log().months.keep()
  expect((await log().verify()).broken).toContainEqual({
    tenantId: 'acme',
    entryId: null,
    reason: 'changed: start of the chain',
  })
})

test('a sealed entry that was moved to an impossible time is reported', async () => {
  for (const [n, at] of TIMES.entries()) {
    const tenantId = `tenant-${n}`
    for (const target of ['one', 'two', 'three']) await record(target, tenantId)
    await log().sealer.seal()
    const sealed = await query(
      'select entry_id as id from multitenancy.audit_seals where tenant_id = $1 order by seq',
      [tenantId],
    )
    const id = sealed[1]?.id
    await bypassTriggers(audited, 'update multitenancy.audit_entries set created_at = $2 where id = $1', [id, at])
    await query('update multitenancy.audit_seals set created_at = $2 where entry_id = $1', [id, at])
    const { broken } = await log().verify({ tenantId })
    expect(
      broken.map(({ entryId }) => entryId),
      at,
    ).toContain(id)
  }
})

test('a verification without the seal key reports the missing key', async () => {
  await record('before')
  await log().sealer.seal()
  await query('delete from multitenancy.audit_state')
  const { ok, broken } = await log().verify()
  expect({ ok, broken }).toMatchObject({
    ok: false,
    broken: expect.arrayContaining([{ ...ALL, reason: 'removed: the seal key' }]),
  })
  expect(await log().sealing(0)).toMatchObject({ canDecrypt: false })
})

test('an entry with an unpaired surrogate is sealed as PostgreSQL stores it', async () => {
  await record(`file:${'report 😀'.slice(0, 8)}`)
  expect(await log().sealer.seal()).toBe(1)
  expect(await log().verify()).toEqual({ ok: true, checked: 1, unsealed: 0, broken: [] })
})
