/** Findings of the doctor about servers, on a real server with these faults. */

import { afterEach, describe, expect, inject, test } from 'vitest'
import { databasePg } from '../../drivers/isolation/database-pg.ts'
import { schemaPg } from '../../drivers/isolation/schema-pg.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { Doctor, type ExamineOptions, type Finding } from '../../kernel/doctor/doctor.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { createTestDatabase } from '../../testing/base/database.ts'
import { inTransaction } from '../../testing/base/in-transaction.ts'
import { eventually, testTenancy } from '../../testing/base/tenancy.ts'
import type { LongSession } from '../isolation/server-activity.ts'
import { poolFindings, serverFindings, serversDiagnosis, sessionFinding } from './servers.ts'

const log = createLogger({ level: 'silent' })
const NOTES = { name: '0001_notes', checksum: '1', up: 'create table notes (body text)' }

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

async function opened(options: Partial<TenancyConfig> = {}) {
  const made = await testTenancy(inject('postgresUrl'), { role: 'api', migrations: [NOTES], ...options })
  ends.push(made.end)
  return made
}

async function install({ tenants }: Tenancy, id: string, more = {}): Promise<void> {
  await tenants.create({ id, name: id, ...more })
  await tenants.installation.install(id, { isLast: true })
}

/** Examines without a minimum duration. */
async function atOnce({ tenants }: Tenancy, options: ExamineOptions = {}) {
  const doctor = new Doctor(log)
  doctor.register(serversDiagnosis(0), tenants)
  return (await doctor.examine(options)).checks
}

/** A connection of the owner, separate from those of the service. */
function ownerOf(url: string, application: string): Database {
  const named = new URL(url)
  named.searchParams.set('application_name', application)
  const database = new Database({ url: named.href, max: 1 }, log)
  ends.unshift(() => database.close())
  return database
}

