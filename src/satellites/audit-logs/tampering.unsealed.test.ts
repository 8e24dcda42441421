/** Entries that a superuser changes before they are sealed, and entries that concurrent passes seal. */

import { describe, expect, test } from 'vitest'
import { recordChange } from '../../kernel/events/changes.ts'
import { openSealed } from './tampering.fixture.ts'

const sealed = openSealed()
const { query, bypassTriggers, verify, brokenOf, seal, rename } = sealed

describe('before it was sealed', () => {
  const named = async (name: string): Promise<string> =>
    (
      await query(`select id from multitenancy.audit_entries where after ->> 'name' = $1 and tenant_id = $2`, [
        name,
        sealed.id,
      ])
    )[0]?.id

  test('what is changed is never sealed, and is named, also when the sealer has long passed it', async () => {
    await rename('five')
    const five = await named('five')
    await bypassTriggers(`update multitenancy.audit_entries set actor_id = 'mallory' where id = $1`, [five])
    const found = { checked: 5, broken: [{ entryId: five, reason: 'changed before it was sealed, or inserted' }] }
    expect(await verify()).toMatchObject(found)
    await seal()
    expect(await verify()).toMatchObject(found)
    await rename('six')
    expect(await seal()).toBe(1)
    expect(await seal()).toBe(0)
    expect(await verify()).toMatchObject({ ...found, checked: 6 })
  })

  test('what is robbed of its HMAC is never sealed, and is named', async () => {
    await rename('five')
    const five = await named('five')
    await bypassTriggers('update multitenancy.audit_entries set mac = null where id = $1', [five])
    expect(await seal()).toBe(0)
    expect(await brokenOf()).toEqual([[five, 'inserted: it has no seal and waits for none']])
  })

  test('what is removed leaves no trace: nothing else knew of it; others are sealed all the same', async () => {
    await rename('five')
    await rename('six')
    await bypassTriggers('delete from multitenancy.audit_entries where id = $1', [await named('five')])
    expect(await seal()).toBe(1)
    expect(await verify()).toEqual({ ok: true, checked: 6, broken: [] })
  })

  test('what is moved to a later transaction is sealed all the same, and to one that is still to come is named', async () => {
    await rename('five')
    await bypassTriggers('update multitenancy.audit_entries set xact = pg_current_xact_id() where id = $1', [
      await named('five'),
    ])
    expect(await seal()).toBe(1)
    await rename('six')
    await bypassTriggers(`update multitenancy.audit_entries set xact = '1000000000000000' where id = $1`, [
      await named('six'),
    ])
    expect(await seal()).toBe(0)
    expect(await brokenOf()).toEqual([[await named('six'), 'inserted: it has no seal and waits for none']])
  })

  test('waiting entries that a bound was put beyond are named; one that is still to come hides none', async () => {
    await rename('five')
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
  await rename('five')
  await bypassTriggers(
    `insert into multitenancy.audit_entries select id, tenant_id, action, actor_type, actor_id, actor_name, target, before, after,
       request_id, ip, outcome, created_at + interval ${distance}, xact, mac
     from multitenancy.audit_entries where tenant_id = $1`,
    [sealed.id],
  )
  await rename('six')
  expect(await seal()).toBe(2)
  const { checked, broken } = await verify()
  expect(checked).toBe(7)
  expect(broken.map(({ reason }) => reason)).toEqual(Array(6).fill('inserted: it has no seal and waits for none'))
})

test('more entries than are read at once are sealed once each by concurrent passes, and verified', async () => {
  const { tenancy } = sealed.audited
  const record = (n: number) =>
    recordChange(tenancy.kernel.events, { action: 'crm.sync', tenantId: sealed.id, target: `${n}` })
  await Promise.all(
    Array.from({ length: 40 }, async (_, worker) => {
      for (let first = worker * 50; first < worker * 50 + 50; first += 10) {
        await tenancy.transaction(async () => {
          for (let n = first; n < first + 10; n++) await record(n)
        })
      }
    }).concat(
      Array.from({ length: 10 }, async () => {
        for (let n = 0; n < 20; n++) await seal()
      }),
    ),
  )
  await seal()
  expect(await verify()).toEqual({ ok: true, checked: 2_005, broken: [] })
})
