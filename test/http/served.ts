/** Opens a tenancy on a new database for a host, and a client that can send malformed requests. */
import { once } from 'node:events'
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { createHttp, type Http, type HttpOptions } from '../../src/http/app.ts'
import type { AdminToken } from '../../src/http/tokens.ts'
import type { Satellite } from '../../src/tenancy/satellite.ts'
import type { Role, Tenancy } from '../../src/tenancy/tenancy.ts'
import { testTenancy } from '../../src/testing/base/tenancy.ts'

export const PREFIX = '/admin/multitenancy'
export const TOKEN = 'adm_f3kR8sQ2xL0v'
export const ADMIN = { 'x-admin-token': TOKEN }

export interface Served {
  readonly tenancy: Tenancy
  readonly http: Http
  /** Opens the same database with another configuration, as after a restart. */
  again(adminTokens: readonly AdminToken[]): Promise<Served>
  stop(): Promise<void>
}

/**
 * @param postgresUrl server on which the database is created, from `inject('postgresUrl')`
 * @param role `api` installs no tenants, which saves time in tests that only create them.
 */
export async function served(
  postgresUrl: string,
  satellites: readonly Satellite[] = [],
  options: Partial<HttpOptions> = {},
  role: Role = 'all',
): Promise<Served> {
  const made = await testTenancy<readonly Satellite[]>(postgresUrl, { satellites, role })
  const on = (tenancy: Tenancy, stop: () => Promise<void>, adminTokens: readonly AdminToken[]): Served => ({
    tenancy,
    http: createHttp(tenancy, { ...options, adminTokens }),
    async again(tokens) {
      const other = await made.open({ role: 'api' })
      return on(other, () => other.stop(), tokens)
    },
    stop,
  })
  const { adminTokens = [{ name: 'admin', token: TOKEN }] } = options
  return on(made.tenancy, made.end, adminTokens)
}

export interface HttpResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly json: any
}

export interface Sent {
  readonly headers?: OutgoingHttpHeaders
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown
  /** Loopback address of the client; failed sign-ins are limited for each address. */
  readonly from?: string | undefined
}

/** Sends one request on a new connection, with the path unchanged. */
export async function send(
  origin: string,
  line: string,
  { headers = {}, body, from }: Sent = {},
): Promise<HttpResponse> {
  const [method, path] = line.split(' ', 2)
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = body === undefined ? undefined : isRaw ? body : JSON.stringify(body)
  const type = bytes === undefined ? {} : { 'content-type': 'application/json' }
  const { hostname, port } = new URL(origin)
  const outgoing = request({
    hostname,
    port,
    method,
    path,
    agent: false,
    localAddress: from,
    headers: { ...type, ...headers },
  })
  outgoing.end(bytes)
  const [incoming] = await once(outgoing, 'response')
  const answered = await text(incoming)
  const isJson = /json/.test(incoming.headers['content-type'] ?? '') && answered !== ''
  return {
    status: incoming.statusCode,
    headers: incoming.headers,
    body: answered,
    json: isJson ? JSON.parse(answered) : undefined,
  }
}
