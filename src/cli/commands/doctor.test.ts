/** Tests `tenantry doctor` by its output and exit code. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { TEST_APP_KEY, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type InProcess, inProcess } from '../in-process.fixture.ts'

interface Program {
  readonly made: TestTenancy<[]>
  readonly tenantry: InProcess
}

const opened: Program[] = []
afterAll(async () => {
  for (const { made, tenantry } of opened) {
    await tenantry.close()
    await made.end()
  }
})

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-doctor-'))
  const entry = JSON.stringify(pathToFileURL(join(import.meta.dirname, '../../index.ts')).href)
  await writeFile(
    join(directory, 'tenancy.ts'),
    `import { defineTenancy } from ${entry}\nexport default defineTenancy({ isolation: ['schema-pg'] }, import.meta)\n`,
  )
})
afterAll(() => rm(directory, { recursive: true, force: true }))

/** Opens a tenancy, and a program with the same settings on its database. No scheduled job runs, so that prepared findings stay. */
async function openProgram(): Promise<Program> {
  const made = await testTenancy(inject('postgresUrl'), { role: 'api' })
  const tenantry = inProcess({
    DATABASE_URL: made.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_APP: join(directory, 'tenancy.ts'),
  })
  opened.push({ made, tenantry })
  return { made, tenantry }
}

let made: TestTenancy<[]>
let tenantry: InProcess
beforeAll(async () => {
  ;({ made, tenantry } = await openProgram())
})

test('doctor reports no findings for a new installation', async () => {
  expect(await tenantry.run('doctor')).toEqual({ code: 0, stdout: 'no findings\n', stderr: '' })
  const { code, stdout } = await tenantry.run('doctor', '--json')
  expect({ code, report: JSON.parse(stdout) }).toEqual({ code: 0, report: { status: 'ok', checks: [] } })
})

test('doctor --show-sql reports no findings for a new installation', async () => {
  expect(await tenantry.run('doctor', '--show-sql')).toEqual({ code: 0, stdout: 'no findings\n', stderr: '' })
})

test('doctor --prove reports no findings for a new installation', async () => {
  expect(await tenantry.run('doctor', '--prove')).toEqual({ code: 0, stdout: 'no findings\n', stderr: '' })
})

test('doctor --list lists the checks, and --check runs only those that it names', async () => {
  const { code, stdout } = await tenantry.run('doctor', '--list', '--json')
  const names = JSON.parse(stdout).map(({ name }: { name: string }) => name)
  expect([code, names]).toEqual([0, expect.arrayContaining(['plans', 'logins'])])
  expect(await tenantry.run('doctor', '--check', 'logins', '--check', 'plans')).toMatchObject({ code: 0 })
  for (const option of [['--watch', '1'], ['--fix'], ['--check', 'logins'], ['--prove'], ['--show-sql']]) {
    const both = await tenantry.run('doctor', '--list', ...option)
    expect(both).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(`list: excludes ${option[0]}`) })
  }
  const unknown = await tenantry.run('doctor', '--check', 'weather')
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('Check "weather" not found') })
})

test('doctor --watch prints a report when it differs from the last one, until it is interrupted', async () => {
  const { made, tenantry } = await openProgram()
  const { database } = made.tenancy.kernel
  const [{ login }] = (await database.sql('select login from multitenancy.placement_logins')).rows
  const run = tenantry.start(['doctor', '--watch', '1', '--prove'])
  await run.says(/^no findings$/m)
  await database.sql(`alter role ${login} createdb`)
  await run.says(new RegExp(login))
  const { code, stdout } = await run.interrupt()
  expect(code).toBe(130)
  expect(stdout.match(/no findings/g)).toHaveLength(1)
  expect(await tenantry.run('doctor', '--prove', '--check', 'search')).toMatchObject({
    code: 0,
    stdout: 'no findings\n',
  })
  expect(await tenantry.run('doctor', '--prove')).toMatchObject({ code: 6 })
  expect(await tenantry.run('doctor', '--watch', '1', '--fix')).toMatchObject({ code: 2 })
  const tooLong = await tenantry.run('doctor', '--watch', '3000000') // longer than a timer of Node.js
  expect(tooLong).toMatchObject({ code: 2, stderr: expect.stringContaining('watch: must be at most 86400 seconds') })
})

