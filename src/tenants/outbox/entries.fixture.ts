/** Cases of entries in a shared database: applied once after a commit, never after a rollback. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runInContext } from '../../kernel/base/context.ts'
import { createSecrets } from '../../kernel/crypto/crypto.ts'
import { eventually, installed, type TestTenancy } from '../../testing/base/tenancy.ts'
import type { IsolationDriver } from '../isolation/driver.ts'
import { outboxDiagnosis } from './doctor.ts'
import { ADD, ADD_2, EXPORT, type LedgerSatellites, type LedgerTenancy, ledger, openLedger } from './outbox.fixture.ts'

const ANN = { type: 'user', id: 'ann', name: 'Ann' } as const

const id = 'acme'
/** A busy machine. */
const EXPORTED_WITHIN_MS = 60_000

/** @param isolation a driver for each tenancy */
export function describeOutbox(isolation: () => IsolationDriver): void {
  let opened: TestTenancy<LedgerSatellites>
  let tenancy: LedgerTenancy

  beforeAll(async () => {
    opened = await openLedger({ isolation: [isolation()] })
    tenancy = opened.tenancy
    await installed(tenancy, { id, name: 'Acme' })
  })
  afterAll(() => opened.end())

  const numbers = (tenantId = id) => tenancy.ledger.numbers(tenantId)
  const applied = (expected: readonly number[]) => eventually(async () => expect(await numbers()).toEqual(expected))
  const outboxRows = async () => {
    const { rows } = await tenancy.kernel.database.sql(
      'select kind, context, mac from tenantry.outbox where tenant = $1',
      [id],
    )
    return rows
  }

  test('a call in a committed transaction is applied once, with its actor', async () => {
    const tenant = await tenancy.tenant(id)
    await runInContext({ actor: ANN }, () =>
      tenant.transaction(async (db) => {
        await db.insertInto('notes').values({ id: 1 }).execute()
        await tenancy.ledger.add(id, 1)
        expect(await numbers()).toEqual([])
      }),
    )
    await eventually(async () => expect(await tenancy.ledger.lines(id)).toEqual([{ tenantId: id, n: 1, actor: 'ann' }]))
    await eventually(async () => expect(await outboxRows()).toEqual([]))
  })

  test('a call in a rolled back transaction has no effect', async () => {
    const tenant = await tenancy.tenant(id)
    const failing = tenant.transaction(async (db) => {
      await tenancy.ledger.add(id, 2)
      await db.insertInto('notes').values({ id: 1 }).execute()
    })
    await expect(failing).rejects.toThrow('duplicate key')
    await tenant.transaction(() => tenancy.ledger.add(id, 3))
    await applied([1, 3])
  })

  test('a call in a transaction of the backoffice joins that, also inside a tenant’s transaction', async () => {
    const tenant = await tenancy.tenant(id)
    const failing = tenant.transaction(async () => {
      await tenancy.transaction(() => tenancy.ledger.add(id, 4))
      throw new Error('rolled back')
    })
    await expect(failing).rejects.toThrow('rolled back')
    expect(await numbers()).toEqual([1, 3, 4])
  })

  test('a call for another tenant does not join the transaction', async () => {
    const tenant = await tenancy.tenant(id)
    await tenant.transaction(async () => {
      await tenancy.ledger.add('other', 1)
      expect(await numbers('other')).toContain(1)
    })
  })

  test('a statement cannot read or change the outbox, or post outside of a scope', async () => {
    const { pool } = await tenancy.tenant(id)
    for (const text of [
      'select from tenantry.outbox',
      `insert into tenantry.outbox (id, tenant, kind, payload) values (gen_random_uuid(), 'other', 'x', '{}')`,
      'delete from tenantry.outbox',
      `select set_config('app.tenant_id', '', true), tenantry.post(gen_random_uuid(), 'x', '{}'::jsonb)`,
      `select set_config('app.tenant_id', '', true), tenantry.post(gen_random_uuid(), 'x', '{}')`,
    ]) {
      await expect(pool.query(text)).rejects.toMatchObject({ code: '42501' })
    }
  })

  test('post rejects payloads and MACs that are too large, and payloads that are not JSON', async () => {
    const { pool, transaction } = await tenancy.tenant(id)
    const post = (payload: string) => pool.query('select tenantry.post($1, $2, $3)', [randomUUID(), ADD, payload])
    await expect(post('{')).rejects.toMatchObject({ code: '22P02' })
    await expect(post(JSON.stringify('x'.repeat(256 * 1024)))).rejects.toMatchObject({ code: '54000' })
    const mac = pool.query(`select tenantry.post($1, $2, '{}', null, repeat('x', 101))`, [randomUUID(), ADD])
    await expect(mac).rejects.toMatchObject({ code: '54000' })
    const large = transaction(async () => tenancy.ledger.add(id, 'x'.repeat(256 * 1024) as never))
    await expect(large).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })

  test('SQL of the host posts with the actor sql, also with a forged MAC', async () => {
    const { pool } = await tenancy.tenant(id)
    const forged = JSON.stringify({ requestId: null, actor: ANN, ip: null })
    const other = createSecrets(Buffer.alloc(32, 9).toString('base64')).sign(forged, 'outbox entry')
    const post = 'select tenantry.post($1, $2, $3, $4, $5)'
    await pool.query(post, [randomUUID(), ADD, '{"n": 10}', forged, other])
    await pool.query('select tenantry.post($1, $2, $3)', [randomUUID(), ADD, '{"n": 11}'])
    await eventually(async () =>
      expect((await tenancy.ledger.lines(id)).slice(-2)).toEqual([
        { tenantId: id, n: 10, actor: 'sql' },
        { tenantId: id, n: 11, actor: 'sql' },
      ]),
    )
  })

  test('post accepts payloads of type jsonb', async () => {
    const { pool } = await tenancy.tenant(id)
    const values = [randomUUID(), ADD, { n: 12 }]
    await pool.query('select tenantry.post($1, $2, $3::jsonb)', values)
    await pool.query('select tenantry.post($1, $2, $3::jsonb, $4)', [randomUUID(), ADD, { n: 13 }, null])
    await pool.query(`select tenantry.post($1, $2, jsonb_build_object('n', 14))`, [randomUUID(), ADD])
    await pool.query(`select tenantry.post('${randomUUID()}', '${ADD}', '{"n": 15}', null)`)
    await pool.query(`select tenantry.post(id => $1, kind => $2, payload => $3)`, [randomUUID(), ADD, '{"n": 16}'])
    await eventually(async () => expect((await numbers()).filter((n) => n > 11)).toEqual([12, 13, 14, 15, 16]))
  })

  test('an id is applied once, however often it is posted', async () => {
    const { pool, transaction } = await tenancy.tenant(id)
    const twice = randomUUID()
    const post = { text: 'select tenantry.post($1, $2, $3)', values: [twice, ADD, '{"n": 20}'] }
    await Promise.all([pool.query(post), pool.query(post)])
    await pool.query(post)
    await transaction(() => tenancy.ledger.add(id, 21))
    await eventually(async () => expect(await outboxRows()).toEqual([]))
    expect((await numbers()).filter((n) => n >= 20)).toEqual([20, 21])
  })

  test('statements of calls are applied with a transaction of a library', async () => {
    const { pool, statements } = await tenancy.tenant(id)
    const [first] = await statements(() => tenancy.ledger.add(id, 30))
    const [second] = await statements(() => tenancy.ledger.add(id, 31))
    if (!first || !second) throw new Error('a call has no statement')
    const client = await pool.connect()
    await client.query('begin')
    await client.query(first.text, [...first.values])
    await client.query('rollback')
    await client.query('begin')
    await client.query(second.text, [...second.values])
    await client.query('commit')
    client.release()
    await eventually(async () => expect((await numbers()).filter((n) => n >= 30)).toEqual([31]))
  })

  test('statements requires the promise of the calls', async () => {
    const { statements } = await tenancy.tenant(id)
    const unawaited = () => {
      tenancy.ledger.add(id, 32)
    }
    await expect(statements(unawaited as never)).rejects.toThrow(TypeError)
  })

  test('a failed entry is kept with its error, the others of its batch are applied, and a retry applies it', async () => {
    const tenant = await tenancy.tenant(id)
    for (const { ledger } of opened.opened()) ledger.rejected.add(41)
    await tenant.transaction(async () => {
      for (const n of [40, 41, 42]) await tenancy.ledger.add(id, n)
    })
    await eventually(async () => expect((await numbers()).filter((n) => n >= 40)).toEqual([40, 42]))
    const { outbox } = tenancy.tenants
    const { data } = await outbox.failed.list({ tenantId: id })
    expect(data).toMatchObject([
      { tenantId: id, kind: ADD, payload: { n: 41 }, error: expect.stringContaining('n: is rejected') },
    ])
    expect(await outbox.failed.retry({ tenantId: id })).toEqual({ applied: 0, failed: 1 })
    for (const { ledger } of opened.opened()) ledger.rejected.delete(41)
    expect(await outbox.failed.retry({ tenantId: id })).toEqual({ applied: 1, failed: 0 })
    expect(await outbox.failed.retry({ tenantId: id })).toEqual({ applied: 0, failed: 0 })
    expect((await numbers()).filter((n) => n >= 40)).toEqual([40, 41, 42])
  })

  test('an entry of SQL with a wrong payload fails with the paths of the payload', async () => {
    const { pool } = await tenancy.tenant(id)
    const { failed } = tenancy.tenants.outbox
    await pool.query('select tenantry.post($1, $2, $3)', [randomUUID(), ADD, '{"n": "forty"}'])
    await eventually(async () =>
      expect((await failed.list({ tenantId: id })).data).toMatchObject([
        { payload: { n: 'forty' }, error: expect.stringContaining('payload.n: Invalid input') },
      ]),
    )
    await tenancy.kernel.database.sql('delete from multitenancy.outbox_failed')
  })

  test('an entry that cannot be stored as failed with its arguments is stored without them', async () => {
    const { database } = tenancy.kernel
    await database.sql("alter table multitenancy.outbox_failed add constraint storable check (payload not like '%43%')")
    const { transaction } = await tenancy.tenant(id)
    for (const { ledger } of opened.opened()) ledger.rejected.add(43)
    await transaction(async () => {
      for (const n of [43, 44]) await tenancy.ledger.add(id, n)
    })
    await eventually(async () => expect(await numbers()).toContain(44))
    expect((await tenancy.tenants.outbox.failed.list({ tenantId: id })).data).toMatchObject([
      { kind: ADD, payload: null, error: expect.stringContaining('SQLSTATE 23514') },
    ])
    await database.sql('delete from multitenancy.outbox_failed')
    await database.sql('alter table multitenancy.outbox_failed drop constraint storable')
  })

  test('an outage of one kind stops no entries of other kinds, of any number, and its entries are applied after it', async () => {
    const { pool } = await tenancy.tenant(id)
    const post = (kind: string, numbers: string) =>
      pool.query(`select tenantry.post(gen_random_uuid(), $1, json_build_object('n', n)::text) from ${numbers} n`, [
        kind,
      ])
    for (const { ledger } of opened.opened()) ledger.isExportDown = true
    await post(EXPORT, 'generate_series(10_001, 11_000)')
    await post(ADD, 'generate_series(2001, 2003)')
    await post(EXPORT, 'generate_series(11_001, 11_010)')
    await post(ADD, 'generate_series(2004, 2006)')
    await eventually(async () =>
      expect((await numbers()).filter((n) => n > 2000 && n < 3000)).toEqual([2001, 2002, 2003, 2004, 2005, 2006]),
    )
    await tenancy.tenants.outbox.settled()
    const kept = await tenancy.kernel.database.sql('select kind, count(*)::int from tenantry.outbox group by kind')
    expect(kept.rows).toEqual([{ kind: EXPORT, count: 1_010 }])
    expect((await tenancy.tenants.outbox.failed.list({ tenantId: id })).data).toEqual([])
    for (const { ledger } of opened.opened()) ledger.isExportDown = false
    const exported = Array.from({ length: 1_010 }, (_, at) => 10_001 + at)
    const all = async () => expect((await numbers()).filter((n) => n > 10_000)).toEqual(exported)
    await eventually(all, EXPORTED_WITHIN_MS)
    await eventually(async () => expect(await outboxRows()).toEqual([]))
  })

  test('an entry of a newer release waits for a process that knows its kind, and is a finding', async () => {
    const { pool } = await tenancy.tenant(id)
    await pool.query('select tenantry.post($1, $2, $3)', [randomUUID(), ADD_2, '{"numbers": [3001, 3002]}'])
    await pool.query('select tenantry.post($1, $2, $3)', [randomUUID(), ADD, '{"n": 3003}'])
    await eventually(async () => expect((await numbers()).filter((n) => n > 3000 && n < 4000)).toEqual([3003]))
    const findings = async () => {
      const all = await Array.fromAsync(outboxDiagnosis.examine(tenancy.tenants.outbox, undefined as never))
      return all.filter(({ code }) => code === 'outbox.unknown-kind')
    }
    expect(await findings()).toMatchObject([
      {
        severity: 'warn',
        message: expect.stringMatching(/^1 entry of the outbox on the placement main .* the kind ledger\.add@2$/),
      },
    ])
    expect(await outboxRows()).toMatchObject([{ kind: ADD_2 }])
    await opened.open({ isolation: [isolation()], satellites: [ledger(true)] })
    await eventually(async () =>
      expect((await numbers()).filter((n) => n > 3000 && n < 4000)).toEqual([3001, 3002, 3003]),
    )
    await eventually(async () => expect(await outboxRows()).toEqual([]))
    expect(await findings()).toEqual([])
  })

  test('an entry older than 35 days is not applied', async () => {
    const post = `insert into tenantry.outbox (id, tenant, kind, payload, posted_at)
      values (gen_random_uuid(), $1, $2, '{"n": 50}', now() - interval '35 days 1 second')`
    await tenancy.kernel.database.sql(post, [id, ADD])
    await eventually(async () => expect(await outboxRows()).toEqual([]))
    const { data } = await tenancy.tenants.outbox.failed.list({ tenantId: id })
    expect(data).toMatchObject([{ payload: { n: 50 }, error: 'The entry is older than 35 days.' }])
    expect(await tenancy.tenants.outbox.failed.retry({ tenantId: id })).toEqual({ applied: 0, failed: 0 })
    expect(await numbers()).not.toContain(50)
    const only = { tenantId: id, id: data[0]?.id }
    expect(await tenancy.tenants.outbox.failed.retry(only)).toEqual({ applied: 1, failed: 0 })
    expect(await numbers()).toContain(50)
  })
}
