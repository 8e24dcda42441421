import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Terminal } from '../../kernel/api/commands.ts'
import { recordChange } from '../../kernel/events/changes.ts'
import { ENTRIES_AT_ONCE } from './audit-logs.ts'
import { type Audited, openAudited } from './audited.fixture.ts'
import { commands } from './commands.ts'
import type { AuditEntry } from './model/entry.ts'

const MANY = ENTRIES_AT_ONCE * 5
const HEADER = 'id,tenantId,action,actorType,actorId,actorName,target,before,after,requestId,ip,outcome,createdAt,hash'

let audited: Audited
beforeAll(async () => {
  audited = await openAudited(inject('postgresUrl'))
  // Ten entries with the same time, so parts start between them.
  await audited.tenancy.kernel.database.sql(
    `insert into multitenancy.audit_entries
     select gen_random_uuid(), 'big', 'tenants.update', 'cli', 'ann', 'Ann', 'tenant:big', null, jsonb_build_object('n', n),
       null, null, 'success', timestamptz '2020-01-01' + n / 10 * interval '1 second'
     from generate_series(1, $1::int) n`,
    [MANY],
  )
  await audited.tenancy.tenants.create({ id: 'acme', name: 'Acme' })
  await audited.tenancy.tenants.update('acme', { name: 'Acme "Ltd"' })
})
afterAll(() => audited.close())

async function collected(pieces: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = []
  for await (const piece of pieces) all.push(piece)
  return all
}

const linesOf = (text: string) => text.split('\n').filter(Boolean)
const countAll = async (): Promise<number> =>
  (await audited.tenancy.kernel.database.sql('select count(*) as n from multitenancy.audit_entries')).rows[0].n
const get = (path: string, accept: string) => audited.call('GET', path, { headers: { accept } })

describe('an NDJSON export', () => {
  test('has one object on each line, equal to the list', async () => {
    const response = await get('/tenants/acme/audit-logs', 'application/x-ndjson')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/x-ndjson')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="audit-logs-acme.ndjson"')
    expect(response.headers.get('x-request-id')).toBeTruthy()
    const entries = linesOf(await response.text()).map((line) => JSON.parse(line))
    expect(entries.length).toBeGreaterThanOrEqual(2)
    expect(entries).toEqual((await audited.tenancy.auditLogs.list('acme')).data)
  })

  test('has all entries once and in order, and ignores limit and cursor', async () => {
    const response = await get('/tenants/big/audit-logs?limit=1&cursor=anything', 'application/x-ndjson')
    const entries: AuditEntry[] = linesOf(await response.text()).map((line) => JSON.parse(line))
    expect(new Set(entries.map(({ id }) => id)).size).toBe(MANY)
    const keys = entries.map(({ createdAt, id }) => `${createdAt} ${id}`)
    expect(keys).toEqual(keys.toSorted().reverse())
  })

  test('has the entries that the filters select', async () => {
    const query = 'from=2020-01-01T00:00:01Z&to=2020-01-01T00:00:02Z&action=tenants.update&actor=Ann'
    for (const path of [`/tenants/big/audit-logs?${query}`, `/audit-logs?tenantId=big&${query}`]) {
      const numbers = linesOf(await (await get(path, 'application/x-ndjson')).text()).map(
        (line) => JSON.parse(line).after.n,
      )
      expect(numbers.toSorted((a, b) => a - b)).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    }
    const none = await get('/tenants/big/audit-logs?actor=unknown', 'application/x-ndjson')
    expect([none.status, await none.text()]).toEqual([200, ''])
  })

  test('of all tenants has all entries, and an invalid filter is rejected', async () => {
    const response = await get('/audit-logs', 'application/x-ndjson')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="audit-logs.ndjson"')
    expect(linesOf(await response.text())).toHaveLength(await countAll())
    expect((await get('/audit-logs?from=yesterday', 'application/x-ndjson')).status).toBe(400)
  })
})

describe('a CSV export', () => {
  test('has a header and one row for each entry, quoted and without formulas', async () => {
    const change = { action: 'notes.add', tenantId: null, target: '@note:7', after: { text: 'a "b",\nc', list: [1] } }
    await audited.as({ type: 'cli', id: '=1+1', name: 'O"Hara, "Bob"' }, () =>
      recordChange(audited.tenancy.kernel.events, change),
    )
    const response = await get('/audit-logs?action=notes.add', 'text/csv')
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="audit-logs.csv"')
    const [entry] = (await audited.tenancy.auditLogs.listAll({ action: 'notes.add' })).data
    expect((await response.text()).split('\r\n')).toEqual([
      HEADER,
      `${entry?.id},,notes.add,cli,'=1+1,"O""Hara, ""Bob""",'@note:7,` +
        `,"{""list"":[1],""text"":""a \\""b\\"",\\nc""}",,,success,${entry?.createdAt},`,
      '',
    ])
  })

  test('without entries is the header only', async () => {
    expect(await (await get('/audit-logs?actor=unknown', 'text/csv')).text()).toBe(`${HEADER}\r\n`)
  })
})

