import { beforeAll, describe, expect, inject, test } from 'vitest'
import { currentContext, enterContext } from '../../kernel/base/context.ts'
import { uuidv7 } from '../../kernel/base/ids.ts'
import { attentionOf, NO_ATTENTION } from '../../kernel/shares/contributions.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { installed, testTenancy } from '../../testing/base/tenancy.ts'
import { Attention, type AttentionFilter } from './attention.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

let isBroken = false
let reads = 0
const weather = defineSatellite({
  name: 'weather',
  summary: 'Reports storms',
  service: () => ({}),
  attention: [
    {
      name: 'storm',
      severity: 'notice',
      read: (_, { tenantId, limit }) => {
        reads += 1
        if (isBroken) throw new Error('no forecast')
        if (tenantId !== undefined) return NO_ATTENTION
        const entry = { tenantId: null, title: 'Storm', since: null, count: 1, operation: 'health.get', params: {} }
        return { entries: Array.from({ length: limit + 10 }, () => entry), total: 1_000 }
      },
    },
    {
      name: 'flood',
      severity: 'high',
      read: (_, { tenantId, limit }) =>
        attentionOf(
          (tenantId === undefined ? ['health.get', 'doctor.get'] : []).flatMap((operation, index) =>
            Array.from({ length: limit }, () => ({ operation, total: 100 + index })),
          ),
          ({ operation }) => ({ tenantId: null, title: 'Flood', since: null, count: 1, operation, params: {} }),
        ),
    },
  ],
})

let tenancy: Tenancy
beforeAll(async () => {
  const opened = await testTenancy(inject('postgresUrl'), { satellites: [weather] })
  tenancy = opened.tenancy
  return opened.end
})

/** With an empty cache. */
const listed = (filter: AttentionFilter) => new Attention(tenancy.kernel).list(filter)

const set = (id: string, changes: string, values: readonly unknown[] = []) =>
  tenancy.kernel.database.sql(`update multitenancy.tenants set ${changes} where id = $1`, [id, ...values])
const ago = (ms: number) => new Date(Date.now() - ms)

async function kindsOf(id: string): Promise<string[]> {
  const { data, failed } = await listed({ tenantId: id })
  expect(failed).toEqual([])
  return data.flatMap(({ kind, tenantId }) => (tenantId === id ? [kind] : []))
}

describe('a tenant', () => {
  test('has no entries while it is active', async () => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    expect(await kindsOf(id)).toEqual([])
  })

  test.each([
    ['installationFailed', `status = 'failed', failure = '{"code":"E_OUT_OF_INK","message":"no ink"}'`, undefined],
    ['suspended', `status = 'suspended', suspended_at = $2`, [ago(25 * HOUR_MS)]],
    [
      'maintenance',
      'maintenance = $2',
      [{ message: null, retryAfterSeconds: 60, since: ago(5 * HOUR_MS).toISOString() }],
    ],
    ['purge', `status = 'deleted', deleted_at = now(), purge_at = $2`, [ago(-2 * DAY_MS)]],
  ])('has the entry %s', async (kind, changes, values) => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    await set(id, changes, values)
    const { data, totals } = await listed({ kind, tenantId: id })
    expect(data).toEqual([expect.objectContaining({ kind, tenantId: id, operation: 'tenants.get', params: { id } })])
    expect(totals).toEqual([{ kind, severity: data[0]?.severity, total: 1 }])
    const all = await listed({ kind })
    expect(all.data.map(({ tenantId }) => tenantId)).toContain(id)
  })

  test.each([
    ['suspended for less than a day', `status = 'suspended', suspended_at = $2`, [ago(23 * HOUR_MS)]],
    [
      'in maintenance for less than 4 hours',
      'maintenance = $2',
      [{ message: null, retryAfterSeconds: 60, since: ago(3 * HOUR_MS).toISOString() }],
    ],
    ['purged in more than 3 days', `status = 'deleted', deleted_at = now(), purge_at = $2`, [ago(-4 * DAY_MS)]],
    ['purged already', `status = 'failed', purged_at = $2`, [ago(0)]],
  ])('has no entry if it is %s', async (_, changes, values) => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    await set(id, changes, values)
    expect(await kindsOf(id)).toEqual([])
  })
})

