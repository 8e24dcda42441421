/** Compares output of the program's own commands with golden files: `--json` for all, text for some. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createProgramDatabase, type InProcess, inProcess } from '../src/cli/in-process.fixture.ts'
import { EXAMPLE_PLANS } from '../src/service/settings/plans.ts'
import type { TestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { expectGolden, expectPrinted } from './contract/golden.ts'
import { BY_COMMAND_LINE, PAGES, SERVING } from './contract/program-cases.ts'
import { filled } from './contract/runner.ts'
import { pageShape } from './contract/shape.ts'

let directory: string
let database: TestDatabase
let tenantry: InProcess
let url = ''

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-golden-'))
  database = await createProgramDatabase(inject('postgresUrl'))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, JSON.stringify({ plans: EXAMPLE_PLANS }))
  const backups = { directory: 'backups', everyHours: 24 }
  await writeFile(join(directory, 'daily-backups.json'), JSON.stringify({ backups, plans: EXAMPLE_PLANS }))
  const plans = { defaultPlan: 'small', definitions: { small: { limits: {} } } }
  await writeFile(join(directory, 'other-plans.json'), JSON.stringify({ plans }))
  tenantry = inProcess({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
    XDG_CONFIG_HOME: join(directory, 'config'),
    PORT: '0',
  })
  const service = tenantry.start(['serve'])
  url = (await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/))[1] ?? ''
  const created = await tenantry.run('tenant:create', 'Acme', '--id', 'acme', '--plan', 'pro', '--json')
  expect(created).toMatchObject({ code: 0, stderr: '' })
})

afterAll(async () => {
  await tenantry?.close()
  if (database) await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

const words = (line: readonly string[]) => filled(line, { url, directory })

test.each(Object.entries(BY_COMMAND_LINE))(
  '%s with --json prints its golden output on the command line',
  async (name, one) => {
    const { line = [], stdin = '', code = 0 } = one
    const ended = await tenantry.start([name, ...words(line), '--json'], { stdin }).ended
    expect(ended, ended.stderr).toMatchObject({ code })
    expectPrinted(name, line, one.only ? checksOf(ended.stdout, one.only.name) : ended.stdout)
  },
)

test.each(SERVING)('%s with --json prints exactly one value', async (name) => {
  const running = tenantry.start([name, '--json'])
  await running.says(/\n}\n/)
  const { code, stdout } = await running.interrupt()
  expect(code).toBe(0)
  expectPrinted(name, [], stdout)
})

test.each(Object.entries(PAGES))('%s prints its golden text without a terminal', async (name, line) => {
  const { code, stdout, stderr } = await tenantry.run(name, ...words(line))
  expect(stdout + stderr).not.toContain('\u001b')
  const parts = [`$ tenantry ${[name, ...line].join(' ')}`, stdout, stderr && `on standard error:\n${stderr}`]
  expectGolden(name, 'txt', `${pageShape(parts.filter(Boolean).join('\n'))}exit code ${code}\n`)
})

function checksOf(stdout: string, name: string): string {
  const report = JSON.parse(stdout)
  return JSON.stringify({
    ...report,
    status: '<status>',
    checks: report.checks.filter((one: any) => one.name === name),
  })
}
