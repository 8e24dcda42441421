/** Bulk jobs: results, predictions, permissions, takeover by another process, cancel. */
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { createHttp, type Http } from '../../http/app.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import type { EventOf } from '../../kernel/events/events.ts'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { eventually, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { TenantSuspended } from '../tenant/events.ts'
import { BULK_OPERATIONS } from './input.ts'
import type { BulkJob, BulkResult } from './requests.ts'

const ADMIN = 'token-of-an-admin-0123456789'
const URL_OF = 'http://localhost/admin/multitenancy'
const IDS = ['b1', 'b2', 'b3', 'b4', 'b5']
const PLANS = { defaultPlan: 'free', definitions: { free: { limits: {} }, pro: { limits: {} } } }

let world: TestTenancy<[]>
let http: Http
const changes: (EventOf<typeof ChangeRecorded> & { readonly actor: string })[] = []

beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'), { role: 'api', plans: PLANS })
  http = httpOf(world.tenancy)
  for (const id of [...IDS, 'gone']) await install(id)
  await world.tenancy.tenants.create({ id: 'new', name: 'Not installed' })
  await world.tenancy.tenants.delete('gone')
  world.tenancy.on(ChangeRecorded, (change) => {
    changes.push({ ...change, actor: currentContext().actor.name })
  })
})
beforeEach(async () => {
  await run({ operation: 'tenants.activate', tenantIds: IDS })
  changes.splice(0)
})
afterAll(() => world.end())

async function install(id: string): Promise<void> {
  await world.tenancy.tenants.create({ id, name: id })
  await world.tenancy.tenants.installation.install(id, { isLast: true })
}

const httpOf = (tenancy: Tenancy<[]>) => createHttp(tenancy, { adminTokens: [{ name: 'admin', token: ADMIN }] })
const bulkOf = (tenancy: Tenancy<[]>) =>
  tenancy.operations.find(({ what }) => what.name === 'bulk.start')?.service as import('./bulk.ts').Bulk
const bulk = () => bulkOf(world.tenancy)

async function call(line: string, body?: object, token = ADMIN, headers: Record<string, string> = {}) {
  const [method, path] = line.split(' ')
  const sent = body === undefined ? {} : { body: JSON.stringify(body) }
  const type = { 'x-admin-token': token, 'content-type': 'application/json', ...headers }
  const response = await http.fetch(new Request(URL_OF + path, { method: method ?? '', headers: type, ...sent }))
  return { status: response.status, json: (await response.json()) as any, headers: response.headers }
}

const signal = () => new AbortController().signal
async function run(request: object, token = ADMIN): Promise<BulkJob> {
  const { status, json } = await call('POST /bulk', request, token)
  expect(status, JSON.stringify(json)).toBe(202)
  await bulk().work(json.id, { signal: signal() })
  return bulk().get(json.id)
}
const dryRun = async (request: object): Promise<BulkJob> =>
  (await call('POST /bulk', { ...request, dryRun: true })).json
const resultsOf = async ({ id }: Pick<BulkJob, 'id'>): Promise<Record<string, string>> => {
  const { data } = (await call(`GET /bulk/${id}/results`)).json as { data: BulkResult[] }
  return Object.fromEntries(data.map(({ tenantId, state, code }) => [tenantId, code ?? state]))
}
const statusOf = async (id: string) => (await world.tenancy.tenants.get(id)).status

