/** Recovers failed tenants by one command. */
import { expect, test } from 'vitest'
import { eventually } from '../testing/base/tenancy.ts'
import { type Program, usePrograms } from './commands.fixture.ts'

const openProgram = usePrograms()
const IDS = ['failed-1', 'failed-2', 'failed-3']

/** Opens a program with an active tenant and three whose installation has failed, after the cause is fixed. */
async function openFailed(): Promise<Program> {
  const program = await openProgram()
  const { tenantry, json, writeMigration } = program
  await json('tenant:create', 'Acme', '--id', 'acme')
  await writeMigration('0002_tags', 'select 1 / 0', 'drop table tags')
  for (const id of IDS) expect((await tenantry.run('tenant:create', id, '--id', id)).code).toBe(1)
  await writeMigration('0002_tags', 'create table tags (name text)', 'drop table tags')
  return program
}

const statuses = async ({ json }: Program) =>
  Object.fromEntries((await json('tenant:list')).data.map(({ id, status }: Record<string, string>) => [id, status]))

test('tenant:activate --filter status=failed installs all failed tenants again', async () => {
  const program = await openFailed()
  const unconfirmed = await program.tenantry.run('tenant:activate', '--filter', 'status=failed')
  expect(unconfirmed.code).toBe(2)
  expect(unconfirmed.stderr).toContain('3 match: failed-3, failed-2, failed-1\n')
  expect(unconfirmed.stderr).toContain('Run tenant:activate for all of them (3)?')

  const { code, stdout } = await program.tenantry.run('tenant:activate', '--filter', 'status=failed', '--yes', '--json')
  expect(code).toBe(0)
  const results = JSON.parse(stdout).toSorted((a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1))
  expect(results).toMatchObject(IDS.map((id) => ({ id, isDone: true, result: { id, status: 'active' } })))
  expect(await statuses(program)).toEqual(Object.fromEntries(['acme', ...IDS].map((id) => [id, 'active'])))

  const none = await program.tenantry.run('tenant:activate', '--filter', 'status=failed', '--yes')
  expect(none).toEqual({ code: 0, stdout: '', stderr: 'no match\n' })
})

test('a command with --filter reports the failures of some tenants, and ends with the exit code of the first', async () => {
  const program = await openFailed()
  const line = ['tenant:suspend', '--filter', 'q=a', '--yes', '--concurrency', '1']
  const { code, stdout, stderr } = await program.tenantry.run(...line)
  expect(stdout).toMatch(/^id +isDone\nacme +true\n$/)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '1 matches: acme\n' })

  const all = await program.tenantry.run('tenant:suspend', '--filter', 'includeDeleted=true', '--yes')
  expect(all.code).toBe(5)
  expect(all.stdout).toMatch(
    /^failed-1 +false +Tenant "failed-1" is failed and cannot become suspended\. +E_TENANT_STATE$/m,
  )
  expect(all.stdout).toMatch(/^acme +true/m)
  expect(all.stderr).toContain('E_TENANT_STATE')
})

test('doctor --fix starts the installation of failed tenants again, and a worker carries it out', async () => {
  const program = await openFailed()
  const { stdout } = await program.tenantry.run('doctor', '--fix', '--yes', '--json')
  expect(JSON.parse(stdout).fixes).toMatchObject(
    IDS.map((tenantId) => ({
      code: 'tenants.failed',
      tenantId,
      isDone: true,
      outcome: 'the installation was started again; a worker carries it out',
    })),
  )
  await program.json('tenant:create', 'Other', '--id', 'other') // its process works on jobs
  await eventually(async () => expect(Object.values(await statuses(program))).toEqual(Array(5).fill('active')))
})
