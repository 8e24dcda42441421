/** The application that every host serves: the same routes on the same tenancy, with each framework. */
import {
  type Config,
  createHttp,
  currentContext,
  fromHeader,
  type Guard,
  type GuardedRequest,
  type Http,
  type HttpOptions,
  type Tenancy,
  type Tenant,
} from 'tenantry'
import { auditLogs } from 'tenantry/satellites/audit-logs'
import { impersonation } from 'tenantry/satellites/impersonation'
import { quotas } from 'tenantry/satellites/quotas'
import type { GuardedFetch } from 'tenantry/web'
import { verifyWebhook, type WebhookHeaders } from 'tenantry/webhooks'

export const ADMIN_TOKEN = 'a-token-for-the-tests'
export const WEBHOOK_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
export const EXPORTS = 2

const satellites = [auditLogs(), impersonation(), quotas()] as const

export type ApplicationTenancy = Tenancy<typeof satellites>

export const CONFIG = {
  satellites,
  plans: { defaultPlan: 'free', definitions: { free: { limits: { exports: EXPORTS } } } },
} satisfies Partial<Config<any, any, typeof satellites>>

export interface Called extends GuardedFetch {
  /** As received. */
  readonly body: Uint8Array
  readonly headers: WebhookHeaders
}

export interface Application {
  readonly tenancy: ApplicationTenancy
  readonly http: Http
  readonly guard: Guard
  /** By method and path. The result is the body as JSON, or a stream. */
  readonly routes: Readonly<Record<string, (called: Called) => Promise<object> | AsyncIterable<string>>>
}

/** The route with a quota. */
export const LIMITED = 'POST /exports'

export function applicationOf(tenancy: ApplicationTenancy, options: HttpOptions = {}): Application {
  return {
    tenancy,
    http: createHttp(tenancy, { adminTokens: [{ name: 'admin', token: ADMIN_TOKEN }], ...options }),
    guard: tenancy.guard({
      resolve: fromHeader(),
      authorize: (request, { id }) => request.header('x-member-of') === id,
      actor: (request) => ({ type: 'user', id: userOf(request), name: 'Ann' }),
      central: ['/central/*'],
      ignore: ['/hooks/*'],
    }),
    routes: {
      'GET /context': async ({ tenant }) => {
        await tenant.pool.query('select 1')
        await Promise.all([tenancy.quotas.check(tenant.id, 'exports', 1), new Promise(setImmediate)])
        const { requestId, actor } = currentContext()
        return { tenant: tenant.id, current: (await tenancy.current()).id, requestId, actor: actor.id }
      },
      'POST /context': async ({ tenant, body }) => {
        const { rows } = await (await tenancy.current()).pool.query('select $1::int as length', [body.length])
        return { tenant: tenant.id, length: rows[0].length }
      },
      'GET /central/plain': async ({ optionalTenant }) => ({ tenant: optionalTenant?.id ?? null }),
      'GET /central/tenant': async ({ tenant }) => ({ tenant: tenant.id }),
      'GET /central/storage': async () => ({ tenant: (await tenancy.tenant('acme')).id }),
      'GET /never': () => tenancy.tenants.get('never'),
      'GET /wrapped': async () => {
        const driverError = await tenancy.tenants.get('never').catch((error) => error)
        throw Object.assign(new Error('select 1 failed'), { driverError }) // as TypeORM
      },
      'GET /broken': async () => {
        throw new Error('mine')
      },
      'GET /stream': ({ tenant }) => rowsOf(tenant),
      [LIMITED]: async ({ tenant }) => ({ exported: tenant.id }),
      'GET /me': async ({ impersonation }) => ({
        user: impersonation?.userId ?? null,
        actor: currentContext().actor.name,
      }),
      'POST /hooks/orders': async ({ body, headers }) => ({
        payload: verifyWebhook(body, headers, WEBHOOK_SECRET).payload,
      }),
    },
  }
}

const userOf = (request: GuardedRequest): string => String(request.header('x-user') ?? 'ann')

/** A result of about 1 MB, read piece by piece while it is sent. */
async function* rowsOf({ id, pool }: Tenant): AsyncGenerator<string> {
  for (let piece = 0; piece < 20; piece++) {
    const { rows } = await pool.query(`select repeat('x', 50000) as text`)
    yield `${id} ${rows[0].text}\n`
  }
}

export const isStream = (result: object): result is AsyncIterable<string> => Symbol.asyncIterator in result
