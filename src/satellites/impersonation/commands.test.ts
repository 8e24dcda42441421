/** Commands of this satellite in the program. */
import { mkdtemp, rm } from 'node:fs/promises'

import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type InProcess, inProcess } from '../../cli/in-process.fixture.ts'
import { TEST_APP_KEY, type TestTenancy } from '../../testing/base/tenancy.ts'
import {
  anyTenant,
  type ImpersonationSatellites,
  type ImpersonationTenancy,
  openImpersonation,
} from './impersonation.fixture.ts'

let directory: string
let opened: TestTenancy<ImpersonationSatellites>
let tenancy: ImpersonationTenancy
let tenantry: InProcess
let id: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-impersonation-'))
  ;({ opened, tenancy } = await openImpersonation(inject('postgresUrl'), {}, { clock: { now: () => new Date() } }))
  id = await anyTenant(tenancy)
  tenantry = inProcess({
    DATABASE_URL: opened.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    LOG_LEVEL: 'error', // the program has further satellites
  })
})
afterAll(async () => {
  await tenantry?.close()
  await opened?.end()
  await rm(directory, { recursive: true, force: true })
})

const begin = (...options: string[]) => tenantry.run('tenant:impersonate', id, 'user-42', ...options)

describe('tenant:impersonate', () => {
  test('prints the token of a new session once, with the terminal user as its actor', async () => {
    const { code, stdout, stderr } = await begin('--reason', 'Ticket 4711', '--duration', '60', '--json')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const { token, sessionId, actor, ...session } = JSON.parse(stdout)
    expect(session).toMatchObject({ tenantId: id, userId: 'user-42', reason: 'Ticket 4711', endedAt: null })
    expect(actor).toEqual({ type: 'cli', id: userInfo().username, name: userInfo().username })
    expect((await tenancy.impersonation.verify(id, token)).sessionId).toBe(sessionId)
    const listed = await tenantry.run('tenant:impersonate:list', id, '--json')
    expect(JSON.parse(listed.stdout)).toContainEqual({ ...session, sessionId, actor })
    expect(listed.stdout).not.toContain(token)

    const ended = await tenantry.run('tenant:impersonate:end', sessionId, '--json')
    expect(JSON.parse(ended.stdout)).toEqual({ sessionId, ended: true })
    await expect(tenancy.impersonation.verify(id, token)).rejects.toMatchObject({ code: 'E_IMPERSONATION_INVALID' })
    expect((await tenantry.run('tenant:impersonate:end', sessionId)).code).toBe(0)
  })

  test('prints the same facts as text and as JSON', async () => {
    const { code, stdout } = await begin('--reason', 'Ticket 4711')
    expect(code).toBe(0)
    const [, token = ''] = /^token +(imp_\S+)$/m.exec(stdout) ?? []
    const { sessionId } = await tenancy.impersonation.verify(id, token)
    const on = await tenantry.run('tenant:impersonate:list', id, '--active')
    expect(on.stdout).toMatch(new RegExp(`^${sessionId} +user-42 +\\S+ +Ticket 4711 `, 'm'))
    expect((await tenantry.run('tenant:impersonate:end', sessionId)).stdout).toMatch(/^ended +true$/m)
    expect((await tenantry.run('tenant:impersonate:list', id, '--active')).stdout).not.toContain(sessionId)
  })
})

test.each([
  [['tenant:impersonate', 'acme', 'user-42'], 2],
  [['tenant:impersonate', 'acme', 'user-42', '--reason', ' '], 2],
  [['tenant:impersonate', 'acme', '', '--reason', 'Ticket'], 2],
  [['tenant:impersonate', 'acme', 'user-42', '--reason', 'Ticket', '--duration', '1h'], 2],
  [['tenant:impersonate', 'acme', 'user-42', '--reason', 'Ticket', '--duration', '3601'], 2],
  [['tenant:impersonate', 'unknown', 'user-42', '--reason', 'Ticket'], 3],
  [['tenant:impersonate:list', 'unknown'], 3],
  [['tenant:impersonate:end', 'newest'], 3],
])('%j ends with exit code %i', async (line, code) => {
  expect((await tenantry.run(...line.map((word) => (word === 'acme' ? id : word)))).code).toBe(code)
})
