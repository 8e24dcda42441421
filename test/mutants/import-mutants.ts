/** Mutants of the SQL import: it accepts more than data, or data of another tenant. */
import type { SourceMutant } from './mutant.ts'

const BYPASSES = ['src/tenants/sql-import/import.bypass.test.ts']

export const IMPORT_MUTANTS: readonly SourceMutant[] = [
  {
    name: 'an import that names any schema',
    story: 'INSERT INTO t1_globex.notes writes into another tenant, or is accepted without effect.',
    file: 'tenants/sql-import/target.ts',
    replace: "    if (schema !== undefined && schema !== 'public' && schema !== this.#schema) return undefined\n",
    by: '',
    tests: BYPASSES,
  },
  {
    name: 'an import that names any table',
    story: 'A file inserts rows into a view, a catalog or a table of the driver.',
    file: 'tenants/sql-import/target.ts',
    replace: "tables: relation(`'r', 'p'`)",
    by: "tables: relation(`'r', 'p', 'v'`)",
    tests: BYPASSES,
  },
  {
    name: 'an import that reads no further than the values',
    story: 'INSERT .. RETURNING set_config(..) leaves the scope for the statements after it.',
    file: 'tenants/sql-import/rules.ts',
    replace: "  parser.end(ACCEPTED)\n  return { kind: 'insert', table }",
    by: "  return { kind: 'insert', table }",
    tests: BYPASSES,
  },
  {
    name: 'an import whose values are any word',
    story: 'A value may be a column, a function or another name.',
    file: 'tenants/sql-import/rules.ts',
    replace: "  } else if (!at.is('string') && !at.is('number') && !LITERAL_WORDS.has(at.word)) {",
    by: "  } else if (!at.is('string') && !at.is('number') && !at.is('word')) {",
    tests: BYPASSES,
  },
  {
    name: 'an import that compares no scope',
    story: 'A trigger of the host changes the tenant: later rows belong to another tenant.',
    file: 'tenants/sql-import/import.ts',
    replace: 'this.#connection.query({ text: apart(sent), keepsScope: true })',
    by: 'this.#connection.query({ text: apart(sent) })',
    tests: BYPASSES,
  },
  {
    name: 'COPY that compares no scope',
    story: 'The same for the rows of COPY.',
    file: 'tenants/sql-import/copied-rows.ts',
    replace: '      keepsScope: true,\n',
    by: '',
    tests: BYPASSES,
  },
  {
    name: 'a comparison without the tenant',
    story: 'With rowscope-pg role and search path are the same for all tenants.',
    file: 'drivers/isolation/scope/keeping-query.ts',
    replace: "  pg_catalog.current_setting('app.tenant_id') operator(pg_catalog.=) $1 and\n",
    by: '  $1::pg_catalog.text is not null and\n',
    tests: BYPASSES,
  },
  {
    name: 'a comparison without the reading of strings',
    story:
      'A trigger of the host sets standard_conforming_strings: in later statements a string ends at another position.',
    file: 'drivers/isolation/scope/keeping-query.ts',
    replace:
      " and\n  pg_catalog.current_setting('standard_conforming_strings') operator(pg_catalog.=) 'on')::pg_catalog.int4`",
    by: ')::pg_catalog.int4`',
    tests: BYPASSES,
  },
  {
    name: 'strings that the server reads in another way',
    story:
      'A function of the host has switched standard_conforming_strings off in the session: a string ends at a position that the rules do not detect.',
    file: 'tenants/sql-import/target.ts',
    replace: ", set_config('standard_conforming_strings', 'on', true)`",
    by: '`',
    tests: BYPASSES,
  },
  {
    name: 'an import that moves shared sequences to their end',
    story: 'One file uses up the sequence numbers of all tenants of the placement.',
    file: 'drivers/isolation/copy/sequences.ts',
    replace: 'case when $3 and seqincrement > 0 then least',
    by: 'case when $3 and false then least',
    on: ['rowscope-pg, batch'],
    tests: ['src/tenants/sql-import/import.copied.test.ts'],
  },
  {
    name: 'an import that moves shared sequences beyond 2^53',
    story: 'New ids of all tenants of the placement exceed the exact integers of JavaScript.',
    file: 'drivers/isolation/copy/sequences.ts',
    replace: 'const SHARED_LIMIT = 2 ** 52',
    by: 'const SHARED_LIMIT = 2n ** 62n',
    on: ['rowscope-pg, batch'],
    tests: ['src/tenants/sql-import/import.copied.test.ts'],
  },
]
