/** Checks that standard programs read archives: `tar` extracts them, and `psql` loads each table. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { TenantMigration } from '../src/tenants/isolation/migrations.ts'
import { createTestDatabase, type TestDatabase } from '../src/testing/base/database.ts'
import { programPath } from './setup/not-run.ts'
import { ISOLATIONS, openTestEnvironment, type TestEnvironment } from './support/two-servers.ts'

const run = promisify(execFile)

/** Tables of a tenant without the columns that rowscope-pg needs. */
const tables = (tenantId: string, key: (columns: string) => string) => `
  create table notes (${tenantId} id bigint generated always as identity, text text, primary key (${key('id')}));
  create table "Ärger, & ""Ruhm""/.." (${tenantId} "select" int, bytes bytea, tags text[], amount numeric, at timestamptz, doc jsonb,
    double_of int generated always as ("select" * 2) stored, primary key (${key('"select"')}))`
const MIGRATIONS: readonly TenantMigration[] = [
  {
    name: '0001_tables',
    checksum: '1',
    up: tables('tenant_id text not null default tenantry.current_tenant(),', (columns) => `tenant_id, ${columns}`),
  },
]
const ROWS = `
  insert into notes (text) values (null), (''), ('a "quoted", one'), (E'two\\nlines\\r\\n'), ('\\.'), ('🎈 \\N \\t');
  insert into "Ärger, & ""Ruhm""/.." ("select", bytes, tags, amount, at, doc) values
    (1, '\\x00ff0a', array['a,b', null, '"'], 'NaN', 'infinity', '{"a": "b\\n"}'), (2, '', '{}', 1e50, '4713-01-01 BC', null)`

let environment: TestEnvironment
let plain: TestDatabase
let client: pg.Client
beforeAll(async () => {
  environment = await openTestEnvironment(inject('postgresUrl'), { migrations: MIGRATIONS })
  plain = await createTestDatabase(inject('postgresUrl'))
  client = new pg.Client({ connectionString: plain.url })
  await client.connect()
})
afterAll(async () => {
  await client?.end()
  await plain?.drop()
  await environment?.end()
})

describe.each(ISOLATIONS)('archive of a tenant on %s', (isolation) => {
  test('tar extracts the archive, and psql loads each of its tables', async () => {
    const id = isolation.replace('-', '_')
    await environment.tenant(id, { isolation }, [])
    const { pool } = await environment.tenancy.tenant(id)
    for (const statement of ROWS.split(';\n')) await pool.query(statement)
    const backup = await environment.transfers.backups.create(id)
    await environment.done(backup)
    const [file = ''] = (await environment.files()).filter((name) => name.startsWith(`${id}/`))

    const folder = await mkdtemp(join(tmpdir(), 'tenantry-opened-'))
    await run('tar', ['xzf', join(environment.archives, file), '-C', folder])
    expect((await readdir(folder)).sort()).toEqual(['archive.json', 'data', 'manifest.json'])
    const manifest = JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8'))

    await client.query(`create schema ${id}; set search_path = ${id}; ${tables('', (columns) => columns)}`)
    const quoted = (name: string) => pg.escapeIdentifier(name)
    for (const { name, file, columns, rows } of manifest.tables) {
      const names = columns.map((column: { name: string }) => quoted(column.name)).join(', ')
      const copy = `\\copy ${quoted(id)}.${quoted(name)} (${names}) from '${join(folder, file)}' with (format csv, header)`
      const { stdout } = await run(programPath('psql') ?? '', ['-X', '-v', 'ON_ERROR_STOP=1', '-c', copy, plain.url])
      expect(stdout.trim()).toBe(`COPY ${rows}`)
      const select = `select ${names} from ${quoted(name)} order by 1`
      const texts = { getTypeParser: () => String }
      const expected = await pool.query({ text: select, types: texts } as pg.QueryConfig)
      expect((await client.query({ text: select, types: texts } as pg.QueryConfig)).rows).toEqual(expected.rows)
    }
    await rm(folder, { recursive: true })
  })
})
