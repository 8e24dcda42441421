/** Tests commands that migrate the backoffice and tenants, by their output and exit code. */
import { describe, expect, inject, test } from 'vitest'
import { createTestDatabase } from '../testing/base/database.ts'
import { type Program, usePrograms } from './commands.fixture.ts'

const openProgram = usePrograms()

test('backoffice:setup creates missing tables, and a second run changes nothing', async () => {
  const { tenantry } = await openProgram(createTestDatabase(inject('postgresUrl')))
  const first = await tenantry.run('backoffice:setup')
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(first.stdout).toMatch(/^migrated +.*tenants\/0001_tenants/m)
  expect(first.stdout).toMatch(/^logins\.main +tenantry_tenant/m)
  expect(first.stdout).toMatch(/^queues +.*tenantry\.InstallTenant, /m)
  const second = await tenantry.start(['backoffice:setup', '--json'], { isAlone: true }).ended
  expect(second).toMatchObject({ code: 0, stderr: 'no pending migrations\n' })
  expect(JSON.parse(second.stdout)).toMatchObject({ migrated: [], logins: { main: expect.any(String) } })
})

describe('migrations', () => {
  /** Opens a program with two tenants that have the first migration. */
  async function openMigrated(): Promise<Program> {
    const program = await openProgram()
    for (const id of ['acme', 'globex']) await program.json('tenant:create', id, '--id', id)
    return program
  }

  test('tenant:migrate applies pending migrations, and tenant:migrate:rollback rolls back the last ones', async () => {
    const { tenantry, json, writeMigration } = await openMigrated()
    await writeMigration('0002_dates', 'alter table notes add day date', 'alter table notes drop day')
    expect(await json('tenant:migrate', '--dry-run')).toEqual([
      { tenantId: 'acme', migrations: ['0002_dates'], error: null },
      { tenantId: 'globex', migrations: ['0002_dates'], error: null },
    ])
    expect((await tenantry.run('tenant:migrate', 'acme', 'globex')).stdout).toMatch(
      /^id +state +migrations +attempts +error\nacme +done +0002_dates +1 +-\nglobex +done +0002_dates +1 +-\n$/,
    )
    expect(await json('tenant:migrate')).toMatchObject({ runId: null, total: 0, items: [] })
    const { versions } = JSON.parse((await tenantry.run('tenant:migrate:status', '--json')).stdout)
    expect(versions).toMatchObject([{ last: '0002_dates', tenants: 2, pending: [] }])
    expect(await json('tenant:migrate:rollback', 'acme', '--steps', '2', '--yes')).toMatchObject({
      direction: 'down',
      state: 'completed',
      items: [{ tenantId: 'acme', migrations: ['0002_dates', '0001_notes'] }],
    })
    expect(await json('tenant:migrate:status', 'acme', '--verify')).toEqual([
      { migration: '0001_notes', state: 'pending' },
      { migration: '0002_dates', state: 'pending' },
    ])
  })

  test('tenant:migrate reports the first failure with its cause, and continues after the migration is fixed', async () => {
    const { tenantry, json, writeMigration } = await openMigrated()
    await writeMigration('0003_wrong', 'select 1 / 0', 'select 1')
    const { code, stdout, stderr } = await tenantry.run('tenant:migrate', 'acme', 'globex', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ state: 'failed', total: 2, failed: 2 })
    expect(stderr).toContain('"code": "E_MIGRATIONS_INCOMPLETE"')
    expect(stderr).toMatch(
      /"detail": "2 of 2 failed; the first is acme: .*0003_wrong \(up\) failed.*\. Fix the cause and run it again\."/,
    )
    const stopped = await tenantry.run('tenant:migrate', '--concurrency', '1', '--stop-after', '1')
    expect(stopped.stderr).toContain('Fix the cause and run it again, or give --stop-after.')
    expect(stderr).toContain('division by zero') // in the log
    await writeMigration('0003_wrong', 'select 1', 'select 1')
    expect(await json('tenant:migrate', '--concurrency', '1')).toMatchObject({ state: 'completed', done: 2 })
    expect(await json('tenant:migrate:rollback', '--all', '--dry-run')).toMatchObject([
      { tenantId: 'acme', migrations: ['0003_wrong'] },
      { tenantId: 'globex', migrations: ['0003_wrong'] },
    ])
    expect((await tenantry.run('tenant:migrate', '--cancel')).stderr).toBe('no unfinished run\n')
    expect(await json('tenant:migrate', '--cancel')).toBeNull()
  })
})
