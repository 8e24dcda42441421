/**
 * What every command prints with `--json` is one JSON value, or one a line where results come one after the other, and has the
 * shape that a golden file holds; a few are held as people read them. A command without a golden file fails, and so does a file without a
 * command. The cases of tenants and satellites are those of coverage.test.ts; the program's own are run by its command line.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createProgramDatabase, type InProcess, inProcess, type Run } from '../src/cli/in-process.fixture.ts'
import { allCommands } from '../src/cli/program.ts'
import { satellites } from '../src/service/main.ts'
import { commands as tenantCommands } from '../src/tenants/commands.ts'
import type { TestDatabase } from '../src/testing/database.ts'
import { dropWithRoles } from '../src/testing/roles.ts'
import { TEST_APP_KEY } from '../src/testing/tenancy.ts'
import type { Api } from './contract/calls.ts'
import { expectGolden, strayGoldens } from './contract/golden.ts'
import { merged } from './contract/parts.ts'
import { jsonOf, printedBy } from './contract/printed.ts'
import type { CommandCase } from './contract/row.ts'
import { pageShape, shapeOf } from './contract/shape.ts'
import { filled, type OpenStage, openStage } from './contract/stage.ts'

const ROOT = join(import.meta.dirname, '..')

interface ProgramCase {
  readonly line?: readonly string[]
  readonly stdin?: string
  readonly code?: number
  /** Of its checks, those that are held: what else is found of an installation is another test's. */
  readonly only?: { readonly name: string }
}

/** On a database with the tenant `acme`; `{url}` is that of a service, `{directory}` a folder. */
const BY_COMMAND_LINE: Readonly<Record<string, ProgramCase>> = {
  status: { line: ['--url', '{url}'] },
  doctor: { line: ['--config', '{directory}/other-plans.json'], code: 6, only: { name: 'plans' } },
  api: { line: ['GET', '/tenants/acme', '--url', '{url}'] },
  openapi: { line: ['--out', '{directory}/openapi.json'] },
  completion: { line: ['bash'] },
  'backoffice:setup': {},
  'tenant:secrets:reencrypt': {},
  'tenant:repl': {
    line: ['acme'],
    stdin: 'console.log(JSON.stringify(await sql`select 1 as one`))',
  },
  'tenant:backup:run': { line: ['--config', '{directory}/daily-backups.json'] },
}

/** They run until they are told to end. */
const SERVING = ['serve', 'dev']

