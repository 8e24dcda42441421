/** Months past their retention: when they are dropped, and where the chains start afterwards. */
import { describe, expect, test } from 'vitest'
import { openMonths } from './months.fixture.ts'
import { VERIFY_LOCK } from './verification.ts'

const { query, log, setTime, record, months, connect } = openMonths()

describe('a month past its retention', () => {
  test('is dropped whole, and the chains start at checkpoints that cannot be forged', async () => {
    setTime('2031-02-27T00:00:00Z')
    await log().months.keep()
    for (const target of ['a', 'b', 'c']) await record('acme', target)
    await record('globex', 'only in february')
    await record(null, 'without a tenant')
    await log().sealer.seal()
    setTime('2031-03-05T00:00:00Z')
    await record('acme', 'in march')
    setTime('2031-04-09T00:00:00Z') // 39 days after the end of February
    await log().sealer.seal()
    expect(await log().months.keep()).toMatchObject({ dropped: 0 })
    setTime('2031-04-10T00:00:00Z')
    expect(await log().months.keep()).toMatchObject({ dropped: 1, isComplete: true })
    expect(await months()).not.toContain('203102')
    expect((await log().list('acme')).data.map(({ target }) => target)).toEqual(['in march'])
    expect(await log().verify()).toEqual({ ok: true, checked: expect.any(Number), unsealed: 0, broken: [] })
    await record('globex', 'again')
    await record(null, 'again')
    await log().sealer.seal()
    expect(await log().verify()).toMatchObject({ ok: true })
    const [sealed] = (await query(`select seq::int from multitenancy.audit_seals where tenant_id = 'globex'`)) as [any]
    expect(sealed.seq).toBe(2)

    const [{ seq, hash }] = (await query(
      `select seq::int, hash from multitenancy.audit_checkpoints where tenant_id = 'globex'`,
    )) as [any]
    await query(`update multitenancy.audit_checkpoints set seq = 2, hash = s.hash from multitenancy.audit_seals s
      where s.tenant_id = 'globex' and audit_checkpoints.tenant_id = 'globex'`)
    expect((await log().verify({ tenantId: 'globex' })).broken[0]).toMatchObject({
      reason: 'changed: start of the chain',
    })
    await query(`update multitenancy.audit_checkpoints set seq = $1, hash = $2 where tenant_id = 'globex'`, [seq, hash])
    expect(await log().verify({ tenantId: 'globex' })).toMatchObject({ ok: true })
    const [{ kept_from: keptFrom }] = (await query('select kept_from from multitenancy.audit_state')) as [any]
    await query(`update multitenancy.audit_state set kept_from = now() + interval '50 years'`)
    expect((await log().verify()).broken).toContainEqual(expect.objectContaining({ reason: 'changed: retention time' }))
    await query('update multitenancy.audit_state set kept_from = $1', [keptFrom])
    expect(await log().verify()).toMatchObject({ ok: true })

    // It does not hide a missing entry within its retention.
    const [{ entry_id: id, created_at: at }] = (await query(
      `select entry_id, created_at from multitenancy.audit_seals where tenant_id = 'globex'`,
    )) as [any]
    await query(`update multitenancy.audit_seals set created_at = '2000-01-01' where entry_id = $1`, [id])
    expect((await log().verify({ tenantId: 'globex' })).broken[0]).toMatchObject({ entryId: id, reason: 'changed' })
    await query('update multitenancy.audit_seals set created_at = $2 where entry_id = $1', [id, at])
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('is kept until it is sealed and no verification reads it', async () => {
    setTime('2031-03-20T00:00:00Z')
    await log().months.keep()
    await record('acme', 'late in march')
    setTime('2031-05-15T00:00:00Z')
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    await log().sealer.seal()
    const client = await connect()
    await client.query('select pg_advisory_lock_shared($1)', [VERIFY_LOCK])
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    await client.end()
    await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ dropped: 1, isComplete: true })
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('keeps the chain whole if its seals are among seals of later months', async () => {
    setTime('2031-04-30T00:00:00Z')
    await log().months.keep()
    await record('initech', 'april')
    setTime('2031-05-15T00:00:00Z')
    await record('initech', 'may')
    await log().sealer.seal()
    setTime('2031-04-29T00:00:00Z')
    await record('initech', 'april, recorded late')
    await log().sealer.seal()
    setTime('2031-06-20T00:00:00Z')
    expect(await log().months.keep()).toMatchObject({ isComplete: true })
    expect((await log().list('initech')).data.map(({ target }) => target)).toEqual(['may'])
    expect(await log().verify({ tenantId: 'initech' })).toEqual({ ok: true, checked: 2, unsealed: 0, broken: [] })
  })
})
