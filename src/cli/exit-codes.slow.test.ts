/** Each exit code of the program, by one process, and its colours without a terminal. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest'
import type { TestDatabase } from '../testing/database.ts'
import { dropWithRoles } from '../testing/roles.ts'
import { TEST_APP_KEY } from '../testing/tenancy.ts'
import { EXIT_CODES } from './exit-codes.ts'
import { createProgramDatabase } from './in-process.fixture.ts'
import { type Ended, type Program, programWith } from './program.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

let directory: string
let database: TestDatabase
let tenantry: Program
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-exit-'))
  database = await createProgramDatabase(inject('postgresUrl'))
  await writeFile(join(directory, 'unknown-default.json'), JSON.stringify({ plans: UNKNOWN_PLANS }))
  tenantry = programWith({
    DATABASE_URL: database.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_ADMIN_TOKEN: 'a-token-for-the-tests',
    TENANTRY_DATA_DIR: join(directory, 'data'),
    PORT: '0',
  })
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme', '--plan', 'pro')).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await tenantry?.killAll()
  if (database) await dropWithRoles(inject('postgresUrl'), database)
  await rm(directory, { recursive: true, force: true })
})

/** Without the plan of the tenant: a finding of the doctor. */
const UNKNOWN_PLANS = { defaultPlan: 'small', definitions: { small: { limits: {} } } }

const RUNS: Readonly<Record<number, (url: string) => Promise<Ended>>> = {
  0: () => tenantry.run('tenant:show', 'acme'),
  1: () => tenantry.run('tenant:exec', 'acme', '--sql', 'selec'),
  2: () => tenantry.run('tenant:create'),
  3: () => tenantry.run('tenant:show', 'nobody'),
  4: (url) => tenantry.run('api', 'GET', '/tenants', '--url', url, '--header', 'x-admin-token: wrong'),
  5: () => tenantry.run('tenant:create', 'Acme', '--id', 'acme'),
  6: () => tenantry.run('doctor', '--config', join(directory, 'unknown-default.json')),
  7: () => tenantry.run('status', '--url', 'http://127.0.0.1:1'),
  130: async () => {
    const child = tenantry.start(['api', 'POST', '/tenants', '--data', '-'])
    // More than a pipe holds: once it is written, the program reads.
    await new Promise((resolve) => child.process.stdin.write(' '.repeat(1_000_000), resolve))
    child.process.kill('SIGINT')
    return child.ended
  },
}

test('each exit code of the reference has a run', () => {
  expect(Object.keys(RUNS)).toEqual(Object.keys(EXIT_CODES))
})

test('a process ends with each exit code', async () => {
  const service = tenantry.start(['serve'])
  const [, url = ''] = await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/)
  const ended = await Promise.all(
    Object.entries(RUNS).map(async ([code, run]) => ({ expected: Number(code), ...(await run(url)) })),
  )
  for (const { expected, ...end } of ended) expect(end, end.stderr).toMatchObject({ code: expected })
})

test('without a terminal there are no colours, although FORCE_COLOR is set', async () => {
  for (const argv of [['tenant:list'], ['tenant:show', 'nobody'], ['--help']]) {
    const { stdout, stderr } = await tenantry.start(argv, { env: { FORCE_COLOR: '1' }, stdin: '' }).ended
    expect(stdout + stderr).not.toBe('')
    expect(stdout + stderr).not.toContain('\u001b')
  }
})
