/**
 * Quotas on routes of a host, specific to each framework: parsed bodies, the framework's own responses, timeouts of the
 * host.
 */
import { createServer, type Server } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { memoryStore } from '../../src/drivers/store/memory.ts'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onNode from '../../src/http/hosts/node.ts'
import { quotas } from '../../src/satellites/quotas/index.ts'
import { eventually, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { codeOf, customer, guardOf, PLANS, type WithQuotas } from './quotas-suite.ts'
import { send } from './served.ts'

describe('specific to one framework', () => {
  let host: Host
  let made: TestTenancy<[ReturnType<typeof quotas>]>
  let tenancy: WithQuotas
  let id: string

  beforeAll(async () => {
    made = await testTenancy(inject('postgresUrl'), {
      store: memoryStore(),
      plans: PLANS,
      satellites: [quotas()],
      role: 'api',
    })
    tenancy = made.tenancy
  })
  beforeEach(async () => {
    id = await customer(tenancy)
  })
  afterEach(() => host?.close())
  afterAll(() => made?.end())

  const postJson = (path: string, body: unknown) =>
    send(host.origin, `POST ${path}`, { headers: { 'x-tenant-id': id }, body })

  test('Express: the amount function reads a body that was parsed before', async () => {
    const app = express()
    app.use(onExpress.guard(guardOf(tenancy)), express.json())
    const byRows = onExpress.enforceQuota(tenancy.quotas, 'bytes', { amount: ({ body }) => body.rows.length })
    app.post('/rows', byRows, ({ body }, response) => void response.json(body))
    host = await listening(createServer(app))
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
  })

  test('Fastify: the amount function reads the body before the handler', async () => {
    const app = fastify()
    await app.register(onFastify.guard(guardOf(tenancy)))
    const byRows = onFastify.enforceQuota(tenancy.quotas, 'bytes', {
      amount: ({ body }) => (body as { rows: unknown[] }).rows.length,
    })
    app.post('/rows', { preHandler: byRows }, async ({ body }) => body)
    host = { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
    expect(codeOf(await postJson('/rows', { rows: Array(998).fill(0) }))).toEqual([429, 'E_TENANT_QUOTA_EXCEEDED'])
  })

  test('Hono: the amount function reads the body, and the handler reads it again', async () => {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guardOf(tenancy)))
    const byRows = onHono.enforceQuota(tenancy.quotas, 'bytes', {
      amount: async ({ req }) => (await req.json()).rows.length,
    })
    app.post('/rows', byRows, async (context) => context.json(await context.req.json()))
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
    const { json, headers } = await postJson('/rows', { rows: [1, 2, 3] })
    expect(json).toEqual({ rows: [1, 2, 3] })
    expect(headers.ratelimit).toMatch(/^"bytes";r=997;/)
  })

  test('Hono: a Response of the handler has the quota headers', async () => {
    const app = new Hono<onHono.GuardedEnv>()
    app.use(onHono.guard(guardOf(tenancy)))
    app.post('/own', onHono.enforceQuota(tenancy.quotas, 'exports'), () => new Response('own', { status: 202 }))
    host = await listening(createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server)
    const { status, body, headers } = await postJson('/own', {})
    expect([status, body]).toEqual([202, 'own'])
    expect(headers).toMatchObject({ 'ratelimit-policy': '"exports";q=3;w=86400', 'x-request-id': expect.any(String) })
    expect(headers.ratelimit).toMatch(/^"exports";r=2;/)
  })

  test.each(['fits', 'is rejected'])(
    'Express: a request that %s after the host’s timeout has responded does not run its route',
    async (how) => {
      const app = express()
      app.use(onExpress.guard(guardOf(tenancy)))
      let wasRun = false
      app.post(
        '/slow',
        (_, response, next) => {
          next()
          response.status(504).send('too late')
        },
        onExpress.enforceQuota(tenancy.quotas, 'exports', { amount: how === 'fits' ? 1 : 1_000_000 }),
        () => {
          wasRun = true
        },
      )
      host = await listening(createServer(app))
      expect(await postJson('/slow', {})).toMatchObject({ status: 504, body: 'too late' })
      // The decision has been made, and the route would have run in the same tick.
      await eventually(async () => expect(await tenancy.quotas.getUsage(id, 'exports')).toBe(how === 'fits' ? 1 : 0))
      await tenancy.quotas.alerts.settled()
      expect(wasRun).toBe(false)
    },
  )

  test('Node: a listener does not run after the host’s timeout has responded', async () => {
    let wasRun = false
    const guarded = onNode.guard(
      guardOf(tenancy),
      onNode.enforceQuota(tenancy.quotas, 'exports', () => {
        wasRun = true
      }),
    )
    const ended = Promise.withResolvers<unknown>()
    host = await listening(
      createServer((incoming, outgoing) => {
        guarded(incoming, outgoing).then(ended.resolve, ended.reject)
        outgoing.writeHead(504).end('too late')
      }),
    )
    expect((await postJson('/slow', {})).status).toBe(504)
    expect(await ended.promise).toBeUndefined()
    expect(wasRun).toBe(false)
  })

  test.each([
    ['an invalid name', 'no such name!', 1],
    ['a negative amount', 'exports', -1],
    ['an amount that is not a number', 'exports', Number.NaN],
  ])('%s is rejected when the route is created', (_, quota, amount) => {
    for (const { enforceQuota } of [onExpress, onFastify, onHono]) {
      expect(() => enforceQuota(tenancy.quotas, quota, { amount })).toThrow(
        expect.objectContaining({ code: 'E_INVALID_REQUEST' }),
      )
    }
    expect(() => onNode.enforceQuota(tenancy.quotas, quota, () => undefined, { amount })).toThrow(
      expect.objectContaining({ code: 'E_INVALID_REQUEST' }),
    )
  })
})
