/** Tests the exit codes of the program, one process for each, and output without colors. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { EXIT_CODES } from './exit-codes.ts'
import { type Ended, programWith } from './program.fixture.ts'
import { useProgram } from './program-database.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const tenantry = useProgram(programWith)
beforeAll(async () => {
  await writeFile(join(tenantry.directory, 'unknown-default.json'), JSON.stringify({ plans: UNKNOWN_PLANS }))
  expect(await tenantry.run('tenant:create', 'Acme', '--id', 'acme', '--plan', 'pro')).toMatchObject({ code: 0 })
})

/** Plans without the plan of the tenant, which the doctor reports. */
const UNKNOWN_PLANS = { defaultPlan: 'small', definitions: { small: { limits: {} } } }

/** The runs are concurrent, and have different configurations. */
const BESIDE = ['--allow-different-settings']

const RUNS: Readonly<Record<number, (url: string) => Promise<Ended>>> = {
  0: () => tenantry.run('tenant:show', 'acme'),
  1: (url) => tenantry.start(['serve'], { env: { PORT: new URL(url).port } }).ended,
  2: () => tenantry.run('tenant:create'),
  3: () => tenantry.run('tenant:show', 'initech'),
  4: (url) => tenantry.run('api', 'GET', '/tenants', '--url', url, '--header', 'x-admin-token: wrong'),
  5: () => tenantry.run('tenant:create', 'Acme', '--id', 'acme', ...BESIDE),
  6: () => tenantry.run('doctor', '--config', join(tenantry.directory, 'unknown-default.json')),
  7: () => tenantry.run('status', '--url', 'http://127.0.0.1:1'),
  130: async () => {
    const child = tenantry.start(['api', 'POST', '/tenants', '--data', '-'])
    // Larger than the buffer of a pipe: the write ends only after the program has begun to read.
    await new Promise((resolve) => child.process.stdin.write(' '.repeat(1_000_000), resolve))
    child.process.kill('SIGINT')
    return child.ended
  },
}

test('each exit code of the reference has a test run', () => {
  expect(Object.keys(RUNS)).toEqual(Object.keys(EXIT_CODES))
})

test('each test run ends with its exit code', async () => {
  const service = tenantry.start(['serve'])
  const [, url = ''] = await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/)
  const ended = await Promise.all(
    Object.entries(RUNS).map(async ([code, run]) => ({ expected: Number(code), ...(await run(url)) })),
  )
  for (const { expected, ...end } of ended) expect(end, end.stderr).toMatchObject({ code: expected })
})

test('output without a terminal has no colors, even with FORCE_COLOR', async () => {
  for (const argv of [['tenant:list'], ['tenant:show', 'initech'], ['--help']]) {
    const { stdout, stderr } = await tenantry.start(argv, { env: { FORCE_COLOR: '1' }, stdin: '' }).ended
    expect(stdout + stderr).not.toBe('')
    expect(stdout + stderr).not.toContain('\u001b')
  }
})
