import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { PageOf } from '../../kernel/api/page.ts'
import type { Actor } from '../../kernel/base/context.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import type { AuditEntry } from './model/entry.ts'

const DAY_MS = 86_400_000

let audited: Audited
let onlooker: Database
let made = 0

beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
  onlooker = new Database({ url: audited.url, max: 1 }, createLogger({ level: 'silent' }))
})
afterAll(async () => {
  await onlooker.close()
  await audited.close()
})

/** A tenant of this test. Its log starts with its creation. */
async function newTenant(): Promise<string> {
  const id = `tenant-${++made}`
  await audited.tenancy.tenants.create({ id, name: 'Acme' })
  return id
}

const entriesOf = async (id: string): Promise<AuditEntry[]> => (await audited.tenancy.auditLogs.list(id)).data
const actionsOf = async (id: string) => (await entriesOf(id)).map(({ action }) => action)
const rename = (id: string, name: string) => audited.tenancy.tenants.update(id, { name })
const read = async (path: string): Promise<PageOf<AuditEntry>> =>
  (await (await audited.call('GET', path)).json()) as PageOf<AuditEntry>
const refusal = async (response: Response) => [response.status, ((await response.json()) as { code: string }).code]

describe('an entry', () => {
  test('an entry has the change, the actor and the request', async () => {
    const id = await newTenant()
    audited.clock.advance(1_000)
    const headers = { 'x-request-id': 'request-1' }
    await audited.call('PATCH', `/tenants/${id}`, { body: { name: 'Acme Ltd' }, headers })
    const { data } = await read(`/tenants/${id}/audit-logs`)
    expect(data).toHaveLength(2)
    expect(data[0]).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      tenantId: id,
      action: 'tenants.update',
      actor: { type: 'admin', id: 'alice', name: 'alice' },
      target: `tenant:${id}`,
      before: { name: 'Acme' },
      after: { name: 'Acme Ltd' },
      requestId: 'request-1',
      ip: '192.0.2.7',
      outcome: 'success',
      createdAt: audited.clock.now().toISOString(),
      hash: null,
    })
  })

  test('an entry of a new object has no before, and an entry of the host names the host', async () => {
    const [entry] = await entriesOf(await newTenant())
    expect(entry).toMatchObject({
      action: 'tenants.create',
      actor: { type: 'host', id: 'host', name: 'host' },
      before: null,
      after: { name: 'Acme', metadata: {}, domains: [] },
      requestId: null,
      ip: null,
    })
  })

  test('an entry keeps changed values unchanged, regardless of their keys', async () => {
    const id = await newTenant()
    const metadata = { snake_case: 1, camelCase: [{ 'a.b': null }], 'ключ 🔑': '"quoted", \\ and\nmore' }
    await audited.tenancy.tenants.update(id, { metadata })
    expect((await entriesOf(id))[0]?.after).toEqual({ metadata })
  })

  test('an entry commits with its change, and is invisible before', async () => {
    const id = await newTenant()
    const seen = async () =>
      (await onlooker.sql(`select action from multitenancy.audit_entries where tenant_id = $1`, [id])).rows.length
    await audited.tenancy.transaction(async () => {
      await rename(id, 'Acme Ltd')
      expect(await actionsOf(id)).toEqual(['tenants.update', 'tenants.create'])
      expect(await seen()).toBe(1)
    })
    expect(await seen()).toBe(2)
  })

  test('a rolled-back change has no entry', async () => {
    const id = await newTenant()
    const undone = audited.tenancy.transaction(async () => {
      await rename(id, 'Acme Ltd')
      throw new Error('no')
    })
    await expect(undone).rejects.toThrow('no')
    expect(await actionsOf(id)).toEqual(['tenants.create'])
  })

  test('an entry that cannot be written rolls its change back', async () => {
    const id = await newTenant()
    const { kernel } = audited.tenancy
    const unwritable = audited.tenancy.transaction(async () => {
      await rename(id, 'Acme Ltd')
      await recordChange(kernel.events, { action: 'a NUL: \0', tenantId: id, target: 'x' })
    })
    await expect(unwritable).rejects.toThrow()
    expect((await audited.tenancy.tenants.get(id)).name).toBe('Acme')
    expect(await actionsOf(id)).toEqual(['tenants.create'])
  })

  test('an unchanged or rejected request has no entry', async () => {
    const id = await newTenant()
    await audited.call('PATCH', `/tenants/${id}`, { body: { name: 'Acme' } })
    expect((await audited.call('PUT', `/tenants/${id}/restore`)).status).toBe(409)
    expect((await audited.call('PATCH', `/tenants/${id}`, { body: { name: '' } })).status).toBe(400)
    expect(await actionsOf(id)).toEqual(['tenants.create'])
  })
})

