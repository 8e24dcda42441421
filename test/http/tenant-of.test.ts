/** The tenant that one of several guards has admitted, on every framework. */
import { createServer } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import * as onExpress from '../../src/http/hosts/express.ts'
import * as onFastify from '../../src/http/hosts/fastify.ts'
import * as onHono from '../../src/http/hosts/hono.ts'
import * as onKoa from '../../src/http/hosts/koa.ts'
import * as onNest from '../../src/http/hosts/nestjs.ts'
import * as onWeb from '../../src/http/hosts/web.ts'
import type { Guard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import { type Host, listening } from './hosts.ts'
import { send } from './served.ts'

let opened: TestTenancy<[]>
/** Each admits the requests below its own path with a tenant. */
let notes: Guard
let orders: Guard

beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'))
  const { tenancy } = opened
  await installed(tenancy, { id: 'acme', name: 'Acme' })
  const guardOf = (ignored: string) =>
    tenancy.guard({ resolve: fromHeader('x-tenant'), authorize: 'anyone', ignore: [ignored] })
  notes = guardOf('/orders')
  orders = guardOf('/notes')
})
afterAll(() => opened.end())

type TenantOf = (guard: Guard) => { readonly id: string }

/** The id of the tenant, or the code of the error, for each guard. */
const found = (tenantOf: TenantOf) =>
  Object.fromEntries(
    Object.entries({ notes, orders }).map(([name, guard]) => {
      try {
        return [name, tenantOf(guard).id]
      } catch (error) {
        return [name, (error as { code: string }).code]
      }
    }),
  )

const hosts: Readonly<Record<string, () => Promise<Host>>> = {
  express() {
    const app = express().use(onExpress.guard(notes), onExpress.guard(orders))
    app.use((request, response) => void response.json(found((guard) => onExpress.tenantOf(request, guard))))
    return listening(createServer(app))
  },
  async fastify() {
    const app = fastify()
    await app.register(onFastify.guard(notes))
    await app.register(onFastify.guard(orders))
    app.get('/:any', async (request) => found((guard) => onFastify.tenantOf(request, guard)))
    await app.ready()
    return listening(app.server)
  },
  koa() {
    const app = new Koa().use(onKoa.guard(notes) as Koa.Middleware).use(onKoa.guard(orders) as Koa.Middleware)
    app.use((context) => {
      context.body = found((guard) => onKoa.tenantOf(context, guard))
    })
    return listening(createServer(app.callback()))
  },
  hono() {
    const app = new Hono().use(onHono.guard(notes)).use(onHono.guard(orders))
    app.get('/:any', (context) => context.json(found((guard) => onHono.tenantOf(context, guard))))
    return listening(createAdaptorServer({ fetch: app.fetch }) as ReturnType<typeof createServer>)
  },
  nestjs() {
    const app = express().use(onNest.guard(notes), onNest.guard(orders))
    app.use((request, response) => {
      const ofFastify = { raw: request }
      const both = [request, ofFastify].map((from) => found((guard) => onNest.tenantOf(from, guard)))
      expect(both[1]).toEqual(both[0])
      response.json(both[0])
    })
    return listening(createServer(app))
  },
  'web standard'() {
    const handler = onWeb.guardFetch(
      notes,
      onWeb.guardFetch(orders, async (request) =>
        Response.json(found((guard) => onWeb.tenantOf(request, guard))),
      ) as () => Promise<Response>,
    )
    return listening(createAdaptorServer({ fetch: handler }) as ReturnType<typeof createServer>)
  },
}

describe.each(Object.entries(hosts))('%s', (_, open) => {
  let host: Host
  beforeAll(async () => {
    host = await open()
  })
  afterAll(() => host?.close())

  test('tenantOf returns the tenant that the guard has admitted, and throws on its ignored paths', async () => {
    const call = async (path: string) => {
      const { json } = await send(host.origin, `GET ${path}`, { headers: { 'x-tenant': 'acme' } })
      return json
    }
    expect(await call('/notes')).toEqual({ notes: 'acme', orders: 'E_TENANT_MISMATCH' })
    expect(await call('/orders')).toEqual({ notes: 'E_TENANT_MISMATCH', orders: 'acme' })
    expect(await call('/both')).toEqual({ notes: 'acme', orders: 'acme' })
  })
})
