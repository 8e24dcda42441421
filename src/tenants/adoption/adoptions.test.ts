import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type Recorded, recorded } from '../../../test/support/recorded.ts'
import type { TestEnvironment } from '../../../test/support/two-servers.ts'
import { rightsOf } from '../../drivers/isolation/adoption/legacy-schemas.fixture.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { raw } from '../../testing/leak/operations.ts'
import { NOTES, openWithFormerRole, TAGS } from './adoptions.fixture.ts'

let opened: Awaited<ReturnType<typeof openWithFormerRole>>
let environment: TestEnvironment
let published: Recorded
let role: string
const database = () => environment.tenancy.kernel.database
const sql = async (text: string, values: unknown[] = []) => (await database().sql(text, values)).rows
const tenants = () => environment.tenancy.tenants
const adoptions = () => tenants().adoptions

let schemas = 0
/** Creates a schema of the former application with one row, and returns its name. */
async function legacySchema(): Promise<string> {
  const name = `legacy_${++schemas}`
  await database().session(async (client) => {
    await client.query(`create schema ${name} authorization ${role}; set role ${role}; set search_path = ${name};
      ${NOTES.up}; insert into notes values ('${name}', 1, 'of ${name}')`)
  })
  return name
}
const request = (id: string, schema: string) => ({ id, isolation: 'schema-pg', schema, baseline: NOTES.name })
const digestOf = async (id: string, schema: string) => (await adoptions().plan(request(id, schema))).digest
async function adopted(id: string, schema: string) {
  return adoptions().adopt({ ...request(id, schema), digest: await digestOf(id, schema) })
}
const bodies = async (id: string) => raw((await tenants().handle(id)).db, 'select body from notes order by id')
const rights = (schema: string) => rightsOf(database(), schema)
const rowOf = async (id: string) => (await sql('select * from multitenancy.tenants where id = $1', [id]))[0]
const stateOf = async (id: string) =>
  (await sql('select state from multitenancy.adoptions where tenant_id = $1', [id]))[0]?.state
/** Lets all leases end, as after two minutes. */
const expire = () =>
  sql(`update multitenancy.adoptions set lease_until = now() - interval '1 second' where state = 'adopting'`)

/** Runs `work` while another session holds a lock. */
async function whileLocked<T>(lock: string, work: () => Promise<T>): Promise<T> {
  return database().session(async (client) => {
    await client.query(`begin; ${lock}`)
    const result = await work()
    await client.query('rollback')
    return result
  })
}
/** Sessions that wait for a lock in a statement with these words. */
const waiting = (application: string, words: string) =>
  sql(
    `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and application_name = $1
       and query like $2`,
    [application, `%${words}%`],
  )
const endWaiting = (application: string, words: string) =>
  eventually(async () => {
    const [one] = await waiting(application, words)
    expect(await sql('select pg_terminate_backend($1, 5000) as ended', [one?.pid])).toEqual([{ ended: true }])
  })

beforeAll(async () => {
  opened = await openWithFormerRole(inject('postgresUrl'), { migrations: [NOTES, TAGS] })
  ;({ environment, role } = opened)
  published = recorded(environment.tenancy)
})
afterAll(() => opened.end())

