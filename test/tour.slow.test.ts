/** Runs `npm run tour`: it succeeds, prints its chapters, and always stops its processes and removes its directory. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

const TOUR = join(import.meta.dirname, '../examples/tour/tour.ts')
const TIMEOUT_MS = 90_000

/** TMPDIR of the tour: contains all its files, and is in the arguments of its processes. */
let directory: string
let tour: ChildProcess
let output: string
let complaints: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'tenantry-test-'))
  output = ''
  complaints = ''
  tour = spawn(process.execPath, ['--conditions=tenantry-source', TOUR], {
    // By default Node keeps its compile cache in TMPDIR, too, where it would count as a file of the tour.
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

test('the tour completes all chapters and exits with 0', { timeout: TIMEOUT_MS }, async () => {
  expect({ code: await ended(), complaints }).toEqual({ code: 0, complaints: '' })
  expect(headings()).toEqual([
    '1. Start the service with its own PostgreSQL server in a temporary directory',
    '2. Create a tenant for each of twelve customers',
    '3. Use the tenants as a host does: rows of each tenant, through the library',
    '4. Isolation: what one tenant sees of another',
    '5. Migrate all tenants: the next release of the host has another column',
    '6. Manage a tenant: suspend, maintain, delete, restore, change its plan',
    '7. Read the audit log of that tenant',
    '8. Operate the service: probes, the API description, metrics',
    '9. Stop',
  ])
  for (const outcome of [
    '201 provisioning · Idempotency-Replayed: true',
    'さくら食品株式会社',
    '0002_pinned in 12 tenants, while the service runs',
    'permission denied for schema t1_hexagon-robotics',
    'E_TENANT_SUSPENDED (The tenant is suspended)',
    'E_TENANT_MAINTENANCE (We move your data to a faster server, retry in 120 s)',
    'E_TENANT_NOT_FOUND (Tenant "baltic-freight" not found)',
    '200 active · plan enterprise',
    'multitenancy_tenants_total 12',
    'exit code 0',
  ]) {
    expect(output).toContain(outcome)
  }
  expect(output, 'colour is for terminals only').not.toContain('\u001b')
  expectNothingLeft()
})

test('Ctrl-C stops the tour and all its processes', { timeout: TIMEOUT_MS }, async () => {
  await chapter(2)
  tour.kill('SIGINT')
  expect({ code: await ended(), complaints: complaints.trim() }).toEqual({ code: 130, complaints: 'interrupted' })
  expectNothingLeft()
})

test('Ctrl-C while the service starts stops the tour and all its processes', { timeout: TIMEOUT_MS }, async () => {
  await vi.waitUntil(() => service() !== undefined && running().length > 1, { timeout: TIMEOUT_MS })
  tour.kill('SIGINT')
  expect({ code: await ended(), complaints: complaints.trim() }).toEqual({ code: 130, complaints: 'interrupted' })
  expectNothingLeft()
})

test('a killed service fails the tour, and its PostgreSQL server is stopped', { timeout: TIMEOUT_MS }, async () => {
  await chapter(2)
  process.kill(service()?.pid ?? 0, 'SIGKILL')
  expect(await ended()).toBe(1)
  expect(complaints).toMatch(/^The tour failed: \w+ \/tenants.* failed: /m)
  expectNothingLeft()
})

async function ended(): Promise<number | null> {
  if (tour.exitCode === null) await once(tour, 'close')
  return tour.exitCode
}

const headings = () => output.split('\n').filter((line) => /^\d+\. /.test(line))

/** Resolves when the chapter has started. */
const chapter = (number: number) =>
  vi.waitUntil(() => headings().length >= number || tour.exitCode !== null, { timeout: TIMEOUT_MS, interval: 5 })

function expectNothingLeft(): void {
  expect(running()).toEqual([])
  expect(readdirSync(directory)).toEqual([])
}

/** Processes of the tour and of its children: each has the temporary directory in its arguments. */
function running(): { pid: number; command: string }[] {
  const lines = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,args='], { encoding: 'utf8' }).split('\n')
  return lines
    .filter((line) => line.includes(directory))
    .map((line) => ({ pid: Number.parseInt(line, 10), command: line.trim().replace(/^\d+\s+/, '') }))
}

const service = () => running().find(({ command }) => command.includes(' serve '))
