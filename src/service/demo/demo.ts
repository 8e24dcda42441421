/**
 * Creates sample tenants by calls of the admin API, with the credentials of the caller: each call is checked and audited as any other.
 * Outside production only. Serves two paths:
 *
 *   POST {prefix}/demo                the button of an empty console
 *   POST /demo-receiver/{status}      receiver of the sample webhooks; Tenantry's requests may call exactly these URLs
 *
 * `metadata.demo` of a tenant is `started`, then `complete`. A complete tenant is left as it is. A run that was interrupted continues with
 * the same idempotency keys, so no call has its effect twice.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, Http, Mountable } from '../../http/app.ts'
import { pathOf } from '../../http/paths.ts'
import { MethodNotAllowed, withProblemResponse } from '../../http/problem.ts'
import { recordRequest } from '../../http/requests/request-record.ts'
import { serveRequest } from '../../http/requests/serve-request.ts'
import { respondJson, withoutBodyOfHead } from '../../http/respond.ts'
import { type AdminToken, firstAdmin } from '../../http/tokens.ts'
import type { Kernel } from '../../kernel/kernel.ts'
import { RECEIVER_STATUSES, SAMPLE_LIMITS, type SampleCall, type SampleTenant } from './sample-tenants.ts'

/** Below the prefix. */
export const DEMO_PATH = '/demo'
const RECEIVER_PATH = '/demo-receiver'
/** Time in which a call waits for its job. */
const WAIT_SECONDS = 60
/** Tenants that are created concurrently. */
const CONCURRENCY = 3
/** Attempts of a call while the service responds with 503, such as under load. */
const MAX_ATTEMPTS = 10
const RETRY_MS = 1_000
/** Headers that identify the caller. */
const CREDENTIALS = ['x-admin-token', 'cookie', 'origin', 'host', 'x-forwarded-proto', 'sec-fetch-site']

/** Plans without limits get limits, so that quotas of sample tenants show their use. */
export function withSampleLimits<Plan extends { readonly limits: object }>(
  plans: Readonly<Record<string, Plan>>,
): Record<string, Plan> {
  const withLimits = ([name, plan]: [string, Plan]) => {
    const isUnlimited = Object.keys(plan.limits).length === 0
    return [name, isUnlimited ? { ...plan, limits: SAMPLE_LIMITS[name] ?? {} } : plan]
  }
  return Object.fromEntries(Object.entries(plans).map(withLimits))
}

export interface DemoResult {
  /** Number of new tenants, without clones. */
  readonly created: number
  /** Calls that the service rejected, such as a flag that the configuration does not declare. */
  readonly rejected: readonly { readonly tenantId: string; readonly operation: string; readonly code: string }[]
}

export interface DemoOptions {
  readonly kernel: Kernel
  readonly http: Http
  readonly accessLog: boolean
}

interface Caller {
  readonly origin: string
  readonly headers: Readonly<Record<string, string>>
  readonly client?: Client | undefined
}

/** A response that ends the run. */
class Refused extends Error {
  readonly response: Response

  constructor(response: Response) {
    super(`The demo is incomplete: a call was rejected with status ${response.status}. Run it again to continue.`)
    this.response = response
  }
}

export class Demo implements Mountable {
  readonly #options: DemoOptions
  readonly #receivers: ReadonlyMap<string, number>
  readonly #path: string
  /** URL of the service. */
  #url = ''
  #running: Promise<DemoResult> | undefined

  constructor(options: DemoOptions) {
    this.#options = options
    this.#path = options.http.prefix + DEMO_PATH
    this.#receivers = new Map(RECEIVER_STATUSES.map((status) => [`${RECEIVER_PATH}/${status}`, status]))
  }

