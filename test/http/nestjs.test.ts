/** The guard of NestJS with routes that NestJS maps to other paths, and without its module. */
import { Controller, Get, Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { FastifyInstance } from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { guard as fastifyGuard } from '../../src/http/hosts/fastify.ts'
import { CurrentTenant } from '../../src/http/hosts/nestjs.ts'
import { createGuard } from '../../src/tenants/guard/guard.ts'
import { fromHeader } from '../../src/tenants/guard/strategies.ts'
import { installed, type TestTenancy, testTenancy } from '../../src/testing/base/tenancy.ts'
import type { Host } from './hosts.ts'
import { type NestSetup, nestOnExpress, nestOnFastify } from './nest-application.ts'
import { send } from './served.ts'

let world: TestTenancy<[]>
let host: Host
beforeAll(async () => {
  world = await testTenancy(inject('postgresUrl'))
  await installed(world.tenancy, { id: 'acme', name: 'Acme' })
})
afterAll(() => world.end())
afterEach(() => host.close())

describe.each([
  ['Express', nestOnExpress],
  ['Fastify', nestOnFastify],
])('NestJS on %s', (_, open) => {
  const route = (path: string): NestSetup['routes'][number] => ({
    method: 'GET',
    path,
    needsTenant: true,
    handle: ({ tenant }) => ({ tenant: tenant?.id }),
  })
  const moduleOf = () => ({
    tenancy: world.tenancy,
    guard: createGuard(world.tenancy.tenants, { resolve: fromHeader(), authorize: 'anyone' }),
  })
  const get = (path: string, tenant?: string) =>
    send(host.origin, `GET ${path}`, { headers: tenant ? { 'x-tenant-id': tenant } : {} })

  test('the guard covers routes with a global prefix, and those that are excluded from it', async () => {
    const before: NestSetup['before'] = (app) => app.setGlobalPrefix('api', { exclude: ['open'] })
    host = await open({ routes: [route('notes'), route('open')], module: moduleOf(), before })
    for (const path of ['/api/notes', '/open', '/api/never', '/']) {
      expect((await get(path)).json.code).toBe('E_TENANT_NOT_IDENTIFIED')
    }
    for (const path of ['/api/notes', '/open']) expect((await get(path, 'acme')).json).toEqual({ tenant: 'acme' })
    expect((await get('/notes', 'acme')).status).toBe(404)
  })

  test('a route without a guard has no tenant', async () => {
    host = await open({ routes: [route('notes')], module: undefined })
    expect((await get('/notes', 'acme')).status).toBe(500)
  })
})

test('routes of a plugin on Fastify have the guard of tenantry/fastify', async () => {
  const by = createGuard(world.tenancy.tenants, { resolve: fromHeader(), authorize: 'anyone' })
  const before: NestSetup['before'] = async (app) => {
    const fastify = app.getHttpAdapter().getInstance() as FastifyInstance
    fastify.get('/root', async () => 'root')
    await fastify.register(async (plugin) => {
      await plugin.register(fastifyGuard(by))
      plugin.get('/plugin', async (request) => request.tenant.id)
    })
  }
  host = await nestOnFastify({ routes: [], module: { tenancy: world.tenancy, guard: by }, before })
  for (const path of ['/root', '/plugin']) {
    expect((await send(host.origin, `GET ${path}`)).json.code).toBe('E_TENANT_NOT_IDENTIFIED')
  }
  expect((await send(host.origin, 'GET /plugin', { headers: { 'x-tenant-id': 'acme' } })).body).toBe('acme')
})

test('the parameter of a tenant is a decorator of NestJS', async () => {
  class Routes {
    list(tenant: unknown) {
      return tenant ?? 'none'
    }
  }
  CurrentTenant({ optional: true })(Routes.prototype, 'list', 0)
  Get()(Routes.prototype, 'list', Object.getOwnPropertyDescriptor(Routes.prototype, 'list') as PropertyDescriptor)
  Controller('plain')(Routes)
  class Application {}
  Module({ controllers: [Routes] })(Application)
  const app = await NestFactory.create(Application, { logger: false })
  await app.listen(0, '127.0.0.1')
  host = { origin: await app.getUrl(), close: () => app.close() }
  expect((await send(host.origin, 'GET /plain')).body).toBe('none')
})