test('doctor prints findings as a table, and ends with exit code 6', async () => {
  const { database } = made.tenancy.kernel
  const { rows } = await database.sql('select login from multitenancy.placement_logins')
  const [{ login }] = rows
  await database.sql(`alter role ${login} createdb`)
  const [plain, text, json] = [
    await tenantry.run('doctor'),
    await tenantry.run('doctor', '--prove'),
    await tenantry.run('doctor', '--prove', '--json'),
  ]
  await database.sql(`alter role ${login} nocreatedb`)
  expect(plain.code).toBe(0)
  expect(text.code).toBe(6)
  expect(text.stdout).toMatch(
    new RegExp(
      `^error +isolation\\.login-creates-databases +main: role ${login} may .+ alter role ${login} nocreatedb$`,
      'm',
    ),
  )
  expect(text.stderr).toBe(
    'error: The doctor found problems (errors: 1, warnings: 0). Apply the remedies in its report.\ncode:  E_FINDINGS\n',
  )
  expect(json.code).toBe(6)
  expect(JSON.parse(json.stdout)).toMatchObject({
    status: 'error',
    checks: [{ name: 'isolation', severity: 'error', code: 'isolation.login-creates-databases', fixable: false }],
  })
  expect(JSON.parse(json.stderr)).toMatchObject({ code: 'E_FINDINGS' })
})

describe('doctor --fix', () => {
  let made: TestTenancy<[]>
  let tenantry: InProcess
  let scopeRole: string
  const isOpen = async (id: string) => {
    const { rows } = await made.tenancy.kernel.database.sql(
      `select has_schema_privilege(scope_role, 't1_' || $1, 'usage') as open from multitenancy.placement_logins`,
      [id],
    )
    return rows[0].open
  }
  const make = async (id: string) => {
    await made.tenancy.tenants.create({ id, name: id })
    await made.tenancy.tenants.installation.install(id, { isLast: true })
  }
  const sql = (text: string) => made.tenancy.kernel.database.sql(text)
  // Two suspended tenants.
  beforeAll(async () => {
    ;({ made, tenantry } = await openProgram())
    const { rows } = await sql('select scope_role from multitenancy.placement_logins')
    scopeRole = rows[0].scope_role
    for (const id of ['acme', 'globex']) {
      await make(id)
      await made.tenancy.tenants.suspend(id)
    }
  })
  // Their storage is open.
  beforeEach(async () => {
    for (const id of ['acme', 'globex']) {
      await sql(`grant usage on schema t1_${id} to ${scopeRole}`)
    }
  })

  test('is required by --dry-run', async () => {
    const { code, stderr } = await tenantry.run('doctor', '--dry-run')
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('dry-run: requires --fix') })
  })

  test('with --dry-run lists the fixes and changes nothing', async () => {
    const { code, stdout, stderr } = await tenantry.run('doctor', '--fix', '--dry-run')
    expect(code).toBe(6)
    expect(stdout.match(/^would be fixed +storage\.open +the storage "t1_\w+" on "main" is open/gm)).toHaveLength(2)
    expect(stderr).toContain('2 findings (storage.open 2) would be fixed\n')
    expect([await isOpen('acme'), await isOpen('globex')]).toEqual([true, true])
  })

  test('asks for confirmation, and requires --yes without a terminal', async () => {
    const { code, stderr } = await tenantry.run('doctor', '--fix')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('Fix 2 findings (storage.open 2)?'),
    })
    expect([await isOpen('acme'), await isOpen('globex')]).toEqual([true, true])
  })

  test('fixes findings, reports the fixes, and ends with 0 if no problem remains', async () => {
    const { code, stdout, stderr } = await tenantry.run('doctor', '--fix', '--yes')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /^severity +code +message +remedy\n(fixed +storage\.open +the storage "t1_\w+" on "main" is open.* +closed, unless.*\n){2}$/,
    )
    expect([await isOpen('acme'), await isOpen('globex')]).toEqual([false, false])
    expect(await tenantry.run('doctor', '--fix', '--yes')).toEqual({
      code: 0,
      stdout: 'no findings\n',
      stderr: 'no fixable findings\n',
    })
  })

  test('ends with exit code 6 and reports the fixes if a finding is not fixable', async () => {
    const { tenants } = made.tenancy
    await make('initech')
    await sql('drop schema t1_initech')
    const { code, stdout } = await tenantry.run('doctor', '--fix', '--yes', '--json')
    await tenants.delete('initech')
    await sql(`update multitenancy.tenants set purge_at = now() - interval '1 day' where id = 'initech'`)
    await tenants.installation.purge('initech')
    expect(code).toBe(6)
    expect(JSON.parse(stdout)).toEqual({
      status: 'error',
      checks: [expect.objectContaining({ code: 'storage.missing', tenantId: 'initech', fixable: false })],
      fixes: ['acme', 'globex'].map((tenantId) => ({
        name: 'storage',
        code: 'storage.open',
        message: expect.stringContaining(`"t1_${tenantId}"`),
        tenantId,
        isDone: true,
        outcome: expect.stringMatching(/^closed, unless/),
      })),
    })
    expect(await isOpen('acme')).toBe(false)
  })
})