describe('a bulk job', () => {
  test('stores a result for each tenant, and continues after a failure', async () => {
    await world.tenancy.tenants.suspend('b2')
    const job = await run({ operation: 'tenants.suspend', tenantIds: ['b1', 'b1', 'b2', 'gone', 'new', 'unknown'] })
    expect(job).toMatchObject({
      state: 'completed',
      total: 5,
      done: 1,
      unchanged: 1,
      failed: 3,
      pending: 0,
      skipped: 0,
    })
    expect(await resultsOf(job)).toEqual({
      b1: 'done',
      b2: 'unchanged',
      gone: 'E_TENANT_STATE',
      new: 'E_TENANT_STATE',
      unknown: 'E_TENANT_NOT_FOUND',
    })
    expect(await statusOf('b1')).toBe('suspended')
    const failed = await call(`GET /bulk/${job.id}/results?state=failed&limit=1`)
    expect(failed.json).toMatchObject({ data: [{ tenantId: 'gone', code: 'E_TENANT_STATE' }] })
    expect((await call('GET /bulk?limit=1')).json.data[0]).toEqual(job)
  })

  test('selects tenants by the query of the list, at its start', async () => {
    const { json } = await call('POST /bulk', {
      operation: 'tenants.enterMaintenance',
      filter: { q: 'b', status: 'active' },
      message: 'Soon',
    })
    await install('b6')
    await bulk().work(json.id, { signal: signal() })
    expect(Object.keys(await resultsOf(json))).toEqual(IDS)
    expect((await world.tenancy.tenants.get('b1')).maintenance).toMatchObject({
      message: 'Soon',
      retryAfterSeconds: 60,
    })
    expect(await run({ operation: 'tenants.exitMaintenance', tenantIds: [...IDS, 'b6'] })).toMatchObject({
      done: 5,
      unchanged: 1,
    })
    expect(await run({ operation: 'tenants.delete', tenantIds: ['b6'] })).toMatchObject({ done: 1 })
  })

  test('selects tenants by a member of their metadata', async () => {
    await world.tenancy.tenants.update('b3', { metadata: { crmId: 4711 } })
    const members = { includeDeleted: 'true', inMaintenance: false, createdFrom: '2000-01-01', createdTo: '9000-01-01' }
    const filter = { ...members, 'metadata.crmId': '4711' }
    expect(await resultsOf(await run({ operation: 'tenants.suspend', filter }))).toEqual({ b3: 'done' })
    expect(await statusOf('b1')).toBe('active')
  })

  test('a change is recorded with the caller and the request of the start', async () => {
    const { token } = await world.tenancy.tokens.create({ name: `ann-${Math.random()}`, may: ['admin'] })
    const { json } = await call('POST /bulk', { operation: 'tenants.setPlan', plan: 'pro', tenantIds: ['b1'] }, token, {
      'x-request-id': 'r-1',
    })
    await bulk().work(json.id, { signal: signal() })
    const own = changes.filter(({ action }) => /bulk|setPlan/.test(action))
    expect(own.map(({ action, requestId }) => [action, requestId])).toEqual([
      ['bulk.start', 'r-1'],
      ['tenants.setPlan', 'r-1'],
      ['bulk.complete', 'r-1'],
    ])
    expect(new Set(own.map(({ actor }) => actor))).toEqual(new Set([json.startedBy]))
    expect(json.startedBy).toMatch(/^ann-/)
  })

  test('an activated tenant is served when its result exists', async () => {
    await run({ operation: 'tenants.suspend', tenantIds: ['b1'] })
    await run({ operation: 'tenants.activate', tenantIds: ['b1'] })
    expect((await (await world.tenancy.tenant('b1')).pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })

  test('a listener that rejects the change of one tenant fails only this tenant', async () => {
    const { events } = world.tenancy.kernel
    const stop = events.subscribe(TenantSuspended, 'within', ({ tenantId }) => {
      if (tenantId === 'b2') throw new Error('not this one')
    })
    const job = await run({ operation: 'tenants.suspend', tenantIds: ['b1', 'b2', 'b3'] })
    stop()
    expect(await resultsOf(job)).toEqual({ b1: 'done', b2: 'E_INTERNAL', b3: 'done' })
    expect(await statusOf('b2')).toBe('active')
  })
})

describe('a dry run', () => {
  const PREPARED = [...IDS, 'gone', 'new', 'unknown']

  test.each(BULK_OPERATIONS)('predicts the results of %s, and changes nothing', async (operation) => {
    await world.tenancy.tenants.suspend('b2')
    await world.tenancy.tenants.enterMaintenance('b3', { message: 'Soon' })
    await world.tenancy.tenants.setPlan('b4', 'pro')
    const plan = operation === 'tenants.setPlan' ? { plan: 'pro' } : {}
    const request = { operation, tenantIds: PREPARED, ...plan }
    changes.splice(0)
    const predicted = (await call('POST /bulk', { ...request, dryRun: true })).json
    expect(predicted).toMatchObject({ state: 'completed', dryRun: true, pending: 0 })
    expect(changes).toEqual([])
    await bulk().work(predicted.id, { signal: signal() })
    expect(changes).toEqual([])
    const executed = await run(request)
    expect(await resultsOf(executed)).toEqual(await resultsOf(predicted))
    const counts = ({ total, done, unchanged, failed }: BulkJob) => ({ total, done, unchanged, failed })
    expect(counts(executed)).toEqual(counts(predicted))
    await restoreAll()
  })

  async function restoreAll(): Promise<void> {
    const { tenants } = world.tenancy
    for (const id of IDS) {
      if ((await statusOf(id)) === 'deleted') await tenants.restore(id)
      await tenants.exitMaintenance(id)
      await tenants.setPlan(id, 'free')
    }
    if ((await statusOf('gone')) !== 'deleted') await tenants.delete('gone')
    if ((await statusOf('new')) === 'deleted') await tenants.restore('new')
  }
})

describe('a request', () => {
  test.each([
    [{ operation: 'tenants.suspend' }, 'tenantIds'],
    [{ operation: 'tenants.suspend', tenantIds: ['b1'], filter: {} }, 'tenantIds'],
    [{ operation: 'tenants.suspend', tenantIds: ['b1'], plan: 'pro' }, 'plan'],
    [{ operation: 'tenants.setPlan', tenantIds: ['b1'] }, 'plan'],
    [{ operation: 'tenants.suspend', filter: { colour: 'red' } }, 'colour'],
    [{ operation: 'tenants.suspend', filter: { cursor: 'x' } }, 'cursor'],
    [{ operation: 'tenants.suspend', filter: { q: 'matches nothing' } }, 'filter'],
    [{ operation: 'tenants.suspend', tenantIds: Array.from({ length: 10_001 }, (_, n) => `t${n}`) }, 'tenantIds'],
    [{ operation: 'tenants.erase', tenantIds: ['b1'] }, 'operation'],
  ])('is invalid at a member: %#', async (request, path) => {
    const { status, json } = await call('POST /bulk', request)
    expect(status).toBe(400)
    expect(json.errors[0].path).toBe(path)
  })

  test('a plan that does not exist is rejected at the start', async () => {
    const request = { operation: 'tenants.setPlan', tenantIds: ['b1'], plan: 'none' }
    expect(await call('POST /bulk', request)).toMatchObject({ json: { code: 'E_PLAN_NOT_FOUND' } })
  })

  test('a token needs the permission of the operation, and of the list for a filter', async () => {
    const tokenOf = async (may: string[], tenants?: string[]) =>
      (await world.tenancy.tokens.create({ name: `${may} ${Math.random()}`, may, tenants })).token
    const suspend = { operation: 'tenants.suspend', tenantIds: ['b1'], dryRun: true }
    const forbidden = { status: 403, json: { code: 'E_FORBIDDEN' } }
    expect(await call('POST /bulk', suspend, await tokenOf(['bulk.*']))).toMatchObject(forbidden)
    expect(await call('POST /bulk', suspend, await tokenOf(['admin', '!tenants.suspend']))).toMatchObject(forbidden)
    expect(await call('POST /bulk', suspend, await tokenOf(['admin'], ['b1']))).toMatchObject(forbidden)
    const exact = await tokenOf(['bulk.start', 'tenants.suspend'])
    expect(await call('POST /bulk', suspend, exact)).toMatchObject({ status: 202 })
    const filter = { operation: 'tenants.suspend', filter: {}, dryRun: true }
    expect(await call('POST /bulk', filter, exact)).toMatchObject(forbidden)
  })
})

describe('the end of a job', () => {
  test('a job ends when the token of its start is revoked', async () => {
    const { id, token } = await world.tenancy.tokens.create({ name: `bob-${Math.random()}`, may: ['admin'] })
    const { json } = await call('POST /bulk', { operation: 'tenants.suspend', tenantIds: ['b1'] }, token)
    await world.tenancy.tokens.delete(id)
    await bulk().work(json.id, { signal: signal() })
    const job = await bulk().get(json.id)
    expect(job).toMatchObject({ state: 'cancelled', done: 0, skipped: 1, failure: { code: 'E_FORBIDDEN' } })
    expect(await statusOf('b1')).toBe('active')
  })

  test('a cancelled job changes no further tenant, and keeps its results', async () => {
    const { json } = await call('POST /bulk', { operation: 'tenants.suspend', tenantIds: IDS })
    const stop = world.tenancy.on(TenantSuspended, async ({ tenantId }) => {
      if (tenantId === 'b2') await bulk().cancel(json.id)
    })
    await bulk().work(json.id, { signal: signal() })
    stop()
    await eventually(async () => expect((await bulk().get(json.id)).state).toBe('cancelled'))
    const { done, skipped, pending } = await bulk().get(json.id)
    expect([done + skipped, pending]).toEqual([5, 0])
    expect(skipped).toBeGreaterThan(0)
    expect(await resultsOf(json)).toMatchObject({ b1: 'done', b2: 'done', b5: 'skipped' })
    expect(await statusOf('b5')).toBe('active')
    expect(await call(`DELETE /bulk/${json.id}`)).toMatchObject({ status: 409, json: { code: 'E_BULK_ENDED' } })
  })

  test('an aborted worker leaves the rest to another process, which changes no tenant twice', async () => {
    const { json } = await call('POST /bulk', { operation: 'tenants.suspend', tenantIds: IDS })
    const aborted = new AbortController()
    const suspended: string[] = []
    const note = ({ tenantId }: { tenantId: string }) => {
      suspended.push(tenantId)
      if (suspended.length === 2) aborted.abort()
    }
    const other = await world.open()
    const stops = [world.tenancy, other].map((one) => one.kernel.events.subscribe(TenantSuspended, 'within', note))
    await expect(bulk().work(json.id, { signal: aborted.signal })).rejects.toThrow()
    expect(await bulk().get(json.id)).toMatchObject({ state: 'pending', done: 2, pending: 3 })
    await Promise.all([bulkOf(other).work(json.id, { signal: signal() }), bulk().work(json.id, { signal: signal() })])
    for (const stop of stops) stop()
    expect(await bulk().get(json.id)).toMatchObject({ state: 'completed', done: 5 })
    expect(suspended).toEqual(IDS)
  })

  test('a worker whose lease another worker has taken over changes nothing more', async () => {
    const { json } = await call('POST /bulk', { operation: 'tenants.suspend', tenantIds: IDS })
    const other = await world.open()
    const suspended: string[] = []
    let takeover: Promise<void> | undefined
    const stops = [world.tenancy, other].map((one) =>
      one.kernel.events.subscribe(TenantSuspended, 'within', ({ tenantId }) => void suspended.push(tenantId)),
    )
    const stop = world.tenancy.on(TenantSuspended, async () => {
      if (takeover) return
      await world.tenancy.kernel.database.sql(
        `update multitenancy.bulk_jobs set lease_until = now() - interval '1 s' where id = $1`,
        [json.id],
      )
      takeover = bulkOf(other).work(json.id, { signal: signal() })
    })
    await bulk().work(json.id, { signal: signal(), leaseMs: 1 })
    await eventually(async () => expect((await bulk().get(json.id)).state).toBe('completed'))
    await takeover
    for (const one of [stop, ...stops]) one()
    expect(suspended.toSorted()).toEqual(IDS)
    expect(await bulk().get(json.id)).toMatchObject({ done: 5, failed: 0 })
  })

  test('the recovery sends lost jobs again, and deletes those that ended 90 days ago', async () => {
    const { json } = await call('POST /bulk', { operation: 'tenants.suspend', tenantIds: ['b1'] })
    const old = await run({ operation: 'tenants.suspend', tenantIds: ['b1'] })
    const { database } = world.tenancy.kernel
    await database.sql(`delete from multitenancy_jobs.job where name = 'tenantry.RunBulk'`)
    await database.sql(`update multitenancy.bulk_jobs set lease_until = now() - interval '1 hour' where id = $1`, [
      json.id,
    ])
    await database.sql(`update multitenancy.bulk_jobs set finished_at = now() - interval '91 days' where id = $1`, [
      old.id,
    ])
    await bulk().recover()
    const worker = await world.open({ role: 'all' })
    await eventually(async () => expect((await bulk().get(json.id)).state).toBe('completed'))
    await worker.stop()
    await expect(bulk().get(old.id)).rejects.toMatchObject({ code: 'E_BULK_NOT_FOUND' })
  })

  test('the recovery deletes dry runs that ended a day ago, and keeps other jobs', async () => {
    const request = { operation: 'tenants.suspend', tenantIds: ['b1'] } as const
    const [recent, dry, real] = [await dryRun(request), await dryRun(request), await run(request)]
    await world.tenancy.kernel.database.sql(
      `update multitenancy.bulk_jobs set finished_at = now() - interval '25 hours' where id = any($1::uuid[])`,
      [[dry.id, real.id]],
    )
    await bulk().recover()
    await expect(bulk().get(dry.id)).rejects.toMatchObject({ code: 'E_BULK_NOT_FOUND' })
    for (const { id } of [recent, real]) expect(await bulk().get(id)).toMatchObject({ id })
  })

  test('a purge deletes the results of the tenant', async () => {
    await install('purged')
    const job = await run({ operation: 'tenants.delete', tenantIds: ['purged', 'b1'] })
    await world.tenancy.tenants.restore('b1')
    await world.tenancy.kernel.database.sql(
      `update multitenancy.tenants set purge_at = now() - interval '1 s' where id = 'purged'`,
    )
    await world.tenancy.tenants.installation.purge('purged')
    expect(await resultsOf(job)).toEqual({ b1: 'done' })
    expect(await bulk().get(job.id)).toMatchObject({ total: 2, done: 2 })
  })
})

test('Prefer: wait responds when the job has ended', async () => {
  const worker = await world.open({ role: 'all' })
  const request = { operation: 'tenants.suspend', tenantIds: ['b1', 'b2'] }
  const { status, json } = await call('POST /bulk', request, ADMIN, { prefer: 'wait=30' })
  await worker.stop()
  expect(status).toBe(200)
  expect(json).toMatchObject({ state: 'completed', done: 2 })
})
