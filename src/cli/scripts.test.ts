/** The program by the scripts of a clone: what docs/operating.md shows as a configuration, and who ends `npm start`. */
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../testing/database.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'
import { PROGRAM, type Program, programWith } from './program.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const ROOT = join(import.meta.dirname, '../..')
const STOP_MS = 20_000

let directory: string
let database: TestDatabase
let tenantry: Program

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-scripts-'))
  database = await createTestDatabase(inject('postgresUrl'))
  tenantry = programWith({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    PORT: '0',
  })
})

afterAll(async () => {
  await tenantry?.killAll()
  await database?.drop()
  await rm(directory, { recursive: true, force: true })
})

test('the configuration that docs/operating.md shows can be loaded', async () => {
  const page = await readFile(join(ROOT, 'docs/operating.md'), 'utf8')
  const [, example = ''] = page.match(/```ts\n([\s\S]*?)```/) ?? []
  expect(example).toContain("from 'tenantry'")
  await symlink(ROOT, join(directory, 'root'))
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
  // Beside it, so that it finds the package by its own name, as a file in the clone does.
  const config = join(ROOT, 'src/cli/operating-example.config.ts')
  void config
})

test('npm start ends when npm alone is told to', async () => {
  const env = { NODE_ENV: 'production', LOG_LEVEL: 'info' }
  const service = tenantry.start([], { env, through: ['npm', 'start'], stdin: '' })
  const [, pid] = await service.says(/"pid":(\d+).*is ready at/)
  try {
    service.process.kill('SIGTERM')
    const timeUp = new Promise((resolve) => setTimeout(resolve, STOP_MS, 'still there').unref())
    // Its pipes are the service's too, so it has ended only when both have.
    expect(await Promise.race([service.ended.then(() => 'ended'), timeUp])).toBe('ended')
    expect(() => process.kill(Number(pid), 0)).toThrow(/ESRCH/)
  } finally {
    end(Number(pid))
  }
})

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended, as it should.
  }
}