/** An idle transaction that lasts until its release, at most until the end of the test. */
async function resting(database: Database, statement: string): Promise<() => Promise<void>> {
  const [started, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const whole = database.transaction(async () => {
    await database.sql(statement)
    started.resolve()
    await gate.promise
  })
  whole.catch(started.reject)
  await started.promise
  ends.unshift(async () => gate.resolve())
  return async () => {
    gate.resolve()
    await whole
  }
}

const byCode = (one: Finding, other: Finding) => one.code.localeCompare(other.code)

describe('findings of long sessions', () => {
  test('contain a statement of a tenant that waits for a lock, and the owner transaction that holds it', async () => {
    const { tenancy, url } = await opened()
    await install(tenancy, 'acme')
    const owner = ownerOf(url, 'a forgotten console')
    const release = await resting(owner, 'lock table t1_acme.notes')
    const { pool } = await tenancy.tenant('acme')
    const result = pool.query(`select body   from notes where body <> 'hunter2'`)
    const ours = async (options?: ExamineOptions) =>
      (await atOnce(tenancy, options)).filter(({ message }) => /Lock: relation|forgotten console/.test(message))
    const found = await eventually(async () => {
      const both = await ours()
      expect(both).toHaveLength(2)
      return both.sort(byCode)
    })
    const { rows } = await tenancy.kernel.database.sql('select login from multitenancy.placement_logins')
    expect(found).toEqual([
      {
        name: 'servers',
        severity: 'warn',
        code: 'statements.idle-in-transaction',
        message: expect.stringMatching(
          /^a transaction of "\w+" on "main" has been idle since \S+Z \(process \d+, a forgotten console, idle in transaction\)$/,
        ),
        remedy: expect.stringContaining('keeps its locks'),
        fixable: false,
      },
      {
        name: 'servers',
        severity: 'warn',
        code: 'statements.long',
        message: expect.stringMatching(
          new RegExp(
            `^a statement of "${rows[0].login}" on "main" has been running since \\S+Z \\(process \\d+, tenantry tenants, active, waits for Lock: relation\\)$`,
          ),
        ),
        remedy: expect.stringContaining('tenantry doctor --show-sql'),
        fixable: false,
      },
    ])
    const findings = await ours({ showsSql: true })
    expect(findings.sort(byCode).map(({ message }) => message.slice(message.indexOf('): ')))).toEqual([
      '): lock table t1_acme.notes',
      "): select body from notes where body <> 'hunter2'",
    ])
    await release()
    await result
    expect(await ours()).toEqual([])
    // Short sessions are not reported.
    expect((await tenancy.doctor.examine()).checks).toEqual([])
  })

  test('name the tenant of a session in its own database, and exclude databases of another installation', async () => {
    const { tenancy, url } = await opened({ isolation: [databasePg()] })
    await install(tenancy, 'acme')
    const { locator } = (await tenancy.kernel.database.sql('select locator from multitenancy.tenants')).rows[0]
    const own = new URL(url)
    own.pathname = locator
    const foreign = await createTestDatabase(inject('postgresUrl'))
    ends.push(foreign.drop)
    const releases = [
      await resting(ownerOf(own.href, 'in its database'), 'select 1'),
      await resting(ownerOf(foreign.url, 'in its database'), 'select 1'),
    ]
    const found = (await atOnce(tenancy)).filter(({ message }) => message.includes('in its database'))
    expect(found).toMatchObject([
      {
        code: 'statements.idle-in-transaction',
        tenantId: 'acme',
        message: expect.stringContaining(`database ${locator}`),
      },
    ])
    for (const release of releases) await release()
  })

  test("exclude sessions of roles other than the owner and the tenants' login", async () => {
    const { tenancy, url } = await opened()
    const name = `host_${Math.random().toString(36).slice(2, 10)}`
    await tenancy.kernel.database.sql(`create role ${name} login password 'p'`)
    ends.push(() => ownerOf(inject('postgresUrl'), 'cleaning up').sql(`drop role ${name}`))
    const own = Object.assign(new URL(url), { username: name, password: 'p' }).href
    const release = await resting(ownerOf(own, "the host's own"), 'select 1')
    expect((await atOnce(tenancy)).filter(({ message }) => message.includes("the host's own"))).toEqual([])
    await release()
  })

  test('contain a server with two names once', async () => {
    const { tenancy, open, url } = await opened()
    const both = await open({ placements: { second: { url } } })
    const release = await resting(ownerOf(url, 'once'), 'select 1')
    expect((await atOnce(both)).filter(({ message }) => message.includes('once'))).toHaveLength(1)
    await release()
    expect((await atOnce(tenancy)).filter(({ message }) => message.includes('once'))).toEqual([])
  })

  test("of Tenantry's maintenance have severity info during a transfer or migration run", async () => {
    const { tenancy, url } = await opened()
    const release = await resting(ownerOf(url, 'tenantry ddl'), 'select 1')
    const { database } = tenancy.kernel
    const severities = async () =>
      (await atOnce(tenancy)).filter(({ message }) => message.includes('tenantry ddl')).map(({ severity }) => severity)
    expect(await severities()).toEqual(['warn'])
    await database.transaction(async () => {
      await database.sql(
        `insert into multitenancy.migration_runs (id, direction, scope, target, state, retries, lock_timeout_ms, worked_until, created_at)
         values (gen_random_uuid(), 'up', 'all', '', 'running', 0, 1000, now(), now())`,
      )
      expect(await severities()).toEqual(['info'])
    })
    await release()
  })
})

describe('connections', () => {
  test('report the pool of this process: all in use, with and without waiting statements', async () => {
    const { tenancy } = await opened({
      placements: { main: { connections: { max: 2, perTenant: 2, waitMs: 20_000 } } },
    })
    await install(tenancy, 'acme')
    const acme = await tenancy.tenant('acme')
    const pools = async () =>
      (await tenancy.doctor.examine()).checks.filter(({ code }) => code.startsWith('connections.'))
    const taken = [await acme.pool.connect(), await acme.pool.connect()]
    for (const client of taken) await inTransaction(client)
    expect(await pools()).toMatchObject([
      {
        severity: 'info',
        code: 'connections.pool-nearly-full',
        message: '2 of the 2 connections of this process to "main" are in use; no statement waits yet',
      },
    ])
    const waits = acme.pool.query('select 1')
    await eventually(() => expect(tenancy.tenants.storage.connections()[0]?.waiting).toBe(1))
    expect(await pools()).toMatchObject([
      {
        severity: 'warn',
        code: 'connections.waiting',
        message: 'in this process 1 statement waits for a connection to "main"; 2 of 2 are in use',
      },
    ])
    for (const client of taken) {
      await client.query('rollback')
      client.release()
    }
    await waits
    expect(await pools()).toEqual([])
  })

  test.each([
    [17, 20, undefined],
    [18, 20, 'info connections.pool-nearly-full'],
    [20, 20, 'info connections.pool-nearly-full'],
  ])('report the pool with %i of %i in use', (busy, max, expected) => {
    const [finding] = poolFindings({ placement: 'main', max, busy, idle: 0, waiting: 0, hits: 0, misses: 0 })
    expect(finding && `${finding.severity} ${finding.code}`).toBe(expected)
  })

  test('report no pool of storage without a server', () => {
    expect([...poolFindings({ placement: 'main', busy: 9, idle: 0, waiting: 9, hits: 0, misses: 0 })]).toEqual([])
  })

  test.each([
    [87, undefined],
    [88, 'warn'],
    [96, 'warn'],
    [97, 'error'],
    [100, 'error'],
  ])('report a server with %i of 97 connections in use', (connections, severity) => {
    expect(serverFindings('main', { connections, available: 97, sessions: [] })[0]?.severity).toBe(severity)
  })

  test('use the number of connections that the server reports', async () => {
    const { tenancy, url } = await opened({ isolation: [schemaPg(), databasePg()] })
    for (const { activity } of tenancy.tenants.storage.drivers) {
      const read = async () => await activity?.('main', { longMs: 60_000, showsSql: false })
      const { rows } = await tenancy.kernel.database.sql(
        `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) as available`,
      )
      const { sessions, ...counted } = (await read()) ?? {}
      expect(counted).toMatchObject({ available: rows[0].available })
      expect(sessions?.filter(({ database }) => url.endsWith(`/${database}`))).toEqual([])
      const more = Array.from({ length: 40 }, () => new Database({ url, max: 1 }, log))
      await Promise.all(more.map((database) => database.sql('select 1')))
      expect((await read())?.connections).toBeGreaterThanOrEqual(40)
      await Promise.all(more.map((database) => database.close()))
    }
  })
})

test('a finding of a session contains no statement text by default', () => {
  const session: LongSession = {
    pid: 7,
    role: 'tenantry_tenant',
    application: '',
    database: null,
    state: 'active',
    since: new Date('2026-01-01T00:00:00Z'),
    waitsFor: null,
    isUpkeep: false,
    sql: null,
  }
  const { message } = sessionFinding('main', session, { isAtWork: true })
  expect(message).toBe(
    'a statement of "tenantry_tenant" on "main" has been running since 2026-01-01T00:00:00.000Z (process 7, active)',
  )
})
