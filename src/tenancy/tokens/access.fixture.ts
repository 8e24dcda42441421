/** Two processes on one database, each with its admin API; `there` learns changes of `here` from notifications only. */
import { expect, vi } from 'vitest'
import { createHttp, DEFAULT_PREFIX, type Http, type HttpOptions } from '../../http/app.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import type { Satellite } from '../satellite.ts'
import type { Tenancy, TenancyConfig } from '../tenancy.ts'
import type { NewToken, TokenWithSecret } from './resource.ts'

export const ADMIN = 'token-of-an-admin-0123456789'

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: any
}

export interface Process {
  readonly tenancy: Tenancy
  readonly http: Http
  /** @param line `POST /tokens` */
  call(token: string | undefined, line: string, body?: unknown, headers?: Record<string, string>): Promise<HttpResponse>
  statusOf(token: string, line?: string): Promise<number>
  /** Number of statements about tokens and sessions that it sent while `work` ran. */
  queriesOf(work: () => Promise<unknown>): Promise<number>
}

export interface Access {
  readonly here: Process
  readonly there: Process
  readonly clock: FakeClock
  readonly opened: TestTenancy<readonly Satellite[]>
  open(options?: Partial<TenancyConfig<readonly Satellite[]>>, http?: Partial<HttpOptions>): Promise<Process>
  /** Creates a token by the admin API, as another token or the admin. */
  create(request: Partial<NewToken>, by?: string): Promise<TokenWithSecret>
}

let count = 0

/** Each test has its own address, so that tests do not share the limit of failed sign-ins. Undefined outside of a test. */
const ips = new Map<string, string>()
function ipOfTest(): string | undefined {
  const { currentTestName: name } = expect.getState()
  if (name === undefined) return undefined
  const ip = ips.get(name) ?? `198.18.${ips.size >> 8}.${ips.size & 255}`
  ips.set(name, ip)
  return ip
}

export async function openAccess(
  postgresUrl: string,
  options: Partial<TenancyConfig<readonly Satellite[]>> = {},
  httpOptions: Partial<HttpOptions> = {},
): Promise<Access> {
  const clock = fakeClock()
  const opened = await testTenancy<readonly Satellite[]>(postgresUrl, { role: 'api', clock, ...options })
  const open: Access['open'] = async (more = {}, http = {}) =>
    processOf(await opened.open(more), { ...httpOptions, ...http })
  const here = processOf(opened.tenancy, httpOptions)
  const there = await open()
  return {
    here,
    there,
    clock,
    opened,
    open,
    async create(request, by = ADMIN) {
      const body = { name: `token ${++count}`, may: ['tenants.*'], ...request }
      const { status, json, text } = await here.call(by, 'POST /tokens', body)
      expect(status, text).toBe(201)
      return json
    },
  }
}

function processOf(tenancy: Tenancy, options: Partial<HttpOptions>): Process {
  const http = createHttp(tenancy, { adminTokens: [{ name: 'admin', token: ADMIN }], ...options })
  const call: Process['call'] = async (token, line, body, headers = {}) => {
    const [method = '', path = ''] = line.split(' ')
    const request = new Request(`http://localhost${DEFAULT_PREFIX}${path}`, {
      method,
      headers: {
        ...(token === undefined ? {} : { 'x-admin-token': token }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
    })
    const response = await http.fetch(request, { ip: ipOfTest() })
    const text = await response.text()
    const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
  }
  return {
    tenancy,
    http,
    call,
    statusOf: async (token, line = 'GET /tenants') => (await call(token, line)).status,
    async queriesOf(work) {
      const queries = vi.spyOn(tenancy.kernel.database, 'sql')
      try {
        await work()
        const texts = queries.mock.calls.map(([statement]) => JSON.stringify(statement))
        return texts.filter((text) => /api_(tokens|sessions)/.test(text)).length
      } finally {
        queries.mockRestore()
      }
    },
  }
}

/** The cookie that a sign-in sets. */
export const cookieOf = ({ headers }: HttpResponse): string => headers.get('set-cookie')?.split(';')[0] ?? ''