describe('an adopted tenant', () => {
  test('is active, with the rows and the baseline of its storage', async () => {
    const schema = await legacySchema()
    const tenant = await adopted('first', schema)
    expect(tenant).toMatchObject({
      id: 'first',
      name: 'first',
      status: 'active',
      isolation: 'schema-pg',
      placement: 'main',
    })
    expect(published.of('first')).toEqual(['tenants.adopt', 'TenantCreated', 'TenantProvisioned'])
    expect(await bodies('first')).toEqual([{ body: `of ${schema}` }])
    expect(await tenants().migrations.status.plan({ ids: ['first'] })).toMatchObject([{ migrations: [TAGS.name] }])
  })

  test('keeps its id and its storage from creations and other adoptions', async () => {
    await expect(tenants().create({ id: 'first', name: 'First' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    const again = { ...request('second', 'legacy_1'), digest: await digestOf('second', 'legacy_1') }
    await expect(adoptions().adopt(again)).rejects.toMatchObject({
      code: 'E_NOT_ADOPTABLE',
      extras: { reasons: ['it is the storage of the tenant "first"'] },
    })
    const { isAdoptable, reasons } = await adoptions().plan(request('first', await legacySchema()))
    expect({ isAdoptable, reasons }).toEqual({ isAdoptable: false, reasons: ['the tenant id "first" is taken'] })
    expect(await rowOf('second')).toBeUndefined()
  })

  test('is migrated from its baseline', async () => {
    await tenants().migrations.run({ ids: ['first'] })
    expect(await tenants().migrations.status.plan({ ids: ['first'] })).toEqual([])
  })

  test('is deleted and purged with its storage, as any other tenant', async () => {
    await tenants().delete('first')
    await sql(`update multitenancy.tenants set purge_at = now() - interval '1 hour' where id = 'first'`)
    expect(await tenants().installation.purge('first')).toBe(true)
    expect(await sql(`select from pg_namespace where nspname = 'legacy_1'`)).toEqual([])
    expect(await stateOf('first')).toBeUndefined()
    expect(await sql(`select from tenantry.adoptions where locator = 'legacy_1'`)).toEqual([])
  })
})

describe('concurrent adoptions', () => {
  test('of one schema by ten tenants: one has it, and the other ids stay free', async () => {
    const schema = await legacySchema()
    const ids = Array.from({ length: 10 }, (_, index) => `rival-${index}`)
    const digests = await Promise.all(ids.map((id) => digestOf(id, schema)))
    const all = await Promise.allSettled(
      ids.map((id, index) => adoptions().adopt({ ...request(id, schema), digest: digests[index] ?? '' })),
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const one of all) if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    expect(await sql(`select id from multitenancy.tenants where id like 'rival-%'`)).toHaveLength(1)
  })

  test('of ten schemas by one id, concurrently with its creation: one has the id', async () => {
    const names: string[] = []
    for (let count = 0; count < 9; count++) names.push(await legacySchema())
    const digests = await Promise.all(names.map((name) => digestOf('wanted', name)))
    const before = await Promise.all(names.map(rights))
    const all = await Promise.allSettled([
      tenants().create({ id: 'wanted', name: 'Wanted', isolation: 'rowscope-pg' }),
      ...names.map((name, index) => adoptions().adopt({ ...request('wanted', name), digest: digests[index] ?? '' })),
    ])
    const won = all.findIndex(({ status }) => status === 'fulfilled')
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const one of all) if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'E_TENANT_EXISTS' })
    for (const [index, name] of names.entries())
      if (index !== won - 1) expect(await rights(name)).toEqual(before[index])
  })
})

test('storage that a tenant leaves while its reservation waits is not adopted', async () => {
  const schema = await legacySchema()
  const [before, digest] = [await rights(schema), await digestOf('next', schema)]
  await tenants().create({ id: 'mover', name: 'Mover', isolation: 'rowscope-pg' })
  await tenants().waitUntilInstalled('mover', AbortSignal.timeout(60_000))
  await sql(`update multitenancy.tenants set isolation = 'schema-pg', locator = $1 where id = 'mover'`, [schema])
  const { started } = await database().session(async (client) => {
    await client.query(`begin; update multitenancy.tenants set locator = 't2_mover', epoch = 2 where id = 'mover';
      insert into multitenancy.storage_locations (isolation, placement, locator, epoch, tenant_id, state, since, purge_at)
      values ('schema-pg', 'main', '${schema}', 1, 'mover', 'former', now(), now() + interval '1 day')`)
    const adopting = adoptions().adopt({ ...request('next', schema), digest })
    adopting.catch(() => undefined)
    await eventually(async () => expect(await waiting('tenantry', 'insert into multitenancy.tenants')).toHaveLength(1))
    await client.query('commit')
    return { started: adopting }
  })
  await expect(started).rejects.toMatchObject({
    code: 'E_NOT_ADOPTABLE',
    extras: { reasons: ['it is the storage of the tenant "mover"'] },
  })
  expect(await rights(schema)).toEqual(before)
  expect(await rowOf('next')).toBeUndefined()
})

