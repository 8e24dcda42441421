/** Where entries are kept, and how they go. */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { recordChange } from '../../kernel/changes.ts'
import { Database } from '../../kernel/database.ts'
import { createLogger } from '../../kernel/logger.ts'
import { migrate } from '../../kernel/migrations.ts'
import { createTestDatabase } from '../../testing/database.ts'
import { AuditLogs } from './audit-logs.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { tables } from './tables.ts'
import { VERIFY_LOCK } from './verification.ts'

const RETENTION_DAYS = 40

let audited: Audited
const query = async (text: string, values: unknown[] = []) =>
  (await audited.tenancy.kernel.database.sql(text, values)).rows
const months = async () =>
  (
    await query(`select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = 'multitenancy.audit_entries'::regclass order by 1`)
  ).map(({ relname }) => relname.replace('audit_entries_', ''))
const keptIn = async (): Promise<Record<string, number>> =>
  Object.fromEntries(
    (
      await query(
        `select tableoid::regclass::text as name, count(*)::int as n from multitenancy.audit_entries group by 1`,
      )
    ).map(({ name, n }) => [name.replace('multitenancy.audit_entries_', ''), n]),
  )
const record = (tenantId: string | null, target: string) =>
  recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId, target })
const log = () => audited.tenancy.auditLogs

beforeEach(async () => {
  audited = await openAudited(inject('postgresUrl'), 'api', { retentionDays: RETENTION_DAYS })
})
afterEach(() => audited.close())

test('months are made ahead and append-only, and take over the entries of the default one unchanged', async () => {
  audited.clock.set(new Date('2031-01-31T23:59:59.999Z'))
  await record('acme', 'january')
  audited.clock.advance(1)
  await record('acme', 'february')
  expect(await keptIn()).toEqual({ others: 2 })
  const before = (await log().list('acme')).data
  expect(await log().months.keep()).toEqual({ made: 3, dropped: expect.any(Number), isComplete: true })
  expect(await months()).toEqual(expect.arrayContaining(['203102', '203103', '203104', 'others']))
  expect(await keptIn()).toEqual({ others: 1, 203102: 1 })
  expect((await log().list('acme')).data).toEqual(before)
  expect(await log().months.keep()).toEqual({ made: 0, dropped: 0, isComplete: true })
  expect(await log().months.missing()).toEqual([])
  // The months made later refuse changes as the first ones do.
  for (const table of ['audit_entries_203102', 'audit_entries_others']) {
    for (const attempt of [`delete from multitenancy.${table}`, `truncate multitenancy.${table}`]) {
      await expect(query(attempt)).rejects.toThrow(/append-only/)
    }
  }
})

