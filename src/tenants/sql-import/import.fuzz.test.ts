/**
 * Random mutations of INSERT statements. Statements outside of the rules reach no server. For all others, the plan of
 * the server shows an INSERT of constants into the tenant's table, and nothing else.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Statement } from '../isolation/driver.ts'
import { importSql } from './import.ts'

const RUNS = 250
const SCHEMA = 't1_acme'

let postgres: TestTenancy<[]>
beforeAll(async () => {
  const up = 'create table notes (id int, body text)'
  postgres = await testTenancy(inject('postgresUrl'), { migrations: [{ name: '0001', checksum: '1', up }] })
  for (const id of ['acme', 'globex']) await installed(postgres.tenancy, { id, name: id })
})
afterAll(() => postgres?.end())

const VALID: readonly string[][] = [
  [
    'insert',
    'into',
    'notes',
    '(',
    'id',
    ',',
    'body',
    ')',
    'values',
    '(',
    '1',
    ',',
    "'a'",
    ')',
    ',',
    '(',
    '2',
    ',',
    'null',
    ')',
  ],
  ['insert', 'into', 'public', '.', 'notes', 'values', '(', '-', '1', ')', 'on', 'conflict', 'do', 'nothing'],
  ['insert', 'into', '"notes"', '(', 'body', ')', 'overriding', 'system', 'value', 'values', '(', "E'\\''", ')'],
  ['insert', 'into', 'notes', 'default', 'values'],
]
const FRAGMENTS = [
  ...[
    "'",
    "''",
    '"',
    '\\',
    '$$',
    '$a$',
    '--',
    '/*',
    '*/',
    '\n',
    ';',
    '(',
    ')',
    ',',
    '.',
    '::',
    '+',
    '-',
    '[',
    ']',
    ':',
    '$1',
  ],
  ...[
    "'a'",
    "'\\'",
    "E'\\''",
    "U&'\\0061'",
    "b'01'",
    "n'a'",
    '"id"',
    'U&"id"',
    '1',
    '1.5e3',
    '0x1',
    '1a',
    'é',
    '\u00a0',
    '\ufeff',
  ],
  ...[
    'null',
    'default',
    'true',
    'id',
    'select',
    'values',
    'returning',
    'where',
    'from',
    'as',
    'only',
    'table',
    'with',
    'row',
    'array',
    'case',
  ],
  ...[
    't1_globex',
    't1_globex.',
    '"t1_globex".',
    'pg_catalog.',
    'public.',
    'notes',
    'pg_class',
    'current_user',
    'current_date',
  ],
  ...[
    '(select 1)',
    '(select count(*) from t1_globex.notes)',
    "set_config('app.tenant_id', 'globex', true)",
    'now()',
    "'notes'::regclass",
  ],
  ...[
    'returning *',
    "on conflict (id) do update set body = 'x'",
    'on conflict do nothing',
    'cast(1 as int)',
    "|| 'a'",
    '+ 1',
    'collate "C"',
  ],
]

const changed = fc
  .tuple(
    fc.constantFrom(...VALID),
    fc.array(
      fc.tuple(fc.nat({ max: 30 }), fc.constantFrom('insert', 'replace', 'remove'), fc.constantFrom(...FRAGMENTS)),
      { maxLength: 3 },
    ),
    fc.constantFrom(' ', ' ', '', '\n', '/**/'),
  )
  .map(([tokens, changes, between]) => {
    const all = [...tokens]
    for (const [at, how, fragment] of changes) {
      all.splice(at % (all.length + 1), how === 'insert' ? 0 : 1, ...(how === 'remove' ? [] : [fragment]))
    }
    return all.map((token) => (/^\w+$/.test(token) ? ` ${token} ` : token)).join(between)
  })

/** A source that records the statements sent on its connections. */
function watched(sent: Statement[]) {
  const source = postgres.tenancy.tenants.handles.source('acme')
  return {
    ...source,
    begin: async () => {
      const connection = await source.begin({})
      const query = connection.query.bind(connection)
      connection.query = (statement) => {
        sent.push(statement)
        return query(statement)
      }
      return connection
    },
  }
}

const NODES = new Set(['ModifyTable', 'Result', 'Values Scan'])

/** Parts of a plan other than an INSERT of constants into the table of the tenant. */
function besides(node: any): string[] {
  const { Plans = [], Output = [], Schema = SCHEMA, 'Node Type': type, 'Relation Name': table = 'notes' } = node
  const expressions = Output.join(' ').replaceAll(/'(?:[^']|'')*'/g, "''")
  return [
    ...(NODES.has(type) ? [] : [`node ${type}`]),
    ...(Schema === SCHEMA && table === 'notes' ? [] : [`table ${Schema}.${table}`]),
    ...('Subplan Name' in node ? ['a subplan'] : []),
    ...(/\w\(|current_user|session_user/i.test(expressions) ? [expressions] : []),
    ...Plans.flatMap(besides),
  ]
}

test('sends only INSERTs of constants into the table of the tenant for any file', async () => {
  const { pool } = await postgres.tenancy.tenant('acme')
  let [accepted, rejected] = [0, 0]
  await fc.assert(
    fc.asyncProperty(changed, async (text) => {
      const sent: Statement[] = []
      const failure = await importSql(watched(sent), [Buffer.from(text)] as never, {
        engine: 'postgres',
        signal: new AbortController().signal,
        isDryRun: true,
      }).then(
        () => undefined,
        (error) => error,
      )
      const own = sent.filter(({ keepsScope, text }) => keepsScope && !text.startsWith('set constraints'))
      const others = sent.filter((statement) => !own.includes(statement)).map(({ text }) => text)
      expect(
        others.every((other) => /^(select|set constraints all immediate)/.test(other) && !other.includes('globex')),
      ).toBe(true)
      if (failure?.code === 'E_INVALID_REQUEST') rejected++
      for (const statement of own) {
        const plan = await pool.query(`explain (verbose, format json) ${statement.text}`).catch(() => undefined)
        if (!plan) continue // rejected by the server
        accepted++
        expect([text, besides(plan.rows[0]['QUERY PLAN'][0].Plan)]).toEqual([text, []])
      }
    }),
    { numRuns: RUNS },
  )
  expect(accepted).toBeGreaterThan(RUNS / 20)
  expect(rejected).toBeGreaterThan(RUNS / 4)
  const globex = await postgres.tenancy.tenant('globex')
  expect(await globex.db.selectFrom('notes').selectAll().execute()).toEqual([])
})