describe('a transfer', () => {
  const insert = async (id: string, values: Record<string, unknown>) => {
    const row = {
      id: uuidv7(),
      tenant_id: id,
      kind: 'move',
      isolation: 'schema-pg',
      placement: 'main',
      created_at: ago(DAY_MS),
    }
    const all = { ...row, ...values }
    const names = Object.keys(all)
    await tenancy.kernel.database.sql(
      `insert into multitenancy.transfers (${names}) values (${names.map((_, index) => `$${index + 1}`)})`,
      Object.values(all),
    )
    return row.id
  }

  test('that failed has an entry until a later one of its kind succeeds', async () => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    const failure = { code: 'E_OUT_OF_INK', message: 'no ink' }
    const transferId = await insert(id, { state: 'failed', failure, finished_at: ago(HOUR_MS) })
    const { data } = await listed({ tenantId: id })
    expect(data).toMatchObject([
      { kind: 'transferFailed', severity: 'high', operation: 'transfers.get', params: { id, transferId } },
    ])
    await insert(id, { state: 'completed', created_at: ago(HOUR_MS), finished_at: ago(HOUR_MS) })
    expect(await kindsOf(id)).toEqual([])
  })

  test('that runs has an entry after 5 minutes without progress', async () => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    const transferId = await insert(id, { state: 'running', started_at: ago(HOUR_MS), progressed_at: ago(60_000) })
    expect(await kindsOf(id)).toEqual([])
    await tenancy.kernel.database.sql('update multitenancy.transfers set progressed_at = $2 where id = $1', [
      transferId,
      ago(301_000),
    ])
    expect(await kindsOf(id)).toEqual(['transferStalled'])
    await tenancy.kernel.database.sql(`update multitenancy.transfers set state = 'cancelled' where id = $1`, [
      transferId,
    ])
  })
})

describe('the installation', () => {
  test('has an entry for a lost server with tenants', async () => {
    const { id } = await installed(tenancy, { name: 'Acme' })
    await set(id, `placement = 'gone'`)
    await tenancy.tenants.lostPlacements.forget('gone')
    expect(await listed({ kind: 'serverLost' })).toMatchObject({ data: [{ tenantId: null, count: 1 }] })
    expect(await kindsOf(id)).toContain('serverLost')
    await set(id, `placement = 'main'`)
    expect(await listed({ kind: 'serverLost' })).toMatchObject({ data: [] })
  })

  test('has an entry for the errors of the last examination', async () => {
    const published = { examinedAt: new Date(), findings: { error: 2, warn: 1, info: 0 } }
    await tenancy.kernel.store.set(null, 'doctor', JSON.stringify(published))
    expect(await listed({ kind: 'doctorErrors' })).toMatchObject({ data: [{ count: 2, operation: 'doctor.get' }] })
    await tenancy.kernel.store.delete(null, 'doctor')
    expect(await listed({ kind: 'doctorErrors' })).toMatchObject({ data: [] })
  })
})

describe('the list', () => {
  test('has the high entries first, then the longest lasting ones', async () => {
    const ids = await Promise.all([1, 2, 3].map(async () => (await installed(tenancy, { name: 'Acme' })).id))
    const [first = '', second = '', third = ''] = ids
    await set(first, `status = 'suspended', suspended_at = $2`, [ago(30 * HOUR_MS)])
    await set(second, `status = 'suspended', suspended_at = $2`, [ago(40 * HOUR_MS)])
    await set(third, `status = 'failed'`)
    const { data } = await listed({})
    expect(data.flatMap(({ tenantId }) => (ids.includes(tenantId ?? '') ? [tenantId] : []))).toEqual([
      third,
      second,
      first,
    ])
    const severities = data.map(({ severity }) => severity)
    expect(severities).toEqual(severities.toSorted())
  })

  test('has at most 50 entries of a kind, and the total', async () => {
    const { data, totals } = await listed({ kind: 'storm' })
    expect(data).toHaveLength(50)
    expect(totals).toEqual([{ kind: 'storm', severity: 'notice', total: 1_000 }])
  })

  test('names a kind that fails, keeps the others, and reads again for the next request', async () => {
    const { attention } = tenancy.tenants.overview
    isBroken = true
    const { failed, data } = await attention.list({ tenantId: 'broken' })
    isBroken = false
    expect(failed).toEqual(['storm'])
    expect(data).toEqual([])
    expect((await attention.list({ tenantId: 'broken' })).failed).toEqual([])
  })

  test('is read once for concurrent and later requests', async () => {
    const { attention } = tenancy.tenants.overview
    const before = reads
    await Promise.all([attention.list({ tenantId: 'cached' }), attention.list({ tenantId: 'cached', kind: 'storm' })])
    await attention.list({ tenantId: 'cached', severity: 'high' })
    expect(reads).toBe(before + 1)
  })

  test('rejects an unknown kind', async () => {
    await expect(tenancy.tenants.overview.attention.list({ kind: 'earthquake' })).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      message: expect.stringContaining('storm'),
    })
  })
})

const listedWith = (kind: string, ...operations: string[]) => {
  const grant = { bounds: [['*']] as const, operations: new Set(operations), tenants: null, expiresAt: null }
  return enterContext({ ...currentContext(), grant }, () => tenancy.tenants.overview.attention.list({ kind }))
}

test('a token receives only entries whose operation it may call', async () => {
  expect((await listedWith('storm', 'health.get')).totals).toMatchObject([{ total: 1_000 }])
  expect(await listedWith('storm', 'attention.list')).toMatchObject({ data: [], totals: [], failed: [] })
})

test('the total of a kind with several operations counts the entries that a token may read', async () => {
  expect(await listed({ kind: 'flood' })).toMatchObject({ totals: [{ total: 201 }] })
  const { data, totals } = await listedWith('flood', 'doctor.get')
  expect(totals).toEqual([{ kind: 'flood', severity: 'high', total: 101 }])
  expect(data.map(({ operation }) => operation)).toEqual(Array.from({ length: 50 }, () => 'doctor.get'))
})
