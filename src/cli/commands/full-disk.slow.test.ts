/** Tests `serve` with its log on a small file system that fills while the service runs, and is emptied again. */
import { appendFileSync, readFileSync, rmSync, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { PROGRAM, programWith } from '../program.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const PAGE = Buffer.alloc(4_096)
/** The mount is visible to the service only, and ends with it. */
const SERVE_ON_SMALL_DISK = `
  mount -t tmpfs -o size=128k tmpfs "$2" &&
  exec "$0" --conditions=tenantry-source "$1" serve 2>>"$2/service.log"`
const HEADERS = { 'x-admin-token': 'a-token-for-the-tests', 'content-type': 'application/json' }

const tenantry = useProgram(programWith, { LOG_LEVEL: 'error' })

/** From now on, each request for the branding of a tenant fails with one log line. */
async function breakBranding(): Promise<void> {
  const database = new Database({ url: tenantry.database.url, max: 1 }, createLogger({ level: 'silent' }))
  await database.sql('alter table multitenancy.branding rename to branding_away')
  await database.close()
}

test('the service works while its disk is full, and reports the number of lost lines afterwards', async () => {
  const mountPoint = join(tenantry.directory, 'disk')
  await mkdir(mountPoint)
  const shell = ['sh', '-c', SERVE_ON_SMALL_DISK, process.execPath, PROGRAM, mountPoint]
  const service = tenantry.start([], { through: ['unshare', '--mount', ...shell] })
  const [, api = ''] = await service.says(/Admin API +(\S+)[\s\S]*Stop with Ctrl-C/)
  const disk = `/proc/${service.process.pid}/root${mountPoint}`
  const logFile = join(disk, 'service.log')
  const parsedLines = () =>
    readFileSync(logFile, 'utf8')
      .split('\n')
      .flatMap((line) => (line.endsWith('}') ? [JSON.parse(line)] : []))

  const create = (id: string) =>
    fetch(`${api}/tenants`, { method: 'POST', headers: HEADERS, body: JSON.stringify({ id, name: id }) })
  expect((await create('before')).status).toBe(201)
  await breakBranding()
  /** Returns the id of the request. */
  const fail = async () => {
    const { status, headers } = await fetch(`${api}/tenants/before/branding`, { headers: HEADERS })
    expect(status).toBe(500)
    return headers.get('x-request-id')
  }

  for (const round of [1, 2]) {
    const requests = [await fail()]
    expect(parsedLines().at(-1)).toMatchObject({ level: 50, requestId: requests[0] })
    expect(() => {
      for (;;) appendFileSync(join(disk, 'ballast'), PAGE)
    }).toThrow('ENOSPC')
    // The last page of the log has space for a few lines.
    for (let size = 0; size < statSync(logFile).size; ) {
      size = statSync(logFile).size
      requests.push(await fail())
    }
    for (let count = 0; count < 10; count += 1) requests.push(await fail())
    expect((await create(`during-${round}`)).status).toBe(201)

    rmSync(join(disk, 'ballast'))
    requests.push(await fail())
    const lines = parsedLines()
    const logged = new Set(lines.map(({ requestId }) => requestId))
    const lost = requests.filter((id) => !logged.has(id))
    expect(lost.length).toBeGreaterThan(10)
    expect(lines.slice(-2)).toMatchObject([
      { level: 40, dropped: lost.length, reason: 'ENOSPC', msg: 'log lines were dropped' },
      { level: 50, requestId: requests.at(-1) },
    ])
  }
  service.process.kill('SIGTERM')
  expect((await service.ended).code).toBe(0)
})

test('a full disk behind standard output does not end the service', async () => {
  const shell = 'exec "$0" --conditions=tenantry-source "$1" serve >/dev/full'
  const through = ['sh', '-c', shell, process.execPath, PROGRAM] as const
  const service = tenantry.start([], { through, env: { LOG_LEVEL: 'warn' } })
  await service.says(/"code":"ENOSPC".*standard output cannot be written/)
  service.process.kill('SIGTERM')
  expect((await service.ended).code).toBe(0)
})
