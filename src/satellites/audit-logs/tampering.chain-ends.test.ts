/** The end of a chain that a superuser changes: the verification reports it, also after later seals. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { openSealed } from './tampering.fixture.ts'

const sealed = openSealed()
const { query, bypassTriggers, verify, seal, rename } = sealed

describe('the end of a chain', () => {
  const endsWrong = { tenantId: '', entryId: null, reason: 'changed: end of the chain' }
  const removeNewest = async () => {
    await bypassTriggers('delete from multitenancy.audit_entries where id = $1', [sealed.entries[4]])
    await query('delete from multitenancy.audit_seals where entry_id = $1', [sealed.entries[4]])
  }
  const setBack = () =>
    query(
      `update multitenancy.audit_heads h set seq = s.seq, entry_id = s.entry_id, hash = s.hash from multitenancy.audit_seals s
       where h.tenant_id = $1 and s.entry_id = $2`,
      [sealed.id, sealed.entries[3]],
    )
  const named = async () =>
    (await sealed.audited.tenancy.auditLogs.verify()).broken.filter(({ tenantId }) => tenantId === sealed.id)
  beforeEach(() => {
    endsWrong.tenantId = sealed.id
  })
  // Restores the number of seals for the other tests.
  afterEach(() =>
    query(
      `update multitenancy.audit_heads
       set seq = seq + (select seals from multitenancy.audit_state) - (select sum(seq) from multitenancy.audit_heads) where tenant_id = $1`,
      [sealed.id],
    ),
  )

  test('that was moved behind the newest entry is reported, for one tenant and for all', async () => {
    await removeNewest()
    await setBack()
    expect(await verify()).toEqual({ ok: false, checked: 4, unsealed: 0, broken: [endsWrong] })
    expect(await named()).toEqual([endsWrong])
    const response = await sealed.audited.call('GET', `/audit-logs/verify?tenantId=${sealed.id}`)
    expect(await response.json()).toMatchObject({ ok: false, broken: [endsWrong] })
  })

  test('that was altered stays invalid after later seals', async () => {
    await removeNewest()
    await setBack()
    for (const name of ['five', 'six']) {
      await rename(name)
      expect(await seal()).toBe(1)
      expect((await verify()).broken).toEqual([endsWrong])
    }
  })

  test.each([
    ['position', 'seq = seq + 1'],
    ['hash', `hash = encode(sha256('x'), 'hex')`],
    ['HMAC', `mac = ''`],
    ['HMAC of another tenant', `mac = (select mac from multitenancy.audit_heads where tenant_id <> $1 limit 1)`],
  ])('with a changed %s is reported', async (_, change) => {
    await query(`update multitenancy.audit_heads set ${change} where tenant_id = $1`, [sealed.id])
    expect((await verify()).broken).toEqual([endsWrong])
  })

  test('that is missing is reported, also after later seals', async () => {
    await query('delete from multitenancy.audit_heads where tenant_id = $1', [sealed.id])
    const gone = { ...endsWrong, reason: 'removed: end of the chain' }
    expect((await verify()).broken).toEqual([gone])
    expect(await named()).toEqual([gone])
    await rename('five')
    await seal()
    expect((await verify()).broken).toEqual([endsWrong])
  })

  test('is not reported as missing if the chain starts during a verification', async () => {
    const client = new pg.Client({ connectionString: sealed.audited.url })
    await client.connect()
    const { rows } = await client.query('delete from multitenancy.audit_heads where tenant_id = $1 returning *', [
      sealed.id,
    ])
    await client.query('begin; lock table multitenancy.audit_checkpoints')
    const verified = verify() // The verification has read the ends when it waits for the checkpoints.
    const waiting = `select from ${WAITING_LOCKS} where relation = 'multitenancy.audit_checkpoints'::regclass`
    await expect.poll(() => query(waiting), { timeout: 20_000 }).toHaveLength(1)
    await client.query(
      'insert into multitenancy.audit_heads select (json_populate_record(null::multitenancy.audit_heads, $1)).*',
      rows,
    )
    await client.query('commit')
    await client.end()
    expect(await verified).toEqual({ ok: true, checked: 5, unsealed: 0, broken: [] })
  })
})
