/** Compiles the TypeScript of the guides in docs/ against the package, and runs their commands. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createTestDatabase } from '../src/testing/base/database.ts'
import { dropWithRoles } from '../src/testing/base/roles.ts'
import { TEST_APP_KEY } from '../src/testing/base/tenancy.ts'
import { blocks } from './guides.fixture.ts'
import { hasOrms } from './setup/not-run.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')
/** Sufficient for a busy machine. */
const COMPILER_LIMIT_MS = 300_000
const COMMANDS_LIMIT_MS = 300_000

/** Declarations that the blocks assume: values of earlier blocks, and of the reader. */
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

/** Libraries that test/orms installs. */
const OF_ORMS = /from '(@mikro-orm|@prisma|knex|sequelize|typeorm)\b/

let directory: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-guides-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

test(
  'the TypeScript of the guides compiles against the package',
  async () => {
    const modules = blocks.filter(({ language, text }) => language === 'ts' && (hasOrms || !OF_ORMS.test(text)))
    const packages = join(directory, 'node_modules')
    await mkdir(packages)
    for (const name of await readdir(join(ROOT, 'node_modules'))) {
      await symlink(join(ROOT, 'node_modules', name), join(packages, name))
    }
    await symlink(ROOT, join(packages, 'tenantry'))
    if (hasOrms) await linkOrms(packages)
    const config = {
      extends: join(ROOT, 'tsconfig.json'),
      compilerOptions: {
        noUnusedLocals: false,
        noUnusedParameters: false,
        experimentalDecorators: true, // NestJS
        erasableSyntaxOnly: false,
      },
      include: ['*.ts', 'app/**/*.ts', 'lib/**/*.ts'],
    }
    await writeFile(join(directory, 'package.json'), '{ "type": "module" }')
    await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config))
    await writeFile(join(directory, 'around.ts'), AROUND)
    const named = modules.map(({ name, text }) => ({ name: fileIn(text, modules) ?? name, text }))
    for (const { name, text } of named) {
      const file = join(directory, `${name}.ts`)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, `${text}\nexport {}\n`)
    }

    // Errors in the source itself are reported by `npm run check`.
    const names = ['around', ...named.map(({ name }) => name)]
    const faults = (await checked()).filter((line) => names.some((name) => line.startsWith(`${name}.ts`)))
    expect(faults).toEqual([])
  },
  COMPILER_LIMIT_MS,
)

test(
  'the console modules of the guides compile against tenantry/console',
  async () => {
    const modules = blocks.filter(({ language }) => language === 'tsx')
    expect(modules.length).toBeGreaterThan(0)
    const folder = join(directory, 'console')
    await mkdir(folder)
    for (const { name, text } of modules) await writeFile(join(folder, `${name}.tsx`), text)
    const config = {
      extends: join(ROOT, 'src/console/tsconfig.json'),
      compilerOptions: { rootDir: '/', typeRoots: [join(ROOT, 'node_modules/@types')] },
      include: ['*.tsx'],
      files: [join(ROOT, 'src/console/style/files.d.ts')],
    }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    expect((await checked(folder)).filter(Boolean)).toEqual([])
  },
  COMPILER_LIMIT_MS,
)

/** Name of a file from the first line of its block, such as `// main.ts` or `// lib/tenancy.ts`, if no other block has it: blocks import each other by it. */
function fileIn(text: string, modules: readonly { readonly text: string }[]): string | undefined {
  const [line, name] = /^\/\/ ([\w./[\]-]+)\.ts\n/.exec(text) ?? []
  return line && modules.filter((other) => other.text.startsWith(line)).length === 1 ? name : undefined
}

/** Links libraries that only test/orms installs, and the generated Prisma client. */
async function linkOrms(packages: string): Promise<void> {
  const orms = join(ROOT, 'test/orms')
  await symlink(join(orms, 'generated'), join(directory, 'generated'))
  for (const name of ['@mikro-orm', '@prisma', 'knex', 'sequelize', 'typeorm']) {
    await symlink(join(orms, 'node_modules', name), join(packages, name))
  }
}

/** Lines of the compiler's output. */
const checked = (folder = directory): Promise<string[]> =>
  new Promise((resolve, reject) => {
    execFile(
      join(ROOT, 'node_modules/.bin/tsc'),
      ['-p', '.', '--pretty', 'false'],
      { cwd: folder },
      (error, output) => {
        if (error && output === '') reject(error)
        else resolve(output.split('\n'))
      },
    )
  })

/** Runs the commands in one shell, in order, on a new database. */
test.each(['backups', 'flags', 'metrics', 'clone-and-move', 'quotas', 'settings', 'webhooks'])(
  'the commands of docs/%s.md succeed',
  async (guide) => {
    const commands = blocks.filter((block) => block.guide === guide && block.language === 'sh')
    expect(commands).not.toEqual([])
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
  COMMANDS_LIMIT_MS,
)
