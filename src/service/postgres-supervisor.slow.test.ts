/** Kills the embedded PostgreSQL of a real service: it is started again, or the service exits. */
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Child, type Program, programWith } from '../cli/program.fixture.ts'
import { eventually } from '../testing/base/tenancy.ts'
import { isPostmasterOf, readPidFile, stopPostmaster } from './postmaster.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const WITHIN_MS = 30_000

let parent: string
let cluster: string
let tenantry: Program
let service: Child
let tenants: string
let headers: Record<string, string>

beforeEach(async () => {
  parent = await realpath(await mkdtemp(join(tmpdir(), 'tenantry-supervisor-')))
  const data = join(parent, '.tenantry')
  cluster = join(data, 'postgres')
  tenantry = programWith({ PORT: '0', LOG_LEVEL: 'error', TENANTRY_DATA_DIR: data })
  await serve()
  const token = readFileSync(join(data, 'admin-token'), 'utf8').trim()
  headers = { 'x-admin-token': token, 'content-type': 'application/json', prefer: 'wait=20' }
  expect(await create('acme')).toMatchObject({ id: 'acme', status: 'active' })
})
afterEach(async () => {
  await tenantry.killAll()
  const left = readPidFile(cluster)
  if (left) await stopPostmaster(cluster, left.pid, () => undefined)
  await rm(parent, { recursive: true, force: true, maxRetries: 10 })
})

async function serve(): Promise<void> {
  service = tenantry.start(['serve'])
  const [, api = ''] = await service.says(/Admin API +(\S+)[\s\S]*Stop with Ctrl-C/)
  tenants = `${api}/tenants`
}

const create = async (id: string) =>
  (await fetch(tenants, { method: 'POST', headers, body: JSON.stringify({ id, name: id }) })).json()
async function statusOf(id: string): Promise<string> {
  const tenant: any = await (await fetch(`${tenants}/${id}`, { headers })).json()
  return tenant.status
}

interface Postmaster {
  readonly pid: number
  readonly port: number
}

function runningPostgres(): Postmaster {
  const running = readPidFile(cluster)
  if (!running || !isPostmasterOf(cluster, running.pid)) throw new Error('no PostgreSQL is running')
  return running
}

function kill(postmaster: Postmaster): Postmaster {
  process.kill(postmaster.pid, 'SIGKILL')
  return postmaster
}

const restarted = (killed: Postmaster) =>
  eventually(() => {
    const running = readPidFile(cluster)
    expect(running).toMatchObject({ port: killed.port, status: 'ready' })
    expect(running?.pid).not.toBe(killed.pid)
  }, WITHIN_MS)

test('the service works after each kill -9 of PostgreSQL, and stops with 0 during a restart', async () => {
  for (const id of ['first', 'second']) {
    await restarted(kill(runningPostgres()))
    await eventually(async () => expect(await statusOf('acme')).toBe('active'), WITHIN_MS)
    await eventually(async () => expect(await create(id)).toMatchObject({ id, status: 'active' }), WITHIN_MS)
    expect((await tenantry.run('tenant:show', id, '--json')).code).toBe(0)
  }
  const { pid } = kill(runningPostgres())
  await service.says(/(the embedded PostgreSQL has ended[\s\S]*){3}/)
  service.process.kill('SIGTERM')
  expect((await service.ended).code).toBe(0)
  const left = readPidFile(cluster)
  expect(left === undefined || left.pid === pid || !isPostmasterOf(cluster, left.pid)).toBe(true)
})

test.each(['global/pg_control', '.'])('the service exits with 7 if %s of its cluster is missing', async (path) => {
  const [there, away] = [join(cluster, path), join(parent, 'away')]
  const postmaster = runningPostgres()
  renameSync(there, away)
  kill(postmaster)
  const { code, stderr } = await service.ended
  expect(code).toBe(7)
  expect(stderr).toMatch(/error: The embedded PostgreSQL ended after 5 restarts\. PostgreSQL in .* failed to start: /)
  // No empty cluster replaces the missing one.
  expect(existsSync(there)).toBe(false)

  renameSync(away, there)
  await serve()
  expect(await statusOf('acme')).toBe('active')
})
