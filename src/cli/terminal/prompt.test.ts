/** Tests `tenant:repl` at a terminal and with a script on standard input. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { installed, TEST_APP_KEY, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type InProcess, inProcess } from '../in-process.fixture.ts'

const NOTES = { name: '0001_notes', checksum: '', up: 'create table notes (id int primary key, body text)' }

let world: TestTenancy<[]>
let directory: string
let tenantry: InProcess

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), { migrations: [NOTES] })
  for (const id of ['acme', 'globex']) await installed(world.tenancy, { id, name: id })
  directory = await mkdtemp(join(tmpdir(), 'tenantry-repl-'))
  tenantry = inProcess({
    DATABASE_URL: world.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: directory,
  })
})
afterAll(async () => {
  await tenantry?.close()
  await world?.end()
  await rm(directory, { recursive: true, force: true })
})

const script = (...lines: string[]) => tenantry.start(['tenant:repl', 'acme'], { stdin: lines.join('\n') }).ended

test('tenant:repl runs a script in the scope of the tenant', async () => {
  const { code, stdout, stderr } = await script(
    'const id = 1',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the script
    'await sql`insert into notes values (${id}, ${tenant.name})`',
    "console.log((await pool.query('select body from notes')).rows)",
    "await transaction((db) => db.updateTable('notes').set({ body: 'changed' }).execute())",
    "console.log(await db.selectFrom('notes').selectAll().execute())",
  )
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('on schema-pg') })
  expect(stdout).toBe("[ { body: 'acme' } ]\n[ { id: 1, body: 'changed' } ]\n")
  const { db } = await world.tenancy.tenant('globex')
  expect(await db.selectFrom('notes').selectAll().execute()).toEqual([])
})

test('tenant:repl at a terminal reads lines and prints results', async () => {
  const run = tenantry.start(['tenant:repl', 'acme'])
  Object.assign(run.stdin, { isTTY: true }).write('tenant.name\n.exit\n')
  const { code, stdout } = await run.ended
  expect({ code, stdout }).toEqual({ code: 0, stdout: "acme> 'acme'\nacme> " })
})

test('tenant:repl ends at the first error of a script, with exit code 1', async () => {
  const { code, stdout, stderr } = await script("console.log('before')", 'await sql`selekt`', "console.log('after')")
  expect({ code, stdout }).toEqual({ code: 1, stdout: 'before\n' })
  expect(stderr).toContain('selekt')
})

test('tenant:repl rejects an unknown tenant', async () => {
  expect(await tenantry.run('tenant:repl', 'initech')).toMatchObject({ code: 3, stdout: '' })
})
