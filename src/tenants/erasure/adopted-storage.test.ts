import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { TestEnvironment } from '../../../test/support/two-servers.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { NOTES, openWithFormerRole } from '../adoption/adoptions.fixture.ts'

const signal = AbortSignal.timeout(120_000)
const erasureOf = (id: string) => ({ confirm: id, reason: 'request 4711' })

let opened: Awaited<ReturnType<typeof openWithFormerRole>>
let environment: TestEnvironment
let role: string
const tenants = () => environment.tenancy.tenants
const erasures = () => tenants().erasures
const adoptions = () => tenants().adoptions
const database = () => environment.tenancy.kernel.database
const sql = async (text: string, values: unknown[] = []) => (await database().sql(text, values)).rows

/** Creates a schema of the host with one row. */
async function hostSchema(name: string): Promise<string> {
  await database().session(async (client) => {
    await client.query(`create schema ${name} authorization ${role}; set role ${role}; set search_path = ${name};
      ${NOTES.up}; insert into notes values ('${name}', 1, 'of the host')`)
  })
  return name
}
const request = (id: string, schema: string) => ({ id, isolation: 'schema-pg', schema, baseline: NOTES.name })
async function adopt(id: string, schema: string) {
  const { digest } = await adoptions().plan(request(id, schema))
  return adoptions().adopt({ ...request(id, schema), digest })
}
async function purge(id: string) {
  await tenants().delete(id)
  await sql('update multitenancy.tenants set purge_at = created_at where id = $1', [id])
  expect(await tenants().installation.purge(id)).toBe(true)
}
const rowsIn = (schema: string) => sql(`select body from ${schema}.notes`)
const locatorOf = async (id: string) =>
  (await sql('select locator from multitenancy.tenants where id = $1', [id]))[0]?.locator
const OF_THE_HOST = [{ body: 'of the host' }]

beforeAll(async () => {
  opened = await openWithFormerRole(inject('postgresUrl'), { role: 'api', migrations: [NOTES] })
  ;({ environment, role } = opened)
})
afterAll(() => opened.end())

describe('an erasure of an adopted tenant', () => {
  test('lists its storage in plan and report, and drops it', async () => {
    await adopt('listed', await hostSchema('listed_prod'))
    const plan = await erasures().plan('listed')
    expect(plan.find(({ system }) => system === 'placements')?.found).toMatchObject([
      { kind: 'main: schema-pg listed_prod', count: 1 },
    ])
    await erasures().request('listed', erasureOf('listed'))
    await erasures().work('listed', { signal })
    const { state, report } = await erasures().get('listed')
    expect(state).toBe('completed')
    expect(report?.systems[0]).toMatchObject({ kind: 'main: schema-pg listed_prod', found: 1, removed: 1 })
    expect(await sql(`select from pg_namespace where nspname = 'listed_prod'`)).toEqual([])
  })

  test('that repeats its removal keeps storage that the host created with the former name', async () => {
    await adopt('repeated', await hostSchema('repeated_prod'))
    await sql('update multitenancy.tenants set last_epoch = 3 where id = $1', ['repeated'])
    const driver = tenants().storage.driver('schema-pg')
    const left = { tenantId: 'repeated', isolation: 'schema-pg', placement: 'main', locator: 't2_repeated', epoch: 2 }
    await driver.provision(left) // the last search finds it, so the removal is repeated
    await erasures().request('repeated', erasureOf('repeated'))
    let created: Promise<string> | undefined
    const onStep = (name: string, state: string) => {
      if (name === 'placements' && state === 'removed') created = hostSchema('repeated_prod')
    }
    await erasures().work('repeated', { signal, onStep })
    await created
    expect((await erasures().get('repeated')).waitingFor).toContain('t2_repeated')
    await driver.drop(left)
    await erasures().work('repeated', { signal })
    expect((await erasures().get('repeated')).state).toBe('completed')
    expect(await rowsIn('repeated_prod')).toEqual(OF_THE_HOST)
  })
})

