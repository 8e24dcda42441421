/** Months of the audit log: their creation and their content. */
import { randomUUID } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { migrate } from '../../kernel/database/migrations.ts'
import { createTestDatabase } from '../../testing/base/database.ts'
import { AuditLogs } from './audit-logs.ts'
import { tables } from './model/tables.ts'
import { openMonths } from './months.fixture.ts'

const { query, kernel, tenants, log, setTime, record, months, connect } = openMonths()

const keptIn = async (): Promise<Record<string, number>> =>
  Object.fromEntries(
    (
      await query(
        `select tableoid::regclass::text as name, count(*)::int as n from multitenancy.audit_entries group by 1`,
      )
    ).map(({ name, n }) => [name.replace('multitenancy.audit_entries_', ''), n]),
  )

test('months are created in advance and append-only, and take over entries of the default partition unchanged', async () => {
  setTime('2031-01-31T23:59:59.999Z')
  await record('acme', 'january')
  setTime('2031-02-01T00:00:00Z')
  await record('acme', 'february')
  expect(await keptIn()).toEqual({ others: 2 })
  const before = (await log().list('acme')).data
  expect(await log().months.keep()).toEqual({ made: 3, dropped: expect.any(Number), isComplete: true })
  expect(await months()).toEqual(expect.arrayContaining(['203102', '203103', '203104', 'others']))
  expect(await keptIn()).toEqual({ others: 1, 203102: 1 })
  expect((await log().list('acme')).data).toEqual(before)
  expect(await log().months.keep()).toEqual({ made: 0, dropped: 0, isComplete: true })
  expect(await log().months.missing()).toEqual([])
  // Months that are created later reject changes, too.
  for (const table of ['audit_entries_203102', 'audit_entries_others']) {
    for (const attempt of [`delete from multitenancy.${table}`, `truncate multitenancy.${table}`]) {
      await expect(query(attempt)).rejects.toThrow(/append-only/)
    }
  }
})

test('a locked table is left to the next run', async () => {
  setTime('2032-02-01T00:00:00Z')
  const client = await connect()
  await client.query('begin; lock table multitenancy.audit_entries in access share mode')
  expect(await log().months.keep()).toMatchObject({ isComplete: false })
  await client.end()
  await expect.poll(() => log().months.keep(), { timeout: 20_000 }).toMatchObject({ isComplete: true })
})

test('an installation without monthly partitions keeps and seals all its entries', async () => {
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
    expect(months).toEqual([{ n: 4 }]) // the present month, two future ones, and the default partition

    const before = new AuditLogs({ ...kernel(), database }, tenants())
    const insert = `insert into multitenancy.audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target, outcome, created_at)
      values ($1, 'acme', 'a.b', 'admin', 'a', 'a', 't', 'success', now())`
    // By a process of the previous version, which still runs.
    await database.sql(insert, [randomUUID()])
    expect(await before.verify()).toEqual({ ok: true, checked: 0, unsealed: 4, broken: [] })
    expect(await before.sealer.seal()).toBe(4)
    expect(await before.verify()).toEqual({ ok: true, checked: 4, unsealed: 0, broken: [] })
    const late = randomUUID()
    await database.sql(insert, [late])
    expect(await before.sealer.seal()).toBe(0)
    expect((await before.verify()).broken).toEqual([
      { tenantId: 'acme', entryId: late, reason: 'inserted: no seal, and not waiting for one' },
    ])
  } finally {
    await database.close()
    await created.drop()
  }
})
