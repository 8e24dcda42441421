/**
 * A minimal admin API for the pages: a sign-in, a session cookie, a document, one collection.
 * Like the real one, it reads the token header before the cookie, and a write with the cookie requires its Origin.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { apiPage, apiPageAsset } from './api-page.ts'
import { type Page, pageNonce, securityHeaders } from './security-headers.ts'
import { signInPage } from './sign-in-page.ts'

export const PREFIX = '/admin/multitenancy'
export const TOKEN = 'adm_7f3c9d5e1b'
export const CODE = 'one-time-code'
const SESSION = 'tenantry_session=sealed'

export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
}

export interface AdminApi extends AsyncDisposable {
  readonly origin: string
  readonly seen: readonly SeenRequest[]
  readonly tenants: readonly unknown[]
}

export async function startAdminApi(): Promise<AdminApi> {
  const seen: SeenRequest[] = []
  const tenants: unknown[] = [{ id: 'acme', name: 'Acme & Söhne', status: 'active' }]
  const codes = new Set([CODE])
  const server = createServer((request, response) => {
    handle(request, response).catch((error: Error) => response.writeHead(500).end(error.stack))
  })

  async function handle(request: IncomingMessage, response: ServerResponse) {
    const { method = '', url = '', headers } = request
    const body = method === 'POST' ? await json(request) : undefined
    seen.push({ method, url, headers, body })
    const route = `${method} ${new URL(url, 'http://localhost').pathname.slice(PREFIX.length)}`

    if (route === 'POST /session') return openSession(body as Record<string, string>, response)
    if (route === 'GET /sign-in') return sendPage(response, 200, 'sign-in')
    if (!signedIn(headers)) {
      if (headers.accept?.includes('text/html')) return sendPage(response, 401, 'sign-in')
      return sendProblem(response, 401, 'An admin token is needed.')
    }
    if (route === 'GET /openapi') return sendPage(response, 200, 'api')
    if (route === 'GET /openapi.json') return sendJson(response, 200, OPENAPI)
    if (route === 'GET /openapi/reference.js') {
      const asset = await apiPageAsset(String(headers['accept-encoding'] ?? ''))
      return response.writeHead(200, asset.headers).end(asset.body)
    }
    if (route === 'GET /tenants') return sendJson(response, 200, { data: tenants, nextCursor: null })
    if (route === 'POST /tenants') {
      if (headers.origin !== `http://${headers.host}`) return sendProblem(response, 403, 'The origin does not match.')
      tenants.push(body)
      return sendJson(response, 201, body)
    }
    return sendProblem(response, 404, `There is no ${route}.`)
  }

  function openSession({ token, code }: Record<string, string>, response: ServerResponse) {
    if (token === TOKEN || codes.delete(code ?? '')) {
      response.setHeader('set-cookie', `${SESSION}; HttpOnly; SameSite=Strict; Path=${PREFIX}`)
      return response.writeHead(204).end()
    }
    return sendProblem(response, 401, code ? 'This sign-in link was used or is too old.' : 'This token is <not> known.')
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { origin, seen, tenants, [Symbol.asyncDispose]: () => close(server) }
}

function signedIn(headers: IncomingMessage['headers']): boolean {
  const token = headers['x-admin-token']
  return token === undefined ? headers.cookie === SESSION : token === TOKEN
}

function sendPage(response: ServerResponse, status: number, page: Page) {
  const nonce = pageNonce()
  const title = 'Tenantry <admin>'
  const body = page === 'api' ? apiPage({ prefix: PREFIX, nonce, title }) : signInPage({ prefix: PREFIX, nonce, title })
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', ...securityHeaders(page, nonce) }).end(body)
}

function sendJson(response: ServerResponse, status: number, body: unknown, type = 'application/json') {
  response.writeHead(status, { 'content-type': type }).end(JSON.stringify(body))
}

function sendProblem(response: ServerResponse, status: number, detail: string) {
  const problem = { type: 'about:blank', title: 'Problem', status, detail, code: 'E_EXAMPLE', requestId: 'r1' }
  sendJson(response, status, problem, 'application/problem+json')
}

async function close(server: Server): Promise<void> {
  server.close()
  server.closeAllConnections()
  if (server.listening) await once(server, 'close')
}

const TENANT = { $ref: '#/components/schemas/Tenant' }

const OPENAPI = {
  openapi: '3.1.0',
  info: { title: 'Tenantry admin API', version: '0.1.0', description: 'The **control plane** of a multi-tenant SaaS.' },
  servers: [{ url: '/' }],
  security: [{ adminToken: [] }],
  tags: [{ name: 'Tenants', description: 'Create and manage tenants.' }],
  paths: {
    [`${PREFIX}/tenants`]: {
      get: {
        operationId: 'tenants.list',
        summary: 'List tenants',
        tags: ['Tenants'],
        parameters: [
          { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 200, default: 50 } },
        ],
        responses: {
          200: {
            description: 'One page.',
            content: {
              'application/json': {
                schema: {
                  type: 'object',
                  properties: { data: { type: 'array', items: TENANT }, nextCursor: { type: ['string', 'null'] } },
                },
              },
            },
          },
        },
      },
      post: {
        operationId: 'tenants.create',
        summary: 'Create a tenant',
        tags: ['Tenants'],
        requestBody: { required: true, content: { 'application/json': { schema: TENANT } } },
        responses: { 201: { description: 'Created.', content: { 'application/json': { schema: TENANT } } } },
      },
    },
  },
  components: {
    securitySchemes: { adminToken: { type: 'apiKey', in: 'header', name: 'x-admin-token' } },
    schemas: {
      Tenant: {
        type: 'object',
        required: ['id', 'name'],
        properties: {
          id: { type: 'string', examples: ['globex'] },
          name: { type: 'string', examples: ['Globex'] },
          status: { enum: ['active', 'suspended'], default: 'active' },
        },
      },
    },
  },
}
