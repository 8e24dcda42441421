/** Tests commands as processes against a service process on loopback: its life, its end, and a closed pipe. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { PROGRAM, type Program, programWith } from '../program.fixture.ts'
import { useProgram } from '../program-database.fixture.ts'

vi.setConfig({ testTimeout: 60_000 })

const TOKEN = 'a-token-for-this-test'

const tenantry = useProgram(programWith, { TENANTRY_ADMIN_TOKEN: TOKEN, LOG_LEVEL: 'warn' })
let home: string
let remote: Program

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'tenantry-home-'))
  remote = programWith({ HOME: home })
})
afterAll(async () => {
  await remote?.killAll()
  await rm(home, { recursive: true, force: true })
})

test('a profile runs commands on a service process, until the process has ended', async () => {
  const service = tenantry.start(['serve'])
  const [, url = ''] = await service.says(/Admin API +(http:\/\/127\.0\.0\.1:\d+)/)
  expect(await remote.start(['login', url], { stdin: TOKEN }).ended).toMatchObject({ code: 0, stderr: '' })
  const created = await remote.run('tenant:create', 'Acme', '--id', 'acme', '--json')
  expect(created).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(created.stdout)).toMatchObject({ id: 'acme', status: 'active' })
  const head = remote.start([], {
    through: ['sh', '-c', '"$0" "$1" tenant:audit:list --all --json | head -n 1', process.execPath, PROGRAM],
    stdin: '',
  })
  const { code, stdout, stderr } = await head.ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout)).toMatchObject({ tenantId: 'acme', action: expect.stringMatching(/^tenants\./) })
  const entries = (await remote.run('tenant:audit:list', 'acme', '--action', 'tenants.create', '--json')).stdout
  expect(JSON.parse(entries)).toMatchObject({ data: [{ actor: { type: 'admin', name: 'admin' } }] })

  service.process.kill('SIGKILL')
  await service.ended
  const unreachable = await remote.run('tenant:list', '--json')
  expect(unreachable).toMatchObject({ code: 7, stdout: '' })
  expect(JSON.parse(unreachable.stderr)).toMatchObject({ code: 'E_DEPENDENCY_UNAVAILABLE' })
  expect(unreachable.stderr).not.toContain(TOKEN)
})
