/** `npm run tour` as a newcomer runs it: it ends well, says what it promises, and leaves nothing behind, however it ends. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

const TOUR = join(import.meta.dirname, '../examples/tour/tour.ts')
const TIMEOUT_MS = 90_000

/** The tour's TMPDIR: what it makes is in here, and what it runs names it. */
let directory: string
let tour: ChildProcess
let output: string
let complaints: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'tenantry-test-'))
  output = ''
  complaints = ''
  tour = spawn(process.execPath, ['--conditions=tenantry-source', TOUR], {
    // Node keeps compiled code in TMPDIR too, unless it is told where: that is not the tour's, and may stay.
    env: { ...process.env, TMPDIR: directory, NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache') },
  })
  tour.stdout?.on('data', (text) => {
    output += text
  })
  tour.stderr?.on('data', (text) => {
    complaints += text
  })
})

afterEach(() => {
  if (tour.exitCode === null && tour.signalCode === null) tour.kill('SIGKILL')
  for (const { pid } of running()) process.kill(pid, 'SIGKILL')
  rmSync(directory, { recursive: true, force: true })
})

test('walks through the main job and ends well', { timeout: TIMEOUT_MS }, async () => {
  expect({ code: await ended(), complaints }).toEqual({ code: 0, complaints: '' })
  expect(headings()).toEqual([
    '1. Start the service, with a PostgreSQL of its own in a temporary directory',
    '2. Create a tenant for each of twelve customers',
    '3. Use them as a host does: rows of each tenant, through the library',
    '4. What one tenant can see of another',
    '5. Migrate all of them: the next release of the host has another column',
    '6. Live with one: suspend, maintain, delete, restore, change its plan',
    '7. Who did what: the audit trail of that tenant',
    '8. Operate it: probes, the API description, metrics',
    '9. Stop',
  ])
  for (const outcome of [
    '201 provisioning · Idempotency-Replayed: true',
    'さくら食品株式会社',
    '0002_pinned in 12 tenants, beside the running service',
    'permission denied for schema t1_hexagon-robotics',
    'E_TENANT_SUSPENDED (The tenant is suspended)',
    'E_TENANT_MAINTENANCE (We move your data to a faster server, again in 120 s)',
    'E_TENANT_NOT_FOUND (Tenant "baltic-freight" not found)',
    '200 active · plan enterprise',
    'multitenancy_tenants_total 12',
    'the service ended with 0',
  ]) {
    expect(output).toContain(outcome)
  }
  expect(output, 'colour is for terminals').not.toContain('\u001b')
  expectNothingLeft()
})

test('Ctrl-C ends it, and everything it started', { timeout: TIMEOUT_MS }, async () => {
  await chapter(2)
  tour.kill('SIGINT')
  expect({ code: await ended(), complaints: complaints.trim() }).toEqual({ code: 130, complaints: 'interrupted' })
  expectNothingLeft()
})

test('Ctrl-C while the service starts does so too', { timeout: TIMEOUT_MS }, async () => {
  await vi.waitUntil(() => service() !== undefined && running().length > 1, { timeout: TIMEOUT_MS })
  tour.kill('SIGINT')
  expect({ code: await ended(), complaints: complaints.trim() }).toEqual({ code: 130, complaints: 'interrupted' })
  expectNothingLeft()
})

test('a service that dies is a clear failure, and its PostgreSQL does not stay', { timeout: TIMEOUT_MS }, async () => {
  await chapter(2)
  process.kill(service()?.pid ?? 0, 'SIGKILL')
  expect(await ended()).toBe(1)
  expect(complaints).toMatch(/^The tour ends here: \w+ \/tenants.* was not answered: /m)
  expectNothingLeft()
})

async function ended(): Promise<number | null> {
  if (tour.exitCode === null) await once(tour, 'close')
  return tour.exitCode
}

const headings = () => output.split('\n').filter((line) => /^\d+\. /.test(line))

/** Resolves when that chapter has begun. */
const chapter = (number: number) =>
  vi.waitUntil(() => headings().length >= number || tour.exitCode !== null, { timeout: TIMEOUT_MS, interval: 5 })

function expectNothingLeft(): void {
  expect(running()).toEqual([])
  expect(readdirSync(directory)).toEqual([])
}

/** Its processes, and their processes: each has something in its temporary directory. */
function running(): { pid: number; command: string }[] {
  const lines = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,args='], { encoding: 'utf8' }).split('\n')
  return lines
    .filter((line) => line.includes(directory))
    .map((line) => ({ pid: Number.parseInt(line, 10), command: line.trim().replace(/^\d+\s+/, '') }))
}

const service = () => running().find(({ command }) => command.includes(' serve '))