describe('an erasure of a purged tenant', () => {
  test('keeps storage that the host created with the name of the adopted one', async () => {
    await adopt('acme', await hostSchema('acme_prod'))
    await purge('acme')
    expect(await locatorOf('acme')).toBe('dropped acme')
    await hostSchema('acme_prod')
    await erasures().request('acme', erasureOf('acme'))
    await erasures().work('acme', { signal })
    expect((await erasures().get('acme')).state).toBe('completed')
    expect(await rowsIn('acme_prod')).toEqual(OF_THE_HOST)
    expect(await adopt('successor', 'acme_prod')).toMatchObject({ status: 'active' })
  })

  test('keeps it for a row from before, which has the name', async () => {
    await adopt('older', await hostSchema('older_prod'))
    await purge('older')
    await sql(`update multitenancy.tenants set locator = 'older_prod' where id = 'older'`)
    await hostSchema('older_prod')
    await erasures().request('older', erasureOf('older'))
    await erasures().work('older', { signal })
    expect((await erasures().get('older')).state).toBe('completed')
    expect(await rowsIn('older_prod')).toEqual(OF_THE_HOST)
  })
})

describe('a purge of an adopted tenant', () => {
  test('that continues after the drop keeps a schema that the host created with the name', async () => {
    await adopt('dropped', await hostSchema('dropped_prod'))
    await tenants().delete('dropped')
    const location = {
      tenantId: 'dropped',
      isolation: 'schema-pg',
      placement: 'main',
      locator: 'dropped_prod',
      epoch: 1,
    }
    await tenants().storage.driver('schema-pg').drop(location) // killed after it
    expect(await sql(`select from pg_namespace where nspname = 'dropped_prod'`)).toEqual([])
    await hostSchema('dropped_prod')
    await sql('update multitenancy.tenants set purge_at = created_at where id = $1', ['dropped'])
    expect(await tenants().installation.purge('dropped')).toBe(true)
    expect(await rowsIn('dropped_prod')).toEqual(OF_THE_HOST)
  })

  test('that continues after the drop keeps a database that the host created with the name', async () => {
    const driver = tenants().storage.driver('database-pg')
    const locator = `dropped_${randomBytes(4).toString('hex')}`
    await sql(`create database ${locator}`)
    await driver.drop({ tenantId: 'dropped', isolation: 'database-pg', placement: 'main', locator, epoch: 1 })
    expect(await sql('select from pg_database where datname = $1', [locator])).toHaveLength(1)
    await sql(`drop database ${locator}`)
  })
})

test('a late installation of a tenant that is being released keeps its adopted storage', async () => {
  await adopt('late', await hostSchema('late_prod'))
  await adoptions().beginRelease('late', () => tenants().delete('late'))
  await tenants().installation.install('late', { isLast: true })
  expect(await rowsIn('late_prod')).toEqual(OF_THE_HOST)
  expect(await tenants().installation.purge('late')).toBe(true)
  await tenants().installation.install('late', { isLast: true })
  expect(await rowsIn('late_prod')).toEqual(OF_THE_HOST)
})

describe('an adoption', () => {
  test('that is in progress, or whose process was killed, rejects an erasure', async () => {
    const schema = await hostSchema('early_prod')
    const { digest } = await adoptions().plan(request('early', schema))
    const adopting = await database().session(async (client) => {
      await client.query(`begin; select pg_advisory_xact_lock(hashtextextended('${schema}', 1))`)
      const started = adoptions().adopt({ ...request('early', schema), digest })
      started.catch(() => undefined)
      await eventually(async () =>
        expect(await sql(`select state from multitenancy.adoptions where tenant_id = 'early'`)).toEqual([
          { state: 'adopting' },
        ]),
      )
      await expect(erasures().request('early', erasureOf('early'))).rejects.toMatchObject({
        code: 'E_TENANT_STATE',
        message: expect.stringContaining('is being adopted'),
      })
      await client.query('rollback')
      return { started }
    })
    expect(await adopting.started).toMatchObject({ status: 'active' })
    expect(await rowsIn(schema)).toEqual(OF_THE_HOST)
  })

  test('with the id of a tenant that was released and erased is rejected', async () => {
    const schema = await hostSchema('gone_prod')
    await adopt('gone', schema)
    await tenants().release('gone')
    await erasures().request('gone', erasureOf('gone'))
    await erasures().work('gone', { signal })
    expect((await erasures().get('gone')).state).toBe('completed')
    const plan = await adoptions().plan(request('gone', schema))
    expect(plan).toMatchObject({ isAdoptable: false, reasons: ['the tenant id "gone" is taken'] })
    await expect(adoptions().adopt({ ...request('gone', schema), digest: plan.digest })).rejects.toMatchObject({
      code: 'E_TENANT_EXISTS',
      message: expect.stringContaining('was erased'),
    })
    expect(await locatorOf('gone')).toBe('released gone')
    expect(await rowsIn(schema)).toEqual(OF_THE_HOST)
  })
})
