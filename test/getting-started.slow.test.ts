/** Follows docs/getting-started.md with its files and commands. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase, onServer } from '../src/testing/base/database.ts'
import { eventually, TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { blocks } from './guides.fixture.ts'
import { freePort } from './support/free-port.ts'

const ROOT = join(import.meta.dirname, '..')
const LIMIT_MS = 120_000

const blocksIn = (language: string) =>
  blocks.filter((block) => block.guide === 'getting-started' && block.language === language).map(({ text }) => text)

test(
  'the application of docs/getting-started.md serves two tenants, each with its own rows',
  async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tenantry-getting-started-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const { url, drop } = await createTestDatabase(inject('postgresUrl'))
    onTestFinished(drop)
    await mkdir(join(directory, 'migrations'))
    await mkdir(join(directory, 'node_modules'))
    for (const name of await readdir(join(ROOT, 'node_modules'))) {
      await symlink(join(ROOT, 'node_modules', name), join(directory, 'node_modules', name))
    }
    await symlink(ROOT, join(directory, 'node_modules/tenantry'))
    await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
    await writeFile(join(directory, 'migrations/0001_notes.sql'), blocksIn('sql').join())
    const [, definition = '', application = ''] = blocksIn('js')
    await writeFile(join(directory, 'tenancy.js'), definition)
    await writeFile(join(directory, 'app.js'), application)

    const port = String(await freePort())
    const env = {
      ...process.env,
      DATABASE_URL: url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-of-the-guide',
      PORT: port,
    }
    const app = spawn(process.execPath, ['--conditions=tenantry-source', 'app.js'], { cwd: directory, env })
    onTestFinished(() => void app.kill('SIGKILL'))
    let output = ''
    for (const stream of [app.stdout, app.stderr]) stream.on('data', (text) => (output += text))
    await eventually(async () => {
      expect(app.exitCode, output).toBeNull()
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
    }, LIMIT_MS / 2)

    const results: string[] = []
    for (const commands of blocksIn('bash')) {
      const { stdout } = await promisify(execFile)('bash', ['-ec', commands.replaceAll('3000', port)], { env })
      results.push(stdout)
    }
    expect(results).toHaveLength(2)
    expect(results[0]?.match(/"status":"active"/g)).toHaveLength(2)
    expect(results[1]).toMatch(
      /^\{"id":1,"title":"a note of acme"\}\[\{"id":1,"title":"a note of acme"\}\]\[\]\{.*"E_TENANT_ACCESS_DENIED"/,
    )
  },
  LIMIT_MS,
)

test(
  'postgres.js of docs/getting-started.md runs a server with the URL of the guide, and keeps its data',
  async () => {
    const directory = await mkdtemp(join(tmpdir(), 'tenantry-getting-started-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    await chmod(directory, 0o777) // PostgreSQL runs as another user if this process is root
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    const [program = ''] = blocksIn('js')
    const port = String(await freePort())
    await writeFile(join(directory, 'postgres.mjs'), program.replaceAll('5432', port))

    const [, url = ''] = /^export DATABASE_URL=(.*)$/m.exec(blocksIn('sh').join('\n')) ?? []
    for (const [n, statement] of ['create table t as select 1 as n', 'select n from t'].entries()) {
      const server = spawn(process.execPath, ['postgres.mjs'], { cwd: directory })
      onTestFinished(() => void server.kill('SIGKILL'))
      const ended = once(server, 'exit')
      let output = ''
      for (const stream of [server.stdout, server.stderr]) stream.on('data', (text) => (output += text))
      await eventually(() => {
        expect(server.exitCode, output).toBeNull()
        expect(output).toContain(url.replace('5432', port))
      }, LIMIT_MS / 3)
      const { rows } = await onServer(url.replace('5432', port), (database) => database.sql(statement))
      if (n === 1) expect(rows).toEqual([{ n: 1 }])
      server.kill('SIGTERM')
      await ended
    }
  },
  LIMIT_MS,
)