describe('a list', () => {
  test('a list starts at `from` and ends before `to`', async () => {
    const id = await newTenant()
    const noon = new Date(Date.UTC(2030, 0, 1, 12) + made * DAY_MS)
    for (const [minutes, name] of [
      [0, 'first'],
      [1, 'second'],
      [2, 'third'],
    ] as const) {
      audited.clock.set(new Date(noon.getTime() + minutes * 60_000))
      await rename(id, name)
    }
    const at = (minutes: number) => new Date(noon.getTime() + minutes * 60_000).toISOString()
    const names = async (query: string) =>
      (await read(`/tenants/${id}/audit-logs?${query}`)).data.map(({ after }) => after?.name)
    expect(await names(`from=${at(1)}`)).toEqual(['third', 'second'])
    expect(await names(`from=${at(0)}&to=${at(2)}`)).toEqual(['second', 'first'])
    expect(await names(`from=${at(0).slice(0, 10)}&to=${at(1)}`)).toEqual(['first'])
    expect(await names(`from=${encodeURIComponent(at(1).replace('Z', '+00:00'))}`)).toEqual(['third', 'second'])
    expect(await names(`from=${at(2)}&to=${at(1)}`)).toEqual([])
  })

  test('a list filters by action, and by id or name of the actor, exactly', async () => {
    const id = await newTenant()
    const ann: Actor = { type: 'cli', id: 'ann@laptop', name: 'Ann' }
    await audited.as(ann, () => rename(id, 'by Ann'))
    await audited.as({ ...ann, id: 'ann', name: 'Anna' }, () => rename(id, 'by Anna'))
    await audited.tenancy.tenants.delete(id)
    const found = async (query: string) =>
      (await read(`/tenants/${id}/audit-logs?${query}`)).data.map(({ action, after }) => [action, after?.name])
    expect(await found('actor=Ann')).toEqual([['tenants.update', 'by Ann']])
    expect(await found('actor=ann%40laptop')).toEqual([['tenants.update', 'by Ann']])
    expect(await found('actor=ann')).toEqual([['tenants.update', 'by Anna']])
    expect(await found('actor=An')).toEqual([])
    expect(await found('action=tenants.delete')).toEqual([['tenants.delete', undefined]])
    expect(await found('action=tenants.update&actor=host')).toEqual([])
  })

  test('pages have no gaps or repeats while entries are added, even with equal times', async () => {
    const id = await newTenant()
    for (let n = 0; n < 24; n++) await rename(id, `name ${n}`)
    const expected = (await entriesOf(id)).map(({ id }) => id)
    expect(expected).toHaveLength(25)
    const found: string[] = []
    let cursor: string | null = ''
    for (let page = 0; cursor !== null; page++) {
      const { data, nextCursor }: PageOf<AuditEntry> = await read(
        `/tenants/${id}/audit-logs?limit=4${cursor && `&cursor=${cursor}`}`,
      )
      found.push(...data.map((entry) => entry.id))
      cursor = nextCursor
      await rename(id, `added ${page}`)
    }
    expect(found).toEqual(expected)
    expect(await entriesOf(id)).toHaveLength(25 + 7)
  })

  test('the list of one tenant has no entries of other tenants', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await rename(other, 'without a tenant')
    expect((await entriesOf(one)).every(({ tenantId }) => tenantId === one)).toBe(true)
    expect(await actionsOf(one)).toEqual(['tenants.create'])
  })

  test('the list of all entries includes every tenant and entries without a tenant, or one filtered tenant', async () => {
    const [one, other] = [await newTenant(), await newTenant()]
    await recordChange(audited.tenancy.kernel.events, { action: 'plans.reload', tenantId: null, target: 'plans' })
    const all: AuditEntry[] = (await read('/audit-logs?limit=3')).data
    expect(all.map(({ tenantId, action }) => [tenantId, action])).toEqual([
      [null, 'plans.reload'],
      [other, 'tenants.create'],
      [one, 'tenants.create'],
    ])
    expect((await read(`/audit-logs?tenantId=${one}`)).data).toEqual(await entriesOf(one))
    expect((await read('/audit-logs?tenantId=unknown')).data).toEqual([])
  })

  test('a list accepts only cursors of its own filters', async () => {
    const id = await newTenant()
    await rename(id, 'Acme Ltd')
    const { nextCursor } = await read(`/tenants/${id}/audit-logs?limit=1`)
    for (const other of [`/tenants/${id}/audit-logs?action=tenants.create`, '/audit-logs?limit=1']) {
      expect((await audited.call('GET', `${other}&cursor=${nextCursor}`)).status).toBe(400)
    }
  })
})

