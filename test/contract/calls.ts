/** Calls the admin API in process, without a socket. */
import { createHttp, DEFAULT_PREFIX, type Http, type RequestLimits } from '../../src/http/app.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'

export const TOKENS = {
  admin: 'token-of-an-admin-0123456789',
  read: 'token-of-a-reader-0123456789',
  runtime: 'token-of-a-server-0123456789',
  /** Permits only what every token permits. */
  narrow: 'token-of-a-visitor-0123456789',
} as const
export type Who = keyof typeof TOKENS | 'anonymous'

const ORIGIN = 'http://localhost'

export interface Sent {
  readonly who?: Who
  /** Address of the client. */
  readonly from?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Undefined if the body is not JSON. */
  readonly json: any
}

export interface Api {
  readonly tenancy: Tenancy
  readonly http: Http
  /** @param path below the prefix, sent unchanged */
  call(method: string, path: string, sent?: Sent): Promise<HttpResponse>
}

export function apiOf(tenancy: Tenancy, requests?: RequestLimits): Api {
  const http = createHttp(tenancy, {
    requests,
    adminTokens: [
      { name: 'admin', token: TOKENS.admin },
      { name: 'reader', token: TOKENS.read, scope: 'read' },
      { name: 'server', token: TOKENS.runtime, scope: 'runtime' },
      { name: 'visitor', token: TOKENS.narrow, may: ['session.get'] },
    ],
  })
  return {
    tenancy,
    http,
    call: async (method, path, { who = 'admin', from, headers = {}, body } = {}) => {
      const request = new Request(`${ORIGIN}${DEFAULT_PREFIX}${path}`, {
        method,
        headers: {
          ...(who === 'anonymous' ? {} : { 'x-admin-token': TOKENS[who] }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: body === undefined ? null : isRaw(body) ? body : JSON.stringify(body),
      })
      return toHttpResponse(await http.fetch(request, { ip: from }))
    },
  }
}

const isRaw = (body: unknown): body is string | Uint8Array<ArrayBuffer> =>
  typeof body === 'string' || body instanceof Uint8Array

async function toHttpResponse(response: Response): Promise<HttpResponse> {
  const text = await response.text()
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '') && text !== ''
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
}
