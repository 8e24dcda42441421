/** Tests the commands of erasures by their output and exit code. */
import { beforeAll, expect, test } from 'vitest'
import { type Program, usePrograms } from '../../cli/commands.fixture.ts'
import type { InProcess } from '../../cli/in-process.fixture.ts'

const openProgram = usePrograms()

let tenantry: InProcess
let json: Program['json']
beforeAll(async () => {
  ;({ tenantry, json } = await openProgram())
})

test('tenant:purge --now erases an active tenant and prints the report, and tenant:erasure:report prints it again', async () => {
  await json('tenant:create', 'Acme', '--id', 'acme')
  const line = ['tenant:purge', 'acme', '--now', '--confirm', 'acme', '--reason', 'request 4711']
  const { code, stdout, stderr } = await tenantry.run(...line)
  expect({ code, stderr }).toMatchObject({ code: 0 })
  expect(stdout).toMatch(/^system +kind +found +removed +foundAfterwards +kept$/m)
  expect(stdout).toMatch(/^placements +main: schema-pg t1_acme +1 +1 +0/m)
  expect(stderr).toContain('Expires later:')
  expect(stderr).toMatch(/Signature \(audit key\): valid\.$/m)
  const report = await tenantry.run('tenant:erasure:report', 'acme', '--json')
  expect(JSON.parse(report.stdout)).toMatchObject({
    state: 'completed',
    reason: 'request 4711',
    requestedBy: { type: 'cli' },
    signature: { key: 'audit', isValid: true },
  })
  expect((await tenantry.run(...line)).stdout).toBe(stdout)
  expect((await tenantry.run('tenant:show', 'acme')).code).not.toBe(0)
})

test('tenant:purge --now --dry-run lists what exists, and changes nothing', async () => {
  await json('tenant:create', 'Planned', '--id', 'planned')
  const found = await json('tenant:purge', 'planned', '--now', '--dry-run')
  expect(found).toContainEqual({ system: 'placements', kind: 'main: schema-pg t1_planned', found: 1, kept: '' })
  expect(await json('tenant:show', 'planned')).toMatchObject({ status: 'active' })
})

test.each([
  ['an id', [], /id: is required with --now/],
  ['a confirmation', ['planned', '--reason', 'x'], /confirm: is required with --now/],
  ['the id as confirmation', ['planned', '--confirm', 'other', '--reason', 'x'], /confirm must be equal to the id/],
  ['a reason', ['planned', '--confirm', 'planned'], /reason: is required with --now/],
])('tenant:purge --now without %s fails', async (_what, args, message) => {
  const { code, stderr } = await tenantry.run('tenant:purge', ...args, '--now')
  expect(stderr).toMatch(message)
  expect(code).toBe(2)
})

test.each([['--confirm', 'planned'], ['--reason', 'x'], ['--billing', 'delete'], ['--detach']])(
  'tenant:purge without --now rejects %s',
  async (...option) => {
    const { code, stderr } = await tenantry.run('tenant:purge', 'planned', ...option)
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining(`${option[0].slice(2)}: requires --now`),
    })
  },
)

test('tenant:erasure:report of a tenant without an erasure fails', async () => {
  const { code, stderr } = await tenantry.run('tenant:erasure:report', 'planned')
  expect(stderr).toContain('No erasure of tenant "planned" was requested')
  expect(code).not.toBe(0)
})
