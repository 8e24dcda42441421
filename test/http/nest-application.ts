/** Applications of NestJS whose decorators are called as functions: the type stripping of Node.js has no decorators. */
import {
  All,
  Controller,
  Delete,
  type ExceptionFilter,
  Get,
  Module,
  type NestApplicationOptions,
  Patch,
  Post,
  Put,
  Req,
  Res,
  type Type,
  UseGuards,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import type { FastifyInstance } from 'fastify'
import {
  CurrentImpersonation,
  CurrentTenant,
  TenantryModule,
  type TenantryModuleOptions,
} from '../../src/http/hosts/nestjs.ts'
import type { ActiveImpersonation } from '../../src/kernel/base/context.ts'
import type { Tenant } from '../../src/tenants/handles/handle.ts'
import type { Host } from './hosts.ts'

export interface NestCalled {
  /** Of Express or Fastify. */
  readonly request: any
  readonly response: any
  readonly tenant: Tenant | undefined
  readonly impersonation: ActiveImpersonation | undefined
}

export interface NestRoute {
  readonly method: string
  readonly path: string
  /** Its result is the body. */
  readonly handle: (called: NestCalled) => unknown
  /** Guards of NestJS, such as `enforceQuota`. */
  readonly guards?: readonly Parameters<typeof UseGuards>[number][]
  /** Whether the parameter is `@CurrentTenant()`, which throws without a tenant. */
  readonly needsTenant?: boolean
  /** Whether the handler responds itself. */
  readonly responds?: boolean
}

export interface NestSetup {
  readonly routes: readonly NestRoute[]
  /** Absent: the host has forgotten the guard. */
  readonly module: TenantryModuleOptions | undefined
  readonly filters?: readonly ExceptionFilter[]
  /** Whether NestJS parses bodies; default true. */
  readonly bodyParser?: boolean
  /** Calls `app.use` before the application starts. */
  readonly before?: (app: NestExpressApplication | NestFastifyApplication) => unknown
}

/** A path for every path. The two servers spell it differently. */
export const EVERY_PATH = '*path'

const METHODS: Readonly<Record<string, (path: string) => MethodDecorator>> = {
  GET: Get,
  POST: Post,
  PUT: Put,
  PATCH: Patch,
  DELETE: Delete,
  ALL: All,
}
const optionsOf = ({ bodyParser = true }: NestSetup): NestApplicationOptions => ({
  logger: false,
  abortOnError: false,
  bodyParser,
})

export const nestOnExpress = async (setup: NestSetup): Promise<Host> => {
  const app = await NestFactory.create<NestExpressApplication>(moduleOf(setup), new ExpressAdapter(), optionsOf(setup))
  return started(app, setup)
}

export const nestOnFastify = async (given: NestSetup): Promise<Host> => {
  const routes = given.routes.map((route) => (route.path === EVERY_PATH ? { ...route, path: '*' } : route))
  const setup = { ...given, routes }
  const app = await NestFactory.create<NestFastifyApplication>(moduleOf(setup), new FastifyAdapter(), optionsOf(setup))
  return started(app, setup)
}

/** Lets routes receive every body but JSON as text. */
export function readText(app: NestExpressApplication | NestFastifyApplication): void {
  const adapter = app.getHttpAdapter()
  if (adapter.getType() === 'express') (app as NestExpressApplication).useBodyParser('text', { type: '*/*' })
  else
    (adapter.getInstance() as FastifyInstance).addContentTypeParser(
      '*',
      { parseAs: 'string' },
      async (_: unknown, body: string) => body,
    )
}

async function started(app: NestExpressApplication | NestFastifyApplication, setup: NestSetup): Promise<Host> {
  await setup.before?.(app)
  app.useGlobalFilters(...(setup.filters ?? []))
  await app.listen(0, '127.0.0.1')
  return {
    origin: await app.getUrl(),
    async close() {
      const server = app.getHttpServer() as { closeAllConnections(): void }
      const closed = app.close()
      server.closeAllConnections()
      await closed
    },
  }
}

function moduleOf({ routes, module }: NestSetup): Type {
  const imports = module ? [TenantryModule.forRoot(module)] : []
  class Application {}
  Module({ imports, controllers: routes.map(controllerOf) })(Application)
  return Application
}

/** A controller with one route. */
function controllerOf({ method, path, handle, guards = [], needsTenant = false, responds = false }: NestRoute): Type {
  class OneRoute {
    call(request: any, tenant: Tenant | undefined, active: ActiveImpersonation | undefined, response: any) {
      return handle({ request, response, tenant, impersonation: active })
    }
  }
  const { prototype } = OneRoute
  Req()(prototype, 'call', 0)
  CurrentTenant({ optional: !needsTenant })(prototype, 'call', 1)
  CurrentImpersonation()(prototype, 'call', 2)
  Res({ passthrough: !responds })(prototype, 'call', 3)
  const descriptor = Object.getOwnPropertyDescriptor(prototype, 'call') as PropertyDescriptor
  METHODS[method]?.(path)(prototype, 'call', descriptor)
  if (guards.length > 0) UseGuards(...guards)(prototype, 'call', descriptor)
  Controller()(OneRoute)
  return OneRoute
}
