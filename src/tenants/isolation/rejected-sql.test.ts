/** The same SQLSTATE, raised by SQL and by the end of the session. */
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { toImportError } from '../sql-import/errors.ts'
import { SqlRejected } from '../tenant/errors.ts'
import { asRejected } from './rejected-sql.ts'

test('SQL that raises 57P01 is rejected, and a session that ends with it is lost', async () => {
  const client = new pg.Client(inject('postgresUrl'))
  client.on('error', () => undefined) // the session ends
  await client.connect()
  const failure = (text: string) => client.query(text).catch((error: unknown) => error)

  const raised = await failure(`do $$ begin raise exception 'of the SQL' using errcode = '57P01'; end $$`)
  expect(raised).toMatchObject({ code: '57P01', severity: 'ERROR' })
  expect(SqlRejected.matches(asRejected(raised))).toBe(true)

  const lost = await failure('select pg_terminate_backend(pg_backend_pid())')
  expect(lost).toMatchObject({ code: '57P01', severity: 'FATAL' })
  expect(asRejected(lost)).toBe(lost)
})

test.each(['25006', '53100', '53200'])(
  'SQL that a server rejects with %s, because it cannot store data, is not rejected',
  async (state) => {
    const client = new pg.Client(inject('postgresUrl'))
    await client.connect()
    const failure = await client.query(`do $$ begin raise sqlstate '${state}'; end $$`).catch((error: unknown) => error)
    await client.end()
    expect(failure).toMatchObject({ code: state, severity: 'ERROR' })
    expect(asRejected(failure)).toBe(failure)
    expect(toImportError('line 3', failure)).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE', status: 503 })
  },
)
