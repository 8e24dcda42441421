/** Jobs of a host on real queues: BullMQ on Redis, pg-boss on PostgreSQL. */
import { randomUUID } from 'node:crypto'
import { Queue, QueueEvents, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { PgBoss } from 'pg-boss'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { currentContext, runInContext } from '../../kernel/base/context.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { eventually, installed, type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { TenantInMaintenance, TenantNotFound } from '../tenant/errors.ts'
import type { JobOptions } from './job.ts'

interface Ran {
  readonly tenant: string | undefined
  readonly context: unknown
  readonly to: unknown
}

const ANN = { type: 'user', id: 'u1', name: 'Ann' } as const
const SENDER = { requestId: 'r-1', actor: ANN }

let world: TestTenancy<[]>
const logged: string[] = []
beforeAll(async () => {
  const logger = createLogger({ level: 'warn', write: (line) => void logged.push(line) })
  world = await testTenancy(inject('postgresUrl'), { logger })
  for (const id of ['acme', 'asleep', 'gone', 'busy']) await installed(world.tenancy, { id, name: id })
  const { tenants } = world.tenancy
  await tenants.suspend('asleep')
  await tenants.delete('gone')
  await tenants.enterMaintenance('busy')
})
afterAll(() => world.end())
beforeEach(() => void logged.splice(0))

/** Data as a former request of the tenant has sent it. */
const sent = (tenantId: string) => ({ to: 'ann', $tenantry: { tenantId, requestId: 'r-1', actor: ANN } })

describe('carry', () => {
  test('adds tenant, request id and actor of the context, and replaces a given $tenantry', async () => {
    const { tenancy } = world
    const data = await runInContext(SENDER, () =>
      tenancy.run('acme', () => tenancy.carry({ to: 'ann', $tenantry: { tenantId: 'globex' } })),
    )
    expect(JSON.parse(JSON.stringify(data))).toEqual({ to: 'ann', $tenantry: { tenantId: 'acme', ...SENDER } })
    expect(tenancy.carry({}).$tenantry.tenantId).toBeNull()
  })
})

describe('job', () => {
  const job = (options?: JobOptions) =>
    world.tenancy.job(async ({ data }: { data: unknown }, tenant) => ({ data, tenant: tenant.id }), options as object)

  test.each([
    ['no data', undefined],
    ['data without $tenantry', { to: 'ann' }],
    ['no tenant', { $tenantry: { tenantId: null, requestId: null, actor: ANN } }],
  ])('rejects %s', async (_, data) => {
    await expect(job()({ data })).rejects.toMatchObject({
      code: 'E_TENANT_NOT_IDENTIFIED',
      name: 'UnrecoverableError',
    })
  })

  test.each([
    ['a tenant only', { tenantId: 'acme' }],
    ['an unknown type of actor', { ...sent('acme').$tenantry, actor: { ...ANN, type: 'root' } }],
    ['an empty tenant', sent('').$tenantry],
    ['null', null],
  ])('rejects %s as $tenantry, also with central, so that the queue repeats the job', async (_, $tenantry) => {
    const central = world.tenancy.job(async () => 'done', { central: true })
    for (const handler of [job(), central]) {
      const error = await handler({ data: { $tenantry } }).catch((reason) => reason)
      expect(error).toMatchObject({ code: 'E_TENANT_NOT_IDENTIFIED' })
      expect(error.name).not.toBe('UnrecoverableError')
    }
  })

  test('cuts long texts of $tenantry, and ignores an invalid trace', async () => {
    const long = 'x'.repeat(1_000)
    const handler = world.tenancy.job(async () => currentContext())
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const carried = { tenantId: 'acme', requestId: long, actor: { type: 'user', id: long, name: long } }
    const cut = long.slice(0, 256)
    const context = { requestId: cut, actor: { type: 'user', id: cut, name: cut } }
    for (const invalid of ['no trace', `${traceparent}\n`, 1]) {
      const ran = await handler({ data: { $tenantry: { ...carried, traceparent: invalid } } })
      expect(ran).toMatchObject({ ...context, traceparent: undefined })
    }
    expect(await handler({ data: { $tenantry: { ...carried, traceparent } } })).toMatchObject({
      ...context,
      traceparent,
    })
  })

  test('accepts data without a tenant with central, and runs it without a tenant', async () => {
    const { tenancy } = world
    const central = tenancy.job(async (_job: object, tenant) => [tenant?.id, currentContext().tenantId], {
      central: true,
    })
    expect(await central({ data: { to: 'ann' } })).toEqual([undefined, null])
    expect(await central({ data: sent('acme') })).toEqual(['acme', 'acme'])
    expect(await tenancy.run('acme', () => central({ data: {} }))).toEqual([undefined, null])
  })

  test('skips jobs of suspended, deleted and unknown tenants, and logs them', async () => {
    for (const id of ['asleep', 'gone', 'never', '../acme']) expect(await job()({ data: sent(id) })).toBeUndefined()
    expect(logged.map((line) => JSON.parse(line)).map(({ tenantId, code }) => [tenantId, code])).toEqual([
      ['asleep', 'E_TENANT_SUSPENDED'],
      ['gone', 'E_TENANT_NOT_FOUND'],
      ['never', 'E_TENANT_NOT_FOUND'],
      ['../acme', 'E_TENANT_NOT_FOUND'],
    ])
  })

  test('rejects invalid and unknown options', () => {
    for (const [name, value] of Object.entries({ onUnusable: 'never', central: 1, data: 'data', centrl: true })) {
      const invalid = { code: 'E_INVALID_REQUEST', message: expect.stringContaining(name) }
      expect(() => job({ [name]: value } as object)).toThrow(expect.objectContaining(invalid))
    }
  })

  test('rejects jobs of suspended and unknown tenants with onUnusable: retry', async () => {
    const retrying = job({ onUnusable: 'retry' })
    await expect(retrying({ data: sent('asleep') })).rejects.toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    await expect(retrying({ data: sent('never') })).rejects.toMatchObject({ code: 'E_TENANT_NOT_FOUND' })
    expect(logged).toEqual([])
  })

  test('rejects a job of a tenant in maintenance, so that the queue repeats it', async () => {
    await expect(job()({ data: sent('busy') })).rejects.toThrow(TenantInMaintenance)
  })

  test('rejects with an error of the handler about another tenant', async () => {
    const handler = world.tenancy.job(() => world.tenancy.tenants.get('other'))
    await expect(handler({ data: sent('acme') })).rejects.toThrow(TenantNotFound)
  })

  test('skips the rest of a job whose tenant is suspended while it runs', async () => {
    const { tenancy } = world
    await installed(tenancy, { id: 'late', name: 'Late' })
    const handler = tenancy.job(async (_job: object, tenant) => {
      await tenancy.withoutTenant(() => tenancy.tenants.suspend('late'))
      await tenant.pool.query('select 1').catch((driverError) => {
        throw Object.assign(new Error('select 1 failed'), { driverError }) // as TypeORM
      })
    })
    expect(await handler({ data: sent('late') })).toBeUndefined()
    expect(logged.map((line) => JSON.parse(line).code)).toEqual(['E_TENANT_SUSPENDED'])
  })

  test('reads the carried context where the option data finds it, and passes further arguments on', async () => {
    const handler = world.tenancy.job(
      async (_one: { body: object }, tenant, token: string, tries: number) => [tenant.id, token, tries],
      { data: ({ body }) => body },
    )
    expect(await handler({ body: sent('acme') }, 'token', 3)).toEqual(['acme', 'token', 3])
  })
})

describe('BullMQ', () => {
  const closing: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  /** A queue with a worker; returns how to send a job and await its result. */
  async function opened(handler: (job: any, ...rest: any[]) => Promise<unknown>) {
    const name = `mail-${randomUUID()}`
    const connect = () => {
      const redis = new Redis(inject('redisUrl'), { maxRetriesPerRequest: null })
      closing.push(async () => redis.disconnect())
      return redis
    }
    const queue = new Queue(name, { connection: connect() }).setMaxListeners(0)
    const events = new QueueEvents(name, { connection: connect() })
    const worker = new Worker(name, handler, { connection: connect(), concurrency: 8 })
    closing.push(() => queue.obliterate({ force: true }).then(() => queue.close()))
    closing.push(
      () => events.close(),
      () => worker.close(),
    )
    await Promise.all([events.waitUntilReady(), worker.waitUntilReady()])
    const send = async (data: object, attempts = 1) => {
      const job = await queue.add('mail', data, { attempts })
      const result = await job.waitUntilFinished(events).catch((error: Error) => error.message)
      return { result, attemptsMade: (await queue.getJob(job.id as string))?.attemptsMade }
    }
    return send
  }

  test('a job runs in the context of its sender', async () => {
    const { tenancy } = world
    const handler = tenancy.job(async ({ data }: { data: { to: string } }, tenant): Promise<Ran> => {
      await tenant.pool.query('select 1')
      return { tenant: (await tenancy.current()).id, context: currentContext(), to: data.to }
    })
    const send = await opened(handler)
    const data = await runInContext({ ...SENDER, ip: '203.0.113.9' }, () =>
      tenancy.run('acme', () => tenancy.carry({ to: 'ann' })),
    )
    expect((await send(data)).result).toEqual({
      tenant: 'acme',
      context: { ...SENDER, ip: null, tenantId: 'acme' },
      to: 'ann',
    })
  })

  test('jobs of several tenants run concurrently, each in its own context', async () => {
    const { tenancy } = world
    await installed(tenancy, { id: 'globex', name: 'Globex' })
    const send = await opened(
      tenancy.job(async (_job, { pool }) => {
        await pool.query('select pg_sleep(0.01)')
        return (await tenancy.current()).id
      }),
    )
    const ids = Array.from({ length: 20 }, (_, n) => (n % 2 ? 'acme' : 'globex'))
    const results = await Promise.all(ids.map(async (id) => (await send(sent(id))).result))
    expect(results).toEqual(ids)
  })

  test('a job without $tenantry fails in its first attempt, and a skipped job completes', async () => {
    const send = await opened(world.tenancy.job(async () => 'done'))
    expect(await send({ to: 'ann' }, 3)).toEqual({
      result: 'The data of the job has no $tenantry. Send it with tenancy.carry(data).',
      attemptsMade: 1,
    })
    expect(await send(sent('asleep'), 3)).toEqual({ result: null, attemptsMade: 1 })
  })

  test('a job of a suspended tenant is repeated with onUnusable: retry', async () => {
    const send = await opened(world.tenancy.job(async () => 'done', { onUnusable: 'retry' }))
    expect(await send(sent('asleep'), 3)).toEqual({ result: 'The tenant is suspended.', attemptsMade: 3 })
  })
})

describe('pg-boss', () => {
  test('jobs run in the context of their sender; those without $tenantry fail, and skipped ones complete', async () => {
    const { tenancy, url } = world
    const boss = new PgBoss({ connectionString: url, schema: 'host_jobs', supervise: false, schedule: false })
    await boss.start()
    try {
      await boss.createQueue('mail', { retryLimit: 0 })
      const handle = tenancy.job(async (_job: { data: unknown }, tenant) => {
        await tenant.pool.query('select 1')
        return { tenant: (await tenancy.current()).id, actor: currentContext().actor }
      })
      await boss.work('mail', { pollingIntervalSeconds: 0.5 }, async ([job]) => (job ? handle(job) : undefined))
      const data = await runInContext(SENDER, () => tenancy.run('acme', () => tenancy.carry({ to: 'ann' })))
      const ids = [await boss.send('mail', data), await boss.send('mail', {}), await boss.send('mail', sent('gone'))]
      const ended = await eventually(async () => {
        const jobs = await Promise.all(ids.map(async (id) => (await boss.findJobs('mail', { id: id as string }))[0]))
        expect(jobs.map((job) => job?.state)).toEqual(['completed', 'failed', 'completed'])
        return jobs
      })
      expect(ended[0]?.output).toEqual({ tenant: 'acme', actor: ANN })
    } finally {
      await boss.stop({ graceful: false })
    }
  })
})