  get routes(): readonly string[] {
    return [this.#path, ...this.#receivers.keys()]
  }

  handles(pathname: string): boolean {
    return pathname === this.#path || this.#receivers.has(pathname)
  }

  /** @param url of the server, which listens */
  listensAt(url: string): void {
    this.#url = url.replace('//localhost:', '//127.0.0.1:')
  }

  async fetch(request: Request, client: Client = {}): Promise<Response> {
    const { kernel, accessLog } = this.#options
    const response = await serveRequest(kernel, request, { ip: client.ip ?? null, accessLog }, () =>
      withProblemResponse(kernel.log, async () => {
        const path = pathOf(request.url)
        recordRequest({ route: path })
        if (request.method !== 'POST') throw MethodNotAllowed('This path takes POST.', { headers: { allow: 'POST' } })
        const status = this.#receivers.get(path)
        if (status === undefined) return this.#respond(request, client)
        await request.body?.cancel()
        return respondJson(status, { received: status === 200 })
      }),
    )
    return withoutBodyOfHead(request, response)
  }

  /** Concurrent calls share one run. @throws an error after a response with status 5xx; a further run continues */
  async run(adminTokens: readonly AdminToken[]): Promise<DemoResult> {
    const { token = '' } = firstAdmin(adminTokens) ?? {}
    const result = await this.#shared({ origin: this.#url, headers: { 'x-admin-token': token } })
    const { log } = this.#options.kernel
    for (const one of result.rejected) log.warn(one, 'a call of the demo was rejected')
    return result
  }

  async #respond(request: Request, client: Client): Promise<Response> {
    const headers = CREDENTIALS.flatMap((name) => {
      const value = request.headers.get(name)
      return value === null ? [] : [[name, value]]
    })
    const caller = { origin: new URL(request.url).origin, headers: Object.fromEntries(headers), client }
    try {
      await this.#operationsOf(caller) // before the result of another caller's run
      return respondJson(200, await this.#shared(caller))
    } catch (error) {
      if (error instanceof Refused) return error.response.clone()
      throw error
    }
  }

  #shared(caller: Caller): Promise<DemoResult> {
    this.#running ??= this.#createAll(caller).finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #createAll(caller: Caller): Promise<DemoResult> {
    const { sampleTenants } = await import('./sample-tenants.ts')
    const operations = await this.#operationsOf(caller)
    const receiver = (status: number) => `${this.#url}${RECEIVER_PATH}/${status}`
    this.#options.kernel.egress.allowOwnReceivers(RECEIVER_STATUSES.map(receiver))
    const rejected: DemoResult['rejected'][number][] = []
    const call = async (tenantId: string, { operation, params = {}, body }: SampleCall, key?: string): Promise<any> => {
      const route = operations[operation]
      if (!route) return undefined
      const response = await this.#send(caller, route, { ...params, id: tenantId }, { body, key })
      if (response.status >= 500) throw new Refused(response)
      const result = response.status === 204 ? undefined : ((await response.json()) as { code: string })
      if (response.ok) return result
      rejected.push({ tenantId, operation, code: result?.code ?? '' })
      return undefined
    }
    const { definitions: plans = {} } = (await call('', { operation: 'plans.list' })) ?? {}
    const create = async (sample: SampleTenant): Promise<boolean> => {
      const { id, plan, name, domains = [], calls, end } = sample
      const metadata = { ...sample.metadata, ...(Object.hasOwn(plans, plan) ? { plan } : {}), demo: 'started' }
      const route = operations['tenants.create'] as string
      const response = await this.#send(caller, route, {}, { body: { id, name, domains, metadata } })
      if (!response.ok && response.status !== 409) throw new Refused(response)
      let tenant = await call(id, { operation: 'tenants.get' })
      for (let attempt = 1; tenant?.status === 'provisioning' && attempt < WAIT_SECONDS; attempt++) {
        await sleep(RETRY_MS)
        tenant = await call(id, { operation: 'tenants.get' })
      }
      if (tenant?.metadata.demo !== 'started') return false
      if (tenant.status !== 'active') throw new Refused(response)
      for (const [index, one] of calls.entries()) await call(id, one, `demo-${id}-${tenant.createdAt}-${index}`)
      const present = await call(id, { operation: 'tenants.get' })
      const complete = { ...present.metadata, demo: 'complete' }
      await call(id, { operation: 'tenants.update', body: { metadata: complete } })
      if (end) await call(id, end)
      return true
    }
    const remaining = sampleTenants(receiver).values()
    let created = 0
    const work = async () => {
      for (const sample of remaining) if (await create(sample)) created++
    }
    await Promise.all(Array.from({ length: CONCURRENCY }, work))
    return { created, rejected }
  }

  /** Method and path of the operations that the caller may call. @throws Refused without the permission to create tenants */
  async #operationsOf(caller: Caller): Promise<Readonly<Record<string, string>>> {
    const response = await this.#send(caller, 'GET /session', {})
    if (!response.ok) throw new Refused(response)
    const { operations } = (await response.json()) as { operations: Record<string, string> }
    if (operations['tenants.create'] && operations['tenants.get'] && operations['tenants.update']) return operations
    throw new Refused(await this.#send(caller, 'POST /tenants', {}, { body: {} }))
  }

  async #send(
    { origin, headers, client }: Caller,
    route: string,
    params: Readonly<Record<string, string>>,
    { body, key }: { body?: unknown; key?: string | undefined } = {},
  ): Promise<Response> {
    const [method = '', path = ''] = route.split(' ')
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name] ?? ''))
    const { http } = this.#options
    const isJob = method === 'POST'
    const call = () =>
      http.fetch(
        new Request(`${origin}${http.prefix}${filled}`, {
          method,
          headers: {
            ...headers,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...(isJob ? { prefer: `wait=${WAIT_SECONDS}` } : {}),
            ...(isJob && key ? { 'idempotency-key': key } : {}),
          },
          body: body === undefined ? null : JSON.stringify(body),
        }),
        client,
      )
    for (let attempt = 1; ; attempt++) {
      const response = await call()
      if (response.status !== 503 || attempt === MAX_ATTEMPTS) return response
      await sleep(RETRY_MS)
    }
  }
}
