/** Entries that a superuser changes before they are sealed, and entries that concurrent passes seal. */

import { describe, expect, test } from 'vitest'
import { recordChange } from '../../kernel/events/changes.ts'
import { openSealed } from './tampering.fixture.ts'

const sealed = openSealed()
const { query, bypassTriggers, verify, brokenOf, seal, rename } = sealed

describe('before its seal, an entry', () => {
  const named = async (name: string): Promise<string> =>
    (
      await query(`select id from multitenancy.audit_entries where after ->> 'name' = $1 and tenant_id = $2`, [
        name,
        sealed.id,
      ])
    )[0]?.id

  test('that was changed is never sealed, and is reported after the watermark has passed it, too', async () => {
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

  test('without its HMAC is never sealed, and is reported', async () => {
    await rename('five')
    const five = await named('five')
    await bypassTriggers('update multitenancy.audit_entries set mac = null where id = $1', [five])
    expect(await seal()).toBe(0)
    expect(await brokenOf()).toEqual([[five, 'inserted: no seal, and not waiting for one']])
  })

  test('that was removed leaves no trace, and other entries are sealed', async () => {
    await rename('five')
    await rename('six')
    await bypassTriggers('delete from multitenancy.audit_entries where id = $1', [await named('five')])
    expect(await seal()).toBe(1)
    expect(await verify()).toEqual({ ok: true, checked: 6, unsealed: 0, broken: [] })
  })

  test('that was moved to a later transaction is sealed, and one of a future transaction is reported', async () => {
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
    expect(await brokenOf()).toEqual([[await named('six'), 'inserted: no seal, and not waiting for one']])
  })

  test('that a moved watermark has passed is reported; a watermark of the future hides none', async () => {
    await rename('five')
    expect(await verify()).toMatchObject({ ok: true })
    await query('update multitenancy.audit_state set sealed_to = pg_current_xact_id()')
    expect(await brokenOf()).toEqual([[await named('five'), 'inserted: no seal, and not waiting for one']])
    expect(await seal()).toBe(0)
    await query(`update multitenancy.audit_state set sealed_to = '1000000000000000'`)
    await seal()
    expect(await verify()).toEqual({ ok: true, checked: 6, unsealed: 0, broken: [] })
  })
})

test.each([
  ['before', `'-1 hour'`],
  ['after', `'1 hour'`],
])('with the id of another one, the second %s, does not stop the sealing', async (_, distance) => {
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
  expect(broken.map(({ reason }) => reason)).toEqual(Array(6).fill('inserted: no seal, and not waiting for one'))
})

test('is sealed once by concurrent passes of several batches, and verified', async () => {
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
  expect(await verify()).toEqual({ ok: true, checked: 2_005, unsealed: 0, broken: [] })
})