describe('what is past its retention', () => {
  test('goes by whole months, and the chains that are left begin at checkpoints that cannot be forged', async () => {
    audited.clock.set(new Date('2031-02-27T00:00:00Z'))
    await log().months.keep()
    for (const target of ['a', 'b', 'c']) await record('acme', target)
    await record('globex', 'only in february')
    await record(null, 'of nobody')
    await log().sealer.seal()
    audited.clock.set(new Date('2031-03-05T00:00:00Z'))
    await record('acme', 'in march')
    audited.clock.set(new Date('2031-04-09T00:00:00Z')) // 39 days after the end of February
    await log().sealer.seal()
    expect(await log().months.keep()).toMatchObject({ dropped: 0 })
    audited.clock.set(new Date('2031-04-10T00:00:00Z'))
    expect(await log().months.keep()).toMatchObject({ dropped: 1, isComplete: true })
    expect(await months()).not.toContain('203102')
    expect((await log().list('acme')).data.map(({ target }) => target)).toEqual(['in march'])
    expect(await log().verify()).toEqual({ ok: true, checked: expect.any(Number), broken: [] })
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
      reason: 'changed: where the chain begins',
    })
    await query(`update multitenancy.audit_checkpoints set seq = $1, hash = $2 where tenant_id = 'globex'`, [seq, hash])
    expect(await log().verify({ tenantId: 'globex' })).toMatchObject({ ok: true })
    const [{ kept_from: keptFrom }] = (await query('select kept_from from multitenancy.audit_state')) as [any]
    await query(`update multitenancy.audit_state set kept_from = now() + interval '50 years'`)
    expect((await log().verify()).broken).toContainEqual(
      expect.objectContaining({ reason: 'changed: from when on entries are kept' }),
    )
    await query('update multitenancy.audit_state set kept_from = $1', [keptFrom])
    expect(await log().verify()).toMatchObject({ ok: true })

    // Nor does it excuse a younger entry.
    const [{ entry_id: id, created_at: at }] = (await query(
      `select entry_id, created_at from multitenancy.audit_seals where tenant_id = 'globex'`,
    )) as [any]
    await query(`update multitenancy.audit_seals set created_at = '2000-01-01' where entry_id = $1`, [id])
    expect((await log().verify({ tenantId: 'globex' })).broken[0]).toMatchObject({ entryId: id, reason: 'changed' })
    await query('update multitenancy.audit_seals set created_at = $2 where entry_id = $1', [id, at])
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('stays while it is not sealed, and while somebody verifies', async () => {
    audited.clock.set(new Date('2031-03-20T00:00:00Z'))
    await log().months.keep()
    await record('acme', 'late in march')
    audited.clock.set(new Date('2031-05-15T00:00:00Z'))
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    await log().sealer.seal()
    const client = new pg.Client({ connectionString: audited.url })
    await client.connect()
    await client.query('select pg_advisory_lock_shared($1)', [VERIFY_LOCK])
    expect(await log().months.keep()).toMatchObject({ dropped: 0, isComplete: false })
    await client.end()
    await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ dropped: 1, isComplete: true })
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('and was sealed among younger ones keeps the chain whole', async () => {
    audited.clock.set(new Date('2031-04-30T00:00:00Z'))
    await log().months.keep()
    await record('initech', 'april')
    audited.clock.set(new Date('2031-05-15T00:00:00Z'))
    await record('initech', 'may')
    await log().sealer.seal()
    audited.clock.set(new Date('2031-04-29T00:00:00Z'))
    await record('initech', 'april, told late')
    await log().sealer.seal()
    audited.clock.set(new Date('2031-06-20T00:00:00Z'))
    expect(await log().months.keep()).toMatchObject({ isComplete: true })
    expect((await log().list('initech')).data.map(({ target }) => target)).toEqual(['may'])
    expect(await log().verify({ tenantId: 'initech' })).toEqual({ ok: true, checked: 2, broken: [] })
  })
})

describe('a month that is detached', () => {
  const sealsBefore = async (month: string) =>
    (await query('select from multitenancy.audit_seals where created_at < $1', [month])).length
  const tableOf = async (month: string) =>
    (await query(`select to_regclass('multitenancy.audit_entries_${month}') is not null as "isThere"`))[0].isThere
  const attach = (month: string, from: string, to: string) =>
    query(`alter table multitenancy.audit_entries attach partition multitenancy.audit_entries_${month}
      for values from ('${from}') to ('${to}')`)

  /** Then June and July, which has an entry, are past their retention. */
  async function keepUntilSeptember(): Promise<void> {
    audited.clock.set(new Date('2031-06-20T00:00:00Z'))
    await log().months.keep()
    audited.clock.set(new Date('2031-07-20T00:00:00Z'))
    await log().months.keep()
    await record('hooli', 'july')
    await log().sealer.seal()
    audited.clock.set(new Date('2031-09-15T00:00:00Z'))
  }

  test('is dropped with its seals only when nobody verifies', async () => {
    await keepUntilSeptember()
    const client = new pg.Client({ connectionString: audited.url })
    await client.connect()
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

  test('by hand, before its time is over, is kept, whatever is said of how long entries are kept', async () => {
    await keepUntilSeptember()
    expect(await log().months.keep()).toMatchObject({ dropped: 2, isComplete: true })
    await record('hooli', 'september')
    await log().sealer.seal()
    const seals = await sealsBefore('2032-01-01')
    const [{ kept_from: keptFrom }] = await query('select kept_from from multitenancy.audit_state')
    await query('alter table multitenancy.audit_entries detach partition multitenancy.audit_entries_203109')
    for (const said of [keptFrom, null, '2031-12-01']) {
      await query('update multitenancy.audit_state set kept_from = $1', [said])
      expect(await log().months.keep()).toMatchObject({ made: 0, dropped: 0, isComplete: false })
      expect(await tableOf('203109')).toBe(true)
      expect(await sealsBefore('2032-01-01')).toBe(seals)
    }
    await query('update multitenancy.audit_state set kept_from = $1', [keptFrom])
    await attach('203109', '2031-09-01', '2031-10-01')
    expect(await log().months.keep()).toMatchObject({ isComplete: true })
    expect(await log().verify()).toMatchObject({ ok: true })
  })

  test('by hand, where nothing was ever dropped, is kept', async () => {
    const fresh = await openAudited(inject('postgresUrl'))
    try {
      const { auditLogs, kernel } = fresh.tenancy
      fresh.clock.set(new Date('2031-03-31T00:00:00Z'))
      await auditLogs.months.keep()
      await recordChange(kernel.events, { action: 'crm.sync', tenantId: 'acme', target: 'in march' })
      await auditLogs.sealer.seal()
      const table = 'multitenancy.audit_entries_203103'
      await kernel.database.sql(`alter table multitenancy.audit_entries detach partition ${table}`)
      for (const day of ['2031-03-31', '2031-09-01']) {
        fresh.clock.set(new Date(day))
        expect(await auditLogs.months.keep()).toMatchObject({ dropped: 0 })
        for (const kept of [table, 'multitenancy.audit_seals']) {
          expect((await kernel.database.sql(`select from ${kept}`)).rows).toHaveLength(1)
        }
        expect((await kernel.database.sql('select from multitenancy.audit_checkpoints')).rows).toHaveLength(0)
      }
    } finally {
      await fresh.close()
    }
  })

  test('is dropped once, however many processes look', async () => {
    audited.clock.set(new Date('2031-09-15T00:00:00Z'))
    await log().months.keep()
    audited.clock.set(new Date('2031-11-20T00:00:00Z'))
    const processes = Array.from({ length: 5 }, () => new AuditLogs(audited.tenancy.kernel, RETENTION_DAYS))
    await Promise.all(processes.map(({ months }) => months.keep({ tries: 10 })))
    await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ dropped: 0, isComplete: true })
    expect((await months()).filter((month) => month !== 'others')).toEqual(['203110', '203111', '203112', '203201'])
    expect(await log().verify()).toMatchObject({ ok: true })
  })
})

