/** Tests `serve` and `dev` as processes: uncaught errors and signals. */
import { fileURLToPath } from 'node:url'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { programWith } from '../program.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const tenantry = useProgram(programWith, { LOG_LEVEL: 'warn' })

test('serve logs an unhandled rejection and continues, and ends with 1 after an uncaught exception', async () => {
  const faults = `
    process.on('SIGCONT', () => { Promise.reject(new Error('rejected')) })
    process.once('beforeExit', () => { Promise.reject(new Error('late')) })
    process.on('SIGUSR2', () => { throw new Error('thrown') })`
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(faults)}` }
  const faulty = tenantry.start(['serve'], { env })
  const [, address] = await faulty.says(/Probes +(\S+)[\s\S]*Stop with Ctrl-C/)
  faulty.process.kill('SIGCONT')
  await faulty.says(/rejected.*unhandled rejection/)
  expect((await fetch(address ?? '')).status).toBe(200)
  faulty.process.kill('SIGUSR2')
  const { code, stderr } = await faulty.ended
  expect(code).toBe(1)
  expect(stderr).toMatch(/"level":60.*thrown.*the service stops/)
  expect(stderr).toMatch(/"level":50.*late.*unhandled rejection.*\n$/)
  await expect(fetch(address ?? '')).rejects.toThrow()
})

test('serve continues while its log is on a full device', async () => {
  const faults = `process.on('SIGCONT', () => { Promise.reject(new Error('rejected')) })`
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(faults)}` }
  const program = fileURLToPath(new URL('../main.ts', import.meta.url))
  const service = tenantry.start([], {
    env,
    through: ['sh', '-c', 'exec "$0" --conditions=tenantry-source "$1" serve 2>/dev/full', process.execPath, program],
  })
  const [, address = ''] = await service.says(/Probes +(\S+)[\s\S]*Stop with Ctrl-C/)
  for (let count = 0; count < 3; count += 1) {
    service.process.kill('SIGCONT')
    expect((await fetch(address)).status).toBe(200)
  }
  service.process.kill('SIGTERM')
  expect((await service.ended).code).toBe(0)
})

describe('a stop signal', () => {
  test('drains serve in production on SIGTERM: /readyz fails while requests are served, then it ends with 0', async () => {
    const env = { NODE_ENV: 'production', LOG_LEVEL: 'info' }
    const production = tenantry.start(['serve'], { env })
    const [, url] = await production.says(/is ready at (http:\/\/[\d.:]+)/)
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    production.process.kill('SIGTERM')
    const draining = await eventually(async () => {
      const response = await fetch(`${url}/readyz`)
      expect(response.status).toBe(503)
      return response.json()
    })
    expect(draining).toMatchObject({
      status: 'fail',
      checks: { backoffice: { status: 'pass' }, drain: { status: 'fail', message: 'the process is stopping' } },
    })
    expect((await fetch(`${url}/livez`)).status).toBe(200)
    const headers = { 'x-admin-token': 'a-token-for-the-tests' }
    expect((await fetch(`${url}/admin/multitenancy/tenants`, { headers })).status).toBe(200)
    const { code, stdout, stderr } = await production.ended
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).msg)
      .filter((message) => message !== 'request completed')
    expect(lines).toEqual([
      expect.stringMatching(/^no health check is critical: .*health\.critical: \["backoffice"\]/),
      expect.stringMatching(/^Tenantry \S+ is ready at http:\/\/127\.0\.0\.1:\d+$/),
      expect.stringMatching(/^a stop was requested/),
    ])
  })
  test('ends dev --json of a worker with 0 on SIGINT, after one JSON value', async () => {
    const worker = tenantry.start(['dev', '--json'], { env: { TENANTRY_ROLE: 'worker' } })
    const [text] = await worker.says(/^{[\s\S]*\n}\n/)
    const printed = JSON.parse(text)
    expect(printed).toMatchObject({
      adminApi: null,
      signIn: null,
      adminToken: null,
      probes: expect.stringMatching(/readyz$/),
    })
    expect((await fetch(printed.probes)).status).toBe(200)
    worker.process.kill('SIGINT')
    const { code, stdout } = await worker.ended
    expect({ code, stdout }).toEqual({ code: 0, stdout: text })
  })
})