describe('an export in parts', () => {
  test('has a limited number of entries in each part', async () => {
    const pieces = await collected(await audited.tenancy.auditLogs.export('big', 'ndjson'))
    expect(pieces.map((piece) => linesOf(piece).length)).toEqual(Array(5).fill(ENTRIES_AT_ONCE))
  })

  test('reads parts on demand, and stops when its reader stops', async () => {
    const { body } = await get('/tenants/big/audit-logs', 'text/csv')
    const reader = body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    expect(linesOf(new TextDecoder().decode(value))).toHaveLength(1 + ENTRIES_AT_ONCE)
    await reader?.cancel()
    expect((await reader?.read())?.done).toBe(true)
  })

  test('has no entries that were added during the export, and no repeats', async () => {
    const seen: string[] = []
    const expected = await countAll()
    for await (const piece of await audited.tenancy.auditLogs.exportAll('ndjson')) {
      seen.push(...linesOf(piece).map((line) => JSON.parse(line).id))
      await audited.tenancy.tenants.update('acme', { name: `Acme ${seen.length}` })
    }
    expect([seen.length, new Set(seen).size]).toEqual([expected, expected])
    expect(await countAll()).toBeGreaterThan(expected)
  })
})

describe('tenant:audit:export', () => {
  const [command] = commands
  const unused = () => {
    throw new Error('this command only writes')
  }

  async function run(
    args: Record<string, string>,
    texts: Record<string, string>,
    signal = new AbortController().signal,
    isJson = false,
  ) {
    const written: string[] = []
    const terminal: Terminal = {
      input: Readable.from([]),
      isJson,
      isConfirmed: false,
      table: unused,
      list: unused,
      page: unused,
      record: unused,
      say: unused,
      progress: () => undefined,
      confirm: unused,
      prompt: unused,
      item: unused,
      write: async (piece) => void written.push(piece),
    }
    const options = Object.fromEntries(
      (command?.options ?? []).map(({ flags, parse, default: preset }) => {
        const name = /^--(\w+)/.exec(flags)?.[1] ?? ''
        const text = texts[name]
        return [name, text === undefined ? preset : (parse?.(text) ?? text)]
      }),
    )
    await command?.run(audited.tenancy.auditLogs, { args, options, terminal, signal })
    return written.join('')
  }

  test('the command exports the same text as the API', async () => {
    expect(await run({ id: 'acme' }, {})).toBe(
      await (await get('/tenants/acme/audit-logs', 'application/x-ndjson')).text(),
    )
    expect(await run({}, { format: 'csv' })).toBe(await (await get('/audit-logs', 'text/csv')).text())
  })

  test('with --json it is JSON, and a table is refused', async () => {
    const { signal } = new AbortController()
    expect(await run({ id: 'acme' }, {}, signal, true)).toBe(await run({ id: 'acme' }, {}))
    await expect(run({}, { format: 'csv' }, signal, true)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      message: expect.stringContaining('csv is not JSON'),
    })
  })

  test('the command exports entries between two times', async () => {
    const range = { from: '2020-01-01T00:00:01Z', to: '2020-01-01T00:00:02Z' }
    expect(linesOf(await run({ id: 'big' }, range))).toHaveLength(10)
    expect(linesOf(await run({ id: 'big' }, { to: '2020-01-01' }))).toHaveLength(0)
  })

  test('the command rejects invalid options and an unknown tenant', async () => {
    await expect(run({}, { format: 'xml' })).rejects.toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
    await expect(run({}, { from: 'yesterday' })).rejects.toThrow(expect.objectContaining({ code: 'E_INVALID_REQUEST' }))
    await expect(run({ id: 'unknown' }, {})).rejects.toThrow(expect.objectContaining({ code: 'E_TENANT_NOT_FOUND' }))
  })

  test('the command ends when it is interrupted', async () => {
    await expect(run({ id: 'big' }, {}, AbortSignal.abort())).rejects.toThrow(/abort/)
  })
})