test('a table that somebody has locked is left to the next run', async () => {
  audited.clock.set(new Date('2032-02-01T00:00:00Z'))
  const client = new pg.Client({ connectionString: audited.url })
  await client.connect()
  await client.query('begin; lock table multitenancy.audit_entries in access share mode')
  expect(await log().months.keep()).toMatchObject({ isComplete: false })
  await client.end()
  await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ isComplete: true })
})

test('an installation from before there were months keeps all it has, and seals it', async () => {
  const created = await createTestDatabase(inject('postgresUrl'))
  const database = new Database({ url: created.url }, createLogger({ level: 'silent' }))
  try {
    await database.sql(
      `do $$ begin execute format('alter database %I set timezone = ''America/New_York''', current_database()); end $$`,
    )
    await migrate(database, [{ part: 'auditLogs', migrations: tables.slice(0, 1) }])
    const times = ['2026-01-31T23:59:59.999Z', '2026-02-01T00:00:00Z', '2026-02-15T00:00:00Z']
    for (const at of times) {
      await database.sql(
        `insert into multitenancy.audit_entries values ($1, 'acme', 'a.b', 'admin', 'a', 'a', 't', null, '{"b": 1}', null, null, 'success', $2)`,
        [randomUUID(), at],
      )
    }
    await migrate(database, [{ part: 'auditLogs', migrations: tables }])
    const { rows } = await database.sql(
      `select tableoid::regclass::text as name, count(*)::int as n from multitenancy.audit_entries group by 1 order by 1`,
    )
    const present = new Date().toISOString().slice(0, 7).replace('-', '')
    expect(rows).toEqual([{ name: `multitenancy.audit_entries_${present}`, n: 3 }])
    await expect(database.sql(`delete from multitenancy.audit_entries_${present}`)).rejects.toThrow(/append-only/)
    const { rows: months } = await database.sql(
      `select count(*)::int as n from pg_inherits where inhparent = 'multitenancy.audit_entries'::regclass`,
    )
    expect(months).toEqual([{ n: 4 }]) // the present one, two to come, and the default one

    const before = new AuditLogs({ ...audited.tenancy.kernel, database })
    const insert = `insert into multitenancy.audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target, outcome, created_at)
      values ($1, 'acme', 'a.b', 'admin', 'a', 'a', 't', 'success', now())`
    // By a process of the version before, which still runs.
    await database.sql(insert, [randomUUID()])
    expect(await before.verify()).toEqual({ ok: true, checked: 0, broken: [] })
    expect(await before.sealer.seal()).toBe(4)
    expect(await before.verify()).toEqual({ ok: true, checked: 4, broken: [] })
    const late = randomUUID()
    await database.sql(insert, [late])
    expect(await before.sealer.seal()).toBe(0)
    expect((await before.verify()).broken).toEqual([
      { tenantId: 'acme', entryId: late, reason: 'inserted: it has no seal and waits for none' },
    ])
  } finally {
    await database.close()
    await created.drop()
  }
})
