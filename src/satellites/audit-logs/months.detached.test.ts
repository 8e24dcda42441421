/** Detached months of the audit log: dropped after their retention, kept if an operator detached them. */
import { describe, expect, test } from 'vitest'
import { AuditLogs } from './audit-logs.ts'
import { openMonths, RETENTION_DAYS } from './months.fixture.ts'
import { VERIFY_LOCK } from './verification.ts'

const { query, kernel, tenants, log, setTime, record, months, connect } = openMonths()

describe('a detached month', () => {
  const sealsBefore = async (month: string) =>
    (await query('select from multitenancy.audit_seals where created_at < $1', [month])).length
  const tableOf = async (month: string) =>
    (await query(`select to_regclass('multitenancy.audit_entries_${month}') is not null as "isThere"`))[0].isThere
  const attach = (month: string, from: string, to: string) =>
    query(`alter table multitenancy.audit_entries attach partition multitenancy.audit_entries_${month}
      for values from ('${from}') to ('${to}')`)

  /** After it, June and July (with an entry) are past their retention. */
  async function keepUntilSeptember(): Promise<void> {
    setTime('2031-06-20T00:00:00Z')
    await log().months.keep()
    setTime('2031-07-20T00:00:00Z')
    await log().months.keep()
    await record('hooli', 'july')
    await log().sealer.seal()
    setTime('2031-09-15T00:00:00Z')
  }

  test('past its retention is dropped with its seals after running verifications', async () => {
    await keepUntilSeptember()
    const client = await connect()
    await client.query('begin; lock table multitenancy.audit_checkpoints')
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    await client.query('commit')
    expect(await months()).not.toContain('203107')
    expect(await tableOf('203107')).toBe(true)

    await client.query('select pg_advisory_lock_shared($1)', [VERIFY_LOCK])
    const seals = await sealsBefore('2031-08-01')
    expect(seals).toBeGreaterThan(0)
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    expect(await sealsBefore('2031-08-01')).toBe(seals)
    await client.end()
    await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ isComplete: true })
    expect([await tableOf('203106'), await tableOf('203107')]).toEqual([false, false])
    expect(await sealsBefore('2031-08-01')).toBe(0)
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('that an operator has detached early is kept, under any retention setting', async () => {
    await keepUntilSeptember()
    expect(await log().months.keep()).toMatchObject({ dropped: 2, isComplete: true })
    await record('hooli', 'september')
    await log().sealer.seal()
    const seals = await sealsBefore('2032-01-01')
    const [{ kept_from: keptFrom }] = await query('select kept_from from multitenancy.audit_state')
    await query('alter table multitenancy.audit_entries detach partition multitenancy.audit_entries_203109')
    for (const recordedDate of [keptFrom, null, '2031-12-01']) {
      await query('update multitenancy.audit_state set kept_from = $1', [recordedDate])
      expect(await log().months.keep()).toMatchObject({ made: 0, dropped: 0, isComplete: false })
      expect(await tableOf('203109')).toBe(true)
      expect(await sealsBefore('2032-01-01')).toBe(seals)
    }
    await query('update multitenancy.audit_state set kept_from = $1', [keptFrom])
    await attach('203109', '2031-09-01', '2031-10-01')
    expect(await log().months.keep()).toMatchObject({ isComplete: true })
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('that an operator has detached is kept if retention never dropped a month', async () => {
    const withoutRetention = new AuditLogs(kernel(), tenants())
    setTime('2031-03-31T00:00:00Z')
    await withoutRetention.months.keep()
    await record('acme', 'in march')
    await log().sealer.seal()
    const table = 'multitenancy.audit_entries_203103'
    await query(`alter table multitenancy.audit_entries detach partition ${table}`)
    for (const day of ['2031-03-31', '2031-09-01']) {
      setTime(day)
      expect(await withoutRetention.months.keep()).toMatchObject({ dropped: 0 })
      for (const kept of [table, 'multitenancy.audit_seals']) expect(await query(`select from ${kept}`)).toHaveLength(1)
      expect(await query('select from multitenancy.audit_checkpoints')).toHaveLength(0)
    }
  })

  test('is dropped once by concurrent processes', async () => {
    setTime('2031-09-15T00:00:00Z')
    await log().months.keep()
    setTime('2031-11-20T00:00:00Z')
    const processes = Array.from({ length: 5 }, () => new AuditLogs(kernel(), tenants(), RETENTION_DAYS))
    await Promise.all(processes.map(({ months }) => months.keep({ maxAttempts: 10, retryDelayMs: 50 })))
    await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ dropped: 0, isComplete: true })
    expect((await months()).filter((month) => month !== 'others')).toEqual(['203110', '203111', '203112', '203201'])
    expect(await log().verify()).toMatchObject({ ok: true })
  })
})
