/** The guides in docs/: their TypeScript is checked against what is exported, and the tables they show are made by every driver. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../src/drivers/isolation/database-pg.ts'
import {
  createInstallation,
  type Installation,
  placeOf,
  provisioned,
} from '../src/drivers/isolation/installation.fixture.ts'
import { rowscopePg } from '../src/drivers/isolation/rowscope-pg.ts'
import { schemaPg } from '../src/drivers/isolation/schema-pg.ts'
import { readTenantMigrations, type TenantMigration } from '../src/tenants/migrations.ts'
import { createTestDatabase } from '../src/testing/database.ts'
import { dropWithRoles } from '../src/testing/roles.ts'
import { TEST_APP_KEY } from '../src/testing/tenancy.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')
const DOCS = join(ROOT, 'docs')

/** What an earlier block has made, or the reader has. */
const AROUND = `import type { Tenancy } from 'tenantry'
import type { auditLogs } from 'tenantry/satellites/audit-logs'
import type { billing } from 'tenantry/satellites/billing'
import type { branding } from 'tenantry/satellites/branding'
import type { featureFlags } from 'tenantry/satellites/feature-flags'
import type { impersonation } from 'tenantry/satellites/impersonation'
import type { metrics } from 'tenantry/satellites/metrics'
import type { quotas } from 'tenantry/satellites/quotas'
import type { sso } from 'tenantry/satellites/sso'
import type { webhooks } from 'tenantry/satellites/webhooks'
declare global {
  const tenancy: Tenancy<
    [
      ReturnType<typeof auditLogs>,
      ReturnType<typeof billing>,
      ReturnType<typeof branding>,
      ReturnType<typeof featureFlags>,
      ReturnType<typeof impersonation>,
      ReturnType<typeof metrics>,
      ReturnType<typeof quotas>,
      ReturnType<typeof sso>,
      ReturnType<typeof webhooks>,
    ]
  >
}`

interface Block {
  readonly name: string
  readonly language: string
  readonly text: string
}

let directory: string
let blocks: Block[]

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-guides-'))
  const guides = (await readdir(DOCS)).filter((file) => file.endsWith('.md'))
  blocks = (await Promise.all(guides.map(blocksOf))).flat()
})
afterAll(() => rm(directory, { recursive: true, force: true }))

async function blocksOf(guide: string): Promise<Block[]> {
  const page = await readFile(join(DOCS, guide), 'utf8')
  return [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = ''], index) => ({
    name: `${guide.replace('.md', '')}-${index + 1}`,
    language,
    text,
  }))
}

test('their TypeScript is that of the package', async () => {
  const modules = blocks.filter(({ language }) => language === 'ts')
  expect(new Set(modules.map(({ name }) => name.replace(/-\d+$/, '')))).toEqual(
    new Set([
      'backups',
      'billing',
      'embedding',
      'flags',
      'impersonation',
      'isolation',
      'metrics',
      'migrations',
      'operating',
      'outages',
      'pgbouncer',
      'protection',
      'quotas',
      'receiving-webhooks',
      'sso',
      'webhooks',
    ]),
  )
  const packages = join(directory, 'node_modules')
  await mkdir(packages)
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    await symlink(join(ROOT, 'node_modules', name), join(packages, name))
  }
  await symlink(ROOT, join(packages, 'tenantry'))
  const config = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: { noUnusedLocals: false, noUnusedParameters: false },
    include: ['*.ts'],
  }
  await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
  await writeFile(join(directory, 'around.ts'), AROUND)
  for (const { name, text } of modules) await writeFile(join(directory, `${name}.ts`), `${text}\nexport {}\n`)

  // What is wrong in the source itself is told by `npm run check`.
  const names = ['around', ...modules.map(({ name }) => name)]
  const faults = (await checked()).filter((line) => names.some((name) => line.startsWith(`${name}.ts`)))
  expect(faults).toEqual([])
})

/** What the compiler says, line by line. */
const checked = (): Promise<string[]> =>
  new Promise((resolve, reject) => {
    execFile(
      join(ROOT, 'node_modules/.bin/tsc'),
      ['-p', '.', '--pretty', 'false'],
      { cwd: directory },
      (error, said) => {
        if (error && said === '') reject(error)
        else resolve(said.split('\n'))
      },
    )
  })

describe('the tables that docs/migrations.md shows', () => {
  let installation: Installation
  let migrations: TenantMigration[]

  beforeAll(async () => {
    const tables = blocks.find(({ text }) => text.startsWith('-- up\n'))
    const folder = join(directory, 'migrations')
    await mkdir(folder)
    await writeFile(join(folder, '0001_projects.sql'), tables?.text ?? '')
    migrations = await readTenantMigrations(folder)
    installation = await createInstallation(inject('postgresUrl'))
  })
  afterAll(() => installation?.end())

  test.each([
    ['schema-pg', () => schemaPg()],
    ['rowscope-pg', () => rowscopePg()],
    ['database-pg', () => databasePg()],
  ] as const)('are made and taken back by %s', async (_name, driver) => {
    const opened = await installation.open(await installation.prepare(), { driver, migrations })
    const [{ pool }, other] = [await provisioned(opened, 'acme'), await provisioned(opened, 'globex')]
    await pool.query(`insert into projects (name) values ('a house')`)
    await pool.query(`insert into tasks (project_id, title) select id, 'a roof' from projects`)
    expect((await pool.query('select title from task_titles')).rows).toEqual([{ title: 'a roof' }])
    expect((await other.pool.query('select title from task_titles')).rows).toEqual([])
    expect((await other.pool.query('select code from countries order by code')).rows).toHaveLength(2)
    expect(await opened.rollback(placeOf(opened, 'acme'), 1)).toEqual(['0001_projects'])
    for (const id of ['acme', 'globex']) await opened.drop(placeOf(opened, id))
  })
})

/** In a shell, one after the other, as a reader types them; on a database of their own. */
test.each(['backups', 'flags', 'metrics', 'moving', 'quotas', 'webhooks'])(
  'the commands of docs/%s.md do what they say',
  async (guide) => {
    const commands = blocks.filter(({ name, language }) => name.startsWith(`${guide}-`) && language === 'sh')
    const main = join(ROOT, 'src/cli/main.ts')
    const script = [
      'set -euo pipefail',
      `tenantry() { "${process.execPath}" --conditions=tenantry-source "${main}" "$@"; }`,
      ...commands.map(({ text }) => text),
    ].join('\n')
    const folder = join(directory, guide)
    await mkdir(folder)
    const database = await createTestDatabase(inject('postgresUrl'))
    const env = {
      ...process.env,
      DATABASE_URL: database.url,
      TENANTRY_APP_KEY: TEST_APP_KEY,
      TENANTRY_ADMIN_TOKEN: 'a-token-for-the-guides',
      TENANTRY_DATA_DIR: join(folder, 'data'),
    }
    try {
      const { stderr } = await run('bash', ['-c', script], { cwd: folder, env })
      expect(stderr).not.toMatch(/error/i)
    } finally {
      await dropWithRoles(inject('postgresUrl'), database)
    }
  },
  120_000,
)