describe('an interrupted adoption', () => {
  test('before the commit of the server changes nothing, and can be repeated', async () => {
    const schema = await legacySchema()
    const [before, digest] = [await rights(schema), await digestOf('early', schema)]
    await whileLocked(`lock table ${schema}.notes in access share mode`, async () => {
      const adopting = adoptions().adopt({ ...request('early', schema), digest })
      adopting.catch(() => undefined)
      await endWaiting('tenantry ddl', 'alter schema')
      await expect(adopting).rejects.toThrow()
    })
    expect(await rights(schema)).toEqual(before)
    expect(await rowOf('early')).toBeUndefined()
    expect(await stateOf('early')).toBeUndefined()
    expect(await adoptions().adopt({ ...request('early', schema), digest })).toMatchObject({ status: 'active' })
  })

  test('after the commit of the server is completed by RecoverAdoptions', async () => {
    const schema = await legacySchema()
    const digest = await digestOf('late', schema)
    await database().session((one) =>
      database().session(async (other) => {
        await one.query(`begin; lock table ${schema}.notes in access share mode`)
        const adopting = adoptions().adopt({ ...request('late', schema), digest })
        adopting.catch(() => undefined)
        await eventually(async () => expect(await waiting('tenantry ddl', 'alter schema')).toHaveLength(1))
        await other.query('begin; lock table multitenancy.adoptions in share mode')
        await one.query('rollback')
        await endWaiting('tenantry', 'update "multitenancy"."adoptions"')
        await expect(adopting).rejects.toThrow()
        await other.query('rollback')
      }),
    )
    await expect(tenants().get('late')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await expect(tenants().create({ id: 'late', name: 'Late' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    await adoptions().recover()
    expect(await stateOf('late')).toBe('adopting') // its lease has not ended
    await expire()
    published.of('late')
    await Promise.all([adoptions().recover(), adoptions().recover()])
    expect(published.of('late')).toEqual(['tenants.adopt', 'TenantCreated', 'TenantProvisioned'])
    expect(await bodies('late')).toEqual([{ body: `of ${schema}` }])
  })

  test('that was abandoned by RecoverAdoptions adopts nothing when its process continues', async () => {
    const schema = await legacySchema()
    const [before, digest] = [await rights(schema), await digestOf('stalled', schema)]
    const adopting = await whileLocked(`select pg_advisory_xact_lock(hashtextextended('${schema}', 1))`, async () => {
      const started = adoptions().adopt({ ...request('stalled', schema), digest })
      started.catch(() => undefined)
      await eventually(async () => expect(await stateOf('stalled')).toBe('adopting'))
      await sql(`delete from multitenancy.adoptions where tenant_id = 'stalled'`)
      await sql(`delete from multitenancy.tenants where id = 'stalled'`)
      return { started }
    })
    await expect(adopting.started).rejects.toMatchObject({ code: 'E_NOT_ADOPTABLE' })
    expect(await rights(schema)).toEqual(before)
    expect(await rowOf('stalled')).toBeUndefined()
  })
})

describe('a release', () => {
  test('restores owners and rights, keeps all rows, and allows another adoption with the id', async () => {
    const schema = await legacySchema()
    const before = await rights(schema)
    await adopted('leaving', schema)
    await raw((await tenants().handle('leaving')).db, `insert into notes (id, body) values (2, 'new')`)
    published.of('leaving')
    expect(await tenants().release('leaving')).toEqual({
      id: 'leaving',
      isolation: 'schema-pg',
      placement: 'main',
      storage: schema,
    })
    expect(published.of('leaving')).toEqual(['tenants.delete', 'TenantDeleted', 'tenants.release', 'TenantPurged'])
    expect(await rights(schema)).toEqual(before)
    expect(await sql(`select body from ${schema}.notes order by id`)).toEqual([
      { body: `of ${schema}` },
      { body: 'new' },
    ])
    await expect(tenants().get('leaving')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    await expect(tenants().create({ id: 'leaving', name: 'L' })).rejects.toMatchObject({ code: 'E_TENANT_EXISTS' })
    expect(await adopted('leaving', schema)).toMatchObject({ status: 'active' })
    expect((await rowOf('leaving')).epoch).toBe(2)
    await tenants().release('leaving')
    expect(await rights(schema)).toEqual(before)
    expect(await adopted('other-id', schema)).toMatchObject({ status: 'active' })
  })

  test('that was interrupted is completed by the job of the purge, which drops nothing', async () => {
    const schema = await legacySchema()
    const before = await rights(schema)
    await adopted('halfway', schema)
    await whileLocked(`lock table ${schema}.notes in access share mode`, async () => {
      const releasing = tenants().release('halfway')
      releasing.catch(() => undefined)
      await endWaiting('tenantry ddl', 'alter')
      await expect(releasing).rejects.toThrow()
    })
    await expect(tenants().restore('halfway')).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    expect(await tenants().installation.purge('halfway')).toBe(true)
    expect(await rights(schema)).toEqual(before)
    expect(await sql(`select body from ${schema}.notes`)).toEqual([{ body: `of ${schema}` }])
  })

  test('of a tenant that was not adopted is rejected', async () => {
    await environment.tenancy.tenants.create({ id: 'ordinary', name: 'Ordinary' })
    await expect(tenants().release('ordinary')).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    await expect(tenants().release('unknown')).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
  })
})

describe('a request', () => {
  test.each([
    ['without a baseline', { baseline: undefined }, 'baseline'],
    ['with an unknown baseline', { baseline: '0009_none' }, 'baseline'],
    ['without a schema', { schema: undefined }, 'schema'],
    ['with a name of 64 bytes', { schema: 'ä'.repeat(32) }, 'schema'],
    ['for an unknown driver', { isolation: 'none' }, 'isolation'],
  ])('%s is rejected', async (_, change, path) => {
    const wrong = { ...request('wrong', 'legacy_1'), ...change } as ReturnType<typeof request>
    await expect(adoptions().plan(wrong)).rejects.toMatchObject({
      code: 'E_INVALID_REQUEST',
      extras: { errors: [expect.objectContaining({ path })] },
    })
  })

  test('for a driver without adoption is rejected', async () => {
    const other = { ...request('wrong', 'legacy_1'), isolation: 'rowscope-pg' }
    await expect(adoptions().plan(other)).rejects.toMatchObject({ code: 'E_NOT_SUPPORTED' })
  })
})
