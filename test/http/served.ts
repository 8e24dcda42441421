/** A tenancy with a database of its own, ready to be put on a host, and a client that sends what no browser would. */
import { once } from 'node:events'
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { schemaPg } from '../../src/drivers/isolation/schema-pg.ts'
import { createHttp, type Http, type HttpOptions } from '../../src/http/app.ts'
import type { AdminToken } from '../../src/http/tokens.ts'
import { createLogger } from '../../src/kernel/logger.ts'
import type { Satellite } from '../../src/satellite.ts'
import { createTenancy, type Tenancy } from '../../src/tenancy.ts'
import { createTestDatabase } from '../../src/testing/database.ts'

export const PREFIX = '/admin/multitenancy'
export const TOKEN = 'adm_f3kR8sQ2xL0v'
export const ADMIN = { 'x-admin-token': TOKEN }
const APP_KEY = Buffer.alloc(32, 'application key').toString('base64')

export interface Served {
  readonly tenancy: Tenancy
  readonly http: Http
  /** The same database under another configuration, as after a restart. */
  again(adminTokens: readonly AdminToken[]): Promise<Served>
  stop(): Promise<void>
}

/** @param postgresUrl of the server where the database is made, as `inject('postgresUrl')` has it */
export async function served(
  postgresUrl: string,
  satellites: readonly Satellite[] = [],
  options: Partial<HttpOptions> = {},
): Promise<Served> {
  const database = await createTestDatabase(postgresUrl)
  const first = await compose(database.url, satellites, { adminTokens: [{ name: 'admin', token: TOKEN }], ...options })
  const stop = async () => {
    await first.stop()
    await database.drop()
  }
  return { ...first, stop }
}

async function compose(url: string, satellites: readonly Satellite[], options: HttpOptions): Promise<Served> {
  const tenancy = await createTenancy({
    database: { url },
    appKey: APP_KEY,
    isolation: [schemaPg()],
    satellites,
    role: 'all',
    logger: createLogger({ level: 'silent' }),
  })
  return {
    tenancy,
    http: createHttp(tenancy, options),
    again: (adminTokens) => compose(url, satellites, { ...options, adminTokens }),
    stop: () => tenancy.stop(),
  }
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly json: any
}

export interface Sent {
  readonly headers?: OutgoingHttpHeaders
  /** Sent as JSON, unless it is text or bytes. */
  readonly body?: unknown
}

/** One request by a connection of its own; the path goes out as it is written. */
export async function send(origin: string, line: string, { headers = {}, body }: Sent = {}): Promise<Answer> {
  const [method, path] = line.split(' ', 2)
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
  const bytes = body === undefined ? undefined : isRaw ? body : JSON.stringify(body)
  const type = bytes === undefined ? {} : { 'content-type': 'application/json' }
  const { hostname, port } = new URL(origin)
  const outgoing = request({ hostname, port, method, path, agent: false, headers: { ...type, ...headers } })
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