/** As people read them: without a terminal, and again with colours wished for. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  'tenant:list': [],
  'tenant:show': ['acme'],
  'tenant:exec': ['acme', '--sql', "select 1 as one, 'two' as two, null as three"],
  'tenant:migrate:status': [],
  'tenant:delete': ['nobody', '--yes'],
  'tenant:suspend': [],
}

let stage: OpenStage
let directory: string
let database: TestDatabase
let tenantry: InProcess
let service: Run
let url = ''

beforeAll(async () => {
  stage = await openStage(inject('postgresUrl'))
  directory = await mkdtemp(join(tmpdir(), 'tenantry-golden-'))
  database = await createProgramDatabase(inject('postgresUrl'))
  const config = join(directory, 'tenantry.config.json')
  await writeFile(config, '{}')
  const backups = { directory: 'backups', everyHours: 24 }
  await writeFile(join(directory, 'daily-backups.json'), JSON.stringify({ backups }))
  const plans = { defaultPlan: 'small', definitions: { small: { limits: {} } } }
  await writeFile(join(directory, 'other-plans.json'), JSON.stringify({ plans }))
  tenantry = inProcess({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: config,
    PORT: '0',
  })
  service = tenantry.start(['serve'])
  url = (await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/))[1] ?? ''
  const created = await tenantry.run('tenant:create', 'Acme', '--id', 'acme', '--plan', 'pro', '--json')
  expect(created).toMatchObject({ code: 0, stderr: '' })
})

afterAll(async () => {
  await tenantry?.close()
  await stage?.end()
  if (database) await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

const words = (line: readonly string[]) => filled(line, { url, directory })

/** The line that was typed, and what came of it. */
function hold(name: string, line: readonly string[], stdout: string): void {
  expect(stdout).not.toBe('')
  const printed = jsonOf(stdout).map(shapeOf)
  const distinct = [...new Set(printed.map((value) => JSON.stringify(value, null, 2)))]
  const typed = line.map((word) => word.replace(ROOT, '.')).map((word) => (/[\s"]/.test(word) ? `'${word}'` : word))
  const command = ['$ tenantry', name, ...typed, '--json'].join(' ')
  expectGolden(name, 'json.txt', `${[command, ...distinct].join('\n')}\n`)
}

test('every command has a case, and every golden file a command', () => {
  const cases = [...new Set([...Object.keys(merged('commands')), ...Object.keys(BY_COMMAND_LINE), ...SERVING])]
  const names = allCommands().map(({ name }) => name)
  expect(cases.sort()).toEqual(names.sort())
  expect(strayGoldens(Object.keys(PAGES))).toEqual([])
})

const onOpenTenancy = Object.entries(merged('commands')).filter(([name]) => !(name in BY_COMMAND_LINE))
const declared = [...tenantCommands, ...satellites.flatMap(({ commands = [] }) => commands)]
const needsWorker = ([name, { isEndless }]: (typeof onOpenTenancy)[number]) =>
  isEndless === true || declared.some((one) => one.name === name && one.needsWorker)

test.each(onOpenTenancy.filter((one) => !needsWorker(one)))('%s, with --json', (name, one) =>
  held(stage.api, name, one),
)

describe('beside a worker', () => {
  let worker: Api
  beforeAll(async () => {
    worker = await stage.open({ role: 'all' })
  })
  afterAll(() => worker?.tenancy.stop())
  test.each(onOpenTenancy.filter(needsWorker))('%s, with --json', (name, one) => held(worker, name, one))
})

async function held({ tenancy }: Api, name: string, { isEndless, json = {}, ...given }: CommandCase): Promise<void> {
  const one = { ...given, ...json }
  const names = await stage.prepare(one)
  let hasSpoken = false
  const spoken = async () => {
    if (hasSpoken) return
    hasSpoken = true
    for (const request of one.meanwhile ?? []) {
      const [method = '', path = '', ...body] = filled(request, names).split(' ')
      await stage.api.call(method, path, { body: body.join(' ') })
    }
  }
  const stdout = await printedBy(tenancy, [name, ...filled(one.line, names)], { isEndless, spoken })
  hold(name, one.line, stdout)
}

test.each(Object.entries(BY_COMMAND_LINE))('%s, with --json, by the command line', async (name, one) => {
  const { line = [], stdin = '', code = 0 } = one
  const ended = await tenantry.start([name, ...words(line), '--json'], { stdin }).ended
  expect(ended, ended.stderr).toMatchObject({ code })
  hold(name, line, one.only ? checksOf(ended.stdout, one.only.name) : ended.stdout)
})

test.each(SERVING)('%s, with --json, prints one value and nothing after it', async (name) => {
  const running = tenantry.start([name, '--json'])
  await running.says(/\n}\n/)
  const { code, stdout } = await running.interrupt()
  expect(code).toBe(0)
  hold(name, [], stdout)
})

describe.each(Object.entries(PAGES))('%s, as people read it', (name, line) => {
  test.each([['NO_COLOR'], ['FORCE_COLOR']])('with %s, and no terminal', async (variable) => {
    const { code, stdout, stderr } = await tenantry.start([name, ...words(line)], {
      env: { [variable]: '1' },
      stdin: '',
    }).ended
    expect(stdout + stderr).not.toContain('\u001b')
    const parts = [`$ tenantry ${[name, ...line].join(' ')}`, stdout, stderr && `on standard error:\n${stderr}`]
    expectGolden(name, 'txt', `${pageShape(parts.filter(Boolean).join('\n'))}exit code ${code}\n`)
  })
})

function checksOf(stdout: string, name: string): string {
  const report = JSON.parse(stdout)
  return JSON.stringify({
    ...report,
    status: '<status>',
    checks: report.checks.filter((one: any) => one.name === name),
  })
}