describe('the log of a tenant', () => {
  test('the log of an unknown tenant is not found', async () => {
    const response = await audited.call('GET', '/tenants/unknown/audit-logs')
    expect(await refusal(response)).toEqual([404, 'E_TENANT_NOT_FOUND'])
    const csv = await audited.call('GET', '/tenants/unknown/audit-logs', { headers: { accept: 'text/csv' } })
    expect([csv.status, csv.headers.get('content-type')]).toEqual([404, 'application/problem+json'])
  })

  test('an id that is not a text is invalid', async () => {
    const wrong = { tenantId: 'unknown' } as never
    for (const list of [() => audited.tenancy.auditLogs.list(wrong), () => audited.tenancy.tenants.get(wrong)]) {
      const message = expect.stringContaining('tenantId')
      await expect(list()).rejects.toMatchObject({ code: 'E_INVALID_REQUEST', message })
    }
  })

  test('the log of a purged tenant stays readable', async () => {
    const id = await newTenant()
    await audited.tenancy.tenants.delete(id)
    audited.clock.advance(31 * DAY_MS)
    await audited.tenancy.tenants.installation.purge(id)
    expect((await audited.call('GET', `/tenants/${id}`)).status).toBe(404)
    const { data } = await read(`/tenants/${id}/audit-logs`)
    expect(data.map(({ action }) => action)).toEqual(['tenants.purge', 'tenants.delete', 'tenants.create'])
  })

  test('entries with an id that only the host knows are readable', async () => {
    await recordChange(audited.tenancy.kernel.events, { action: 'crm.sync', tenantId: 'elsewhere', target: 'crm' })
    expect(await actionsOf('elsewhere')).toEqual(['crm.sync'])
  })
})

describe('the operations of the audit log', () => {
  test.each([
    'from=yesterday',
    'to=2026-02-30',
    'from=',
    'to=1767225600',
    'action=',
    'limit=0',
    'limit=201',
    'sort=asc',
    'cursor=x',
  ])('refuse ?%s', async (query) => {
    const id = await newTenant()
    for (const path of [`/tenants/${id}/audit-logs`, '/audit-logs']) {
      const response = await audited.call('GET', `${path}?${query}`)
      expect(await refusal(response)).toEqual([400, 'E_INVALID_REQUEST'])
    }
  })

  test('require a token with read access', async () => {
    const id = await newTenant()
    for (const path of [`/tenants/${id}/audit-logs`, '/audit-logs']) {
      expect((await audited.call('GET', path, { headers: audited.reader })).status).toBe(200)
      expect((await audited.call('GET', path, { headers: { 'x-admin-token': '' } })).status).toBe(401)
      expect((await audited.call('DELETE', path)).status).toBe(405)
    }
  })
})
