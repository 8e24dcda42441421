/** Entries by id, target and request; existing values for filters. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { enterContext } from '../../../kernel/base/context.ts'
import { recordChange } from '../../../kernel/events/changes.ts'
import { type Audited, openAudited } from '../audited.fixture.ts'

let audited: Audited
const log = () => audited.tenancy.auditLogs
beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
})
afterAll(() => audited.close())

const ANN = { type: 'cli', id: 'ann', name: 'Ann' } as const
const record = (action: string, target: string, requestId: string | null = null, tenantId: string | null = 'acme') =>
  enterContext({ requestId, actor: ANN, ip: null }, () =>
    recordChange(audited.tenancy.kernel.events, { action, tenantId, target, after: { target } }),
  )
const targetsOf = async (filter: object) => (await log().listAll(filter)).data.map(({ target }) => target)

describe('a list', () => {
  test('a list filters by target and request, exactly, also with texts that are longer than their index', async () => {
    const long = `note:${'x'.repeat(9_000)}`
    for (const [target, request] of [
      ['note:1', 'r-1'],
      ['note:1', 'r-2'],
      ['note:12', 'r-2'],
      [long, 'r-3'],
      [`${long}!`, 'r-4'],
    ] as const)
      await record('notes.update', target, request)
    expect(await targetsOf({ target: 'note:1' })).toEqual(['note:1', 'note:1'])
    expect(await targetsOf({ requestId: 'r-2' })).toEqual(['note:12', 'note:1'])
    expect(await targetsOf({ target: 'note:1', requestId: 'r-2' })).toEqual(['note:1'])
    expect(await targetsOf({ target: long })).toEqual([long])
    expect(await targetsOf({ requestId: 'r-' })).toEqual([])
    const exported = (await Array.fromAsync(await log().exportAll('ndjson', { target: 'note:12' }))).join('')
    expect(exported.trim().split('\n')).toHaveLength(1)
    const { nextCursor } = await log().listAll({ target: 'note:1', limit: 1 })
    expect(await targetsOf({ target: 'note:1', limit: 1, cursor: nextCursor })).toEqual(['note:1'])
    const ofOther = log().listAll({ target: 'note:2', cursor: nextCursor ?? '' })
    await expect(ofOther).rejects.toMatchObject({ code: 'E_INVALID_REQUEST' })
  })

  test('every partition has the indexes of the lookups, also one that is created later', async () => {
    audited.clock.set(new Date('2031-02-01T00:00:00Z'))
    await log().months.keep()
    const { rows } = await audited.tenancy.kernel.database.sql(`
      select c.relname, count(*) from pg_inherits p join pg_class c on c.oid = p.inhrelid
      join pg_index i on i.indrelid = c.oid and i.indisvalid
      join pg_inherits x on x.inhrelid = i.indexrelid
        and x.inhparent in ('multitenancy.audit_entries_target'::regclass, 'multitenancy.audit_entries_request'::regclass)
      where p.inhparent = 'multitenancy.audit_entries'::regclass group by 1`)
    expect(rows.length).toBeGreaterThan(4)
    expect(new Set(rows.map(({ count }) => count))).toEqual(new Set([2]))
  })
})

describe('one entry', () => {
  test('an entry is found by its id before and after it is sealed', async () => {
    await record('notes.create', 'note:sealed')
    const [entry] = (await log().listAll({ target: 'note:sealed' })).data
    const id = entry?.id ?? ''
    expect(await log().get(id)).toEqual({ ...entry, hash: null })
    await log().sealer.seal()
    const sealed = await log().get(id)
    expect(sealed).toEqual({ ...entry, hash: expect.stringMatching(/^[0-9a-f]{64}$/) })
    const response = await audited.call('GET', `/audit-entries/${id}`)
    expect(await response.json()).toEqual(sealed)
    await record('notes.create', 'note:later')
    const [later] = (await log().listAll({ target: 'note:later' })).data
    expect(await log().get(later?.id ?? '')).toEqual(later)
  })

  test('an unknown id is not found', async () => {
    for (const id of ['00000000-0000-7000-8000-000000000000', 'newest']) {
      await expect(log().get(id)).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    }
  })
})

describe('facets', () => {
  test('facets count actions, actors and targets, the most frequent first, of all tenants or one, within times', async () => {
    audited.clock.advance(60_000)
    const from = audited.clock.now()
    for (const target of ['doc:1', 'doc:1', 'doc:2']) await record('docs.update', target, null, 'facets')
    await record('docs.create', 'doc:3', null, 'facets')
    await record('docs.create', 'doc:1', null, 'others')
    await recordChange(audited.tenancy.kernel.events, { action: 'docs.create', tenantId: null, target: 'doc:4' })
    audited.clock.advance(60_000)
    await record('docs.delete', 'doc:1', null, 'facets')
    const to = audited.clock.now()
    expect(await log().facets({ tenantId: 'facets', from, to })).toEqual({
      entries: 4,
      since: from.toISOString(),
      actions: [
        { value: 'docs.update', count: 3 },
        { value: 'docs.create', count: 1 },
      ],
      actors: [{ ...ANN, count: 4 }],
      targets: [
        { value: 'doc:1', count: 2 },
        { value: 'doc:2', count: 1 },
        { value: 'doc:3', count: 1 },
      ],
    })
    const all = await log().facets({ from })
    expect(all.entries).toBe(7)
    expect(all.actors).toEqual([
      { ...ANN, count: 6 },
      { type: 'host', id: 'host', name: 'host', count: 1 },
    ])
  })

  test('a tenant without entries has no values', async () => {
    expect(await log().facets({ tenantId: 'none' })).toEqual({
      entries: 0,
      since: null,
      actions: [],
      actors: [],
      targets: [],
    })
  })
})
