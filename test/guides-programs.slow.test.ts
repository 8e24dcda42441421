/** Runs programs of the guides on the definition of docs/embedding.md: the test of an application, and the NestJS application. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { blocks } from './guides.fixture.ts'
import { freePort } from './support/free-port.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')
const LIMIT_MS = 120_000
const SOURCES = '--conditions=tenantry-source'
const TOKEN = 'a-token-of-the-guide'
/** guides.slow.test.ts checks the types. */
const COMPILED = {
  compilerOptions: {
    target: 'es2024',
    module: 'nodenext',
    experimentalDecorators: true,
    rewriteRelativeImportExtensions: true,
    noCheck: true,
    types: [],
    rootDir: '.',
    outDir: 'out',
  },
  files: ['main.ts'],
}
const NOTES = `-- up
create table notes (id integer generated always as identity primary key, title text);
-- down
drop table notes;
`

let directory: string

/** The block of a guide with this text. */
function block(guide: string, text: string): string {
  const found = blocks.filter((candidate) => candidate.guide === guide && candidate.text.includes(text))
  expect(found, text).toHaveLength(1)
  return found[0]?.text ?? ''
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-programs-'))
  for (const folder of ['migrations', 'node_modules', 'out']) await mkdir(join(directory, folder))
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    await symlink(join(ROOT, 'node_modules', name), join(directory, 'node_modules', name))
  }
  await symlink(ROOT, join(directory, 'node_modules/tenantry'))
  await symlink(join(directory, 'migrations'), join(directory, 'out/migrations'))
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
  await writeFile(join(directory, 'migrations/0001_notes.sql'), NOTES)
  await writeFile(join(directory, 'tenancy.ts'), block('embedding', '// tenancy.ts'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

test(
  'the test of an application in docs/isolation-testing.md passes',
  async () => {
    const url = 'postgres://postgres:secret@127.0.0.1:5432/postgres'
    const program = block('isolation-testing', url).replace(url, inject('postgresUrl'))
    await writeFile(join(directory, 'isolation.ts'), program)
    await run(process.execPath, [SOURCES, 'isolation.ts'], { cwd: directory })
  },
  LIMIT_MS,
)

test(
  'the NestJS application of docs/embedding.md serves its tenant and the admin API, and stops on SIGTERM',
  async () => {
    const yours = 'declare function isMember(request: GuardedRequest, tenant: TenantRecord): boolean // yours'
    const isMember = `const isMember = (request: GuardedRequest, { id }: TenantRecord) => request.header('x-user') === 'of ' + id`
    const module = block('embedding', '// app.module.ts')
    expect(module).toContain(yours)
    await writeFile(join(directory, 'app.module.ts'), module.replace(yours, isMember))
    await writeFile(join(directory, 'main.ts'), block('embedding', '// main.ts'))
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(COMPILED))
    await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.'], { cwd: directory }).catch((error) => {
      expect.fail(error.stdout)
    })

    const database = await createTestDatabase(inject('postgresUrl'))
    onTestFinished(() => dropWithRoles(inject('postgresUrl'), database))
    const port = String(await freePort())
    const env = {
      ...process.env,
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: TOKEN,
      PORT: port,
    }
    const app = spawn(process.execPath, [SOURCES, 'out/main.js'], { cwd: directory, env })
    onTestFinished(() => void app.kill('SIGKILL'))
    const ended = once(app, 'exit')
    let output = ''
    for (const stream of [app.stdout, app.stderr]) stream.on('data', (text) => (output += text))
    const call = (method: string, path: string, headers: Record<string, string>, body?: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body })
    await eventually(async () => {
      expect(app.exitCode, output).toBeNull()
      await call('GET', '/', {})
    }, LIMIT_MS / 2)

    const admin = { 'x-admin-token': TOKEN, 'content-type': 'application/json', prefer: 'wait=10' }
    expect((await call('POST', '/admin/multitenancy/tenants', admin, '{ "id": "acme", "name": "Acme" }')).status).toBe(
      201,
    )
    const plan = '{ "metadata": { "plan": "pro" } }'
    expect((await call('PATCH', '/admin/multitenancy/tenants/acme', admin, plan)).status).toBe(200)
    const member = { 'x-tenant-id': 'acme', 'x-user': 'of acme' }
    expect(await (await call('GET', '/notes', member)).json()).toEqual([])
    const exported = await call('POST', '/notes/exports', member)
    expect([exported.status, await exported.json()]).toEqual([201, { exported: 'acme' }])
    expect(exported.headers.get('ratelimit')).toMatch(/^"exports";r=999;/)
    expect((await call('GET', '/notes', { ...member, 'x-user': 'of globex' })).status).toBe(403)
    app.kill('SIGTERM')
    expect(await ended, output).toEqual([null, 'SIGTERM'])
  },
  LIMIT_MS,
)
