/** Findings of the doctor about storage of tenants, on a tenancy with exactly these faults. */
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { createTestDatabase, unreachableUrl } from '../../testing/base/database.ts'
import { testTenancy } from '../../testing/base/tenancy.ts'
import { checks, make, NOTES, useTenancy } from './tenants.fixture.ts'

const here = useTenancy()
const { sql } = here

describe('storage', () => {
  const CLOSED = 'revoke usage on schema t1_acme from $scope'
  const OPEN = 'grant usage on schema t1_gone to $scope'

  /** Creates the active tenants `acme` and `globex` and the deleted tenant `gone`, then runs the faulty statements. */
  const withFaults = async (...statements: string[]): Promise<void> => {
    for (const id of ['acme', 'globex', 'gone']) await make(here.tenancy, id)
    await here.tenancy.tenants.delete('gone')
    expect(await checks(here.tenancy)).toEqual([])
    const [login] = await sql(`select scope_role from multitenancy.placement_logins where placement = 'main'`)
    for (const one of statements) await sql(one.replace('$scope', login.scope_role))
  }

  test('that is missing, closed, open or left over is reported', async () => {
    await withFaults(
      'drop schema t1_globex cascade',
      CLOSED,
      OPEN,
      'create schema t1_lost',
      'alter default privileges in schema t1_lost grant select on tables to $scope',
    )
    const found = (await checks(here.tenancy)).toSorted((one, other) => one.code.localeCompare(other.code))
    const finding = (code: string, severity: string, tenantId: string | undefined, words: string) => ({
      name: 'storage',
      severity,
      code: `storage.${code}`,
      message: `the storage "t1_${tenantId ?? 'lost'}" on "main" ${words}`,
      remedy: expect.stringMatching(/./),
      fixable: code === 'closed' || code === 'open',
      ...(tenantId ? { tenantId } : {}),
    })
    expect(found).toEqual([
      finding('closed', 'info', 'acme', 'is closed although its tenant is active'),
      finding('left-over', 'warn', undefined, 'belongs to no tenant'),
      finding('missing', 'error', 'globex', 'does not exist'),
      finding('open', 'error', 'gone', 'is open although its tenant is suspended, deleted or being moved'),
    ])
  })

  test('that is closed or open is fixed', async () => {
    await withFaults(CLOSED, OPEN)
    const report = await here.tenancy.doctor.fix({ approve: async () => true })
    expect(report).toMatchObject({ status: 'ok', checks: [] })
    expect(report.fixes.toSorted((one, other) => one.code.localeCompare(other.code))).toMatchObject([
      { code: 'storage.closed', tenantId: 'acme', isDone: true, outcome: 'opened' },
      {
        code: 'storage.open',
        tenantId: 'gone',
        isDone: true,
        outcome: 'closed, unless the tenant is usable by now',
      },
    ])
  })

  test('is not changed by a fix whose tenant has changed since the examination', async () => {
    await withFaults(CLOSED, OPEN)
    const { checks, fixes } = await here.tenancy.doctor.fix({
      approve: async () => {
        await here.tenancy.tenants.suspend('acme')
        await here.tenancy.tenants.restore('gone')
        return true
      },
    })
    expect(checks).toEqual([])
    expect(fixes.toSorted((one, other) => one.code.localeCompare(other.code))).toMatchObject([
      { code: 'storage.closed', isDone: true, outcome: expect.stringMatching(/^left unchanged/) },
      { code: 'storage.open', isDone: true },
    ])
  })

  test('is not reported during concurrent transitions', async () => {
    const ids = ['a', 'b', 'c']
    for (const id of ids) await make(here.tenancy, id)
    let isFinished = false
    const turning = ids.map(async (id) => {
      while (!isFinished) {
        await here.tenancy.tenants.suspend(id)
        await here.tenancy.tenants.activate(id)
      }
    })
    try {
      // A tenant is opened just after the commit that has activated it.
      for (let n = 0; n < 15; n++)
        expect((await checks(here.tenancy)).filter(({ code }) => code !== 'storage.closed')).toEqual([])
    } finally {
      isFinished = true
      await Promise.all(turning)
    }
    expect(await checks(here.tenancy)).toEqual([])
  })

  test('of an unresponsive server is reported; storage on other servers is examined', async () => {
    const other = await createTestDatabase(inject('postgresUrl'))
    const placements = { second: { url: other.url } }
    const { tenancy, open, end } = await testTenancy(inject('postgresUrl'), {
      role: 'api',
      migrations: [NOTES],
      placements,
    })
    onTestFinished(async () => {
      await other.drop() // before the roles that own rights of its tenants
      await end()
    })
    await make(tenancy, 'near')
    await make(tenancy, 'far', { placement: 'second' })
    await tenancy.kernel.database.sql('drop schema t1_near cascade')
    const found = await checks(await open({ placements: { second: { url: unreachableUrl(other.url) } } }))
    expect(found.map(({ name, code }) => `${name} ${code}`).sort()).toEqual([
      'logins doctor.not-examined',
      'servers doctor.not-examined',
      'storage doctor.not-examined',
      'storage storage.missing',
    ])
    expect(found.filter(({ code }) => code === 'doctor.not-examined').map(({ message }) => message)).toEqual([
      expect.stringMatching(/^The login of tenants' queries on "second" could not be examined: /),
      expect.stringMatching(/^The storage of schema-pg on "second" could not be examined: /),
      expect.stringMatching(/^The activity of the server of "second" could not be examined: /),
    ])
  })
})
