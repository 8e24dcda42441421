/** A client receives the response to a body that is too large or is not read; on every host framework. */
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { MAX_LINGERING_BYTES, MAX_LINGERING_MS } from '../../src/http/hosts/lingering-close.ts'
import { createReceivers } from '../../src/http/receivers.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Served, served } from './served.ts'

const MEGABYTE = 1_000_000
const RECEIVER = '/hooks/any'
const TOO_LARGE = [413, 'E_PAYLOAD_TOO_LARGE']

const receiving = defineSatellite({
  name: 'receiving',
  summary: 'Read the posted body',
  service: () => null,
  receivers: [{ path: RECEIVER, receive: async (_, { body }) => ({ bytes: (await body()).byteLength }) }],
})

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'), [receiving], {}, 'api')
})
afterAll(() => tenancy.stop())
afterEach(() => vi.useRealTimers())

describe.each(Object.entries(hosts))('%s', (_name, start) => {
  let host: Host
  beforeAll(async () => {
    const { http } = tenancy
    const receivers = createReceivers(tenancy.tenancy)
    host = await start({
      ...http,
      routes: [...receivers.routes, ...http.routes],
      handles: (path) => path === RECEIVER || http.handles(path),
      fetch: (request, client) => (request.url.endsWith(RECEIVER) ? receivers : http).fetch(request, client),
    })
  })
  afterAll(() => host.close())

  /** Status, code, and whether the connection ends. */
  const post = async (path: string, body: string | ReadableStream, headers: Record<string, string> = {}) => {
    const type = { 'content-type': 'application/json' }
    const response = await fetch(host.origin + path, {
      method: 'POST',
      headers: { ...type, ...headers },
      body,
      duplex: 'half',
    } as RequestInit)
    const { code } = (await response.json()) as { code: string }
    return [response.status, code, response.headers.get('connection')]
  }
  const isServed = async () => (await fetch(`${host.origin}${PREFIX}/plans`, { headers: ADMIN })).status === 200

  test.each([
    [2, `${PREFIX}/tenants`],
    [2, `${PREFIX}/session`],
    [2, RECEIVER],
    [16, `${PREFIX}/tenants`],
  ])('fetch receives the 413 for %d MB to %s, twice, and the next response', async (megabytes, path) => {
    const body = 'x'.repeat(megabytes * MEGABYTE)
    for (let time = 0; time < 2; time++) {
      expect(await post(path, body, ADMIN)).toEqual([...TOO_LARGE, 'close'])
      expect(await isServed()).toBe(true)
    }
  })

  test('fetch receives the 413 for a body without a length', async () => {
    const pieces = () => ReadableStream.from(Array.from({ length: 16 }, () => new Uint8Array(MEGABYTE / 4)))
    for (const path of [`${PREFIX}/tenants`, RECEIVER]) {
      expect(await post(path, pieces(), ADMIN)).toEqual([...TOO_LARGE, 'close'])
      expect(await isServed()).toBe(true)
    }
  })

  test('fetch receives the response to a body that is not read', async () => {
    const body = 'x'.repeat(4 * MEGABYTE)
    expect(await post(`${PREFIX}/tenants`, body)).toEqual([401, 'E_UNAUTHORIZED', 'close'])
    expect(await post(`${PREFIX}/nothing`, body, ADMIN)).toEqual([404, 'E_NOT_FOUND', 'close'])
    expect(await post('/livez', body)).toEqual([405, 'E_METHOD_NOT_ALLOWED', 'close'])
    const type = { 'content-type': 'text/plain' }
    expect(await post(`${PREFIX}/session`, body, type)).toEqual([415, 'E_UNSUPPORTED_MEDIA_TYPE', 'close'])
    expect(await isServed()).toBe(true)
  })

  test('a body below the limit leaves the connection open', async () => {
    const socket = await opened(host)
    const body = '{"token":"wrong-token-0123456789"}'
    socket.write(`POST ${PREFIX}/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n`)
    socket.write(`content-length: ${body.length}\r\n\r\n${body}`)
    socket.write(`GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
    expect((await text(socket)).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 200'])
  })

  test('a client that reads only after sending everything receives the 413', async () => {
    const socket = await opened(host)
    socket.pause()
    const bytes = 16 * MEGABYTE
    socket.write(head(bytes))
    await new Promise((sent) => socket.write(Buffer.alloc(bytes), sent))
    const response = await text(socket)
    expect(response).toMatch(/^HTTP\/1\.1 413 [\s\S]*\r\nconnection: close\r\n/i)
    expect(response).toContain('E_PAYLOAD_TOO_LARGE')
  })
})

/** Four of the five hosts share the listener. */
describe.each(['node', 'hono'] as const)('the limits on %s', (name) => {
  let host: Host
  beforeAll(async () => {
    host = await (hosts[name] as (typeof hosts)[string])(tenancy.http)
  })
  afterAll(() => host.close())

  test('the rest of a body is read up to a limit of bytes', async () => {
    const socket = await opened(host)
    socket.resume().write(head(100 * MAX_LINGERING_BYTES))
    const piece = Buffer.alloc(MEGABYTE)
    while (!socket.destroyed && socket.bytesWritten < 3 * MAX_LINGERING_BYTES) {
      await new Promise((sent) => socket.write(piece, sent))
    }
    expect(socket.destroyed).toBe(true)
    expect(socket.bytesWritten).toBeGreaterThan(MAX_LINGERING_BYTES)
  })

  test('the rest of a body is read up to a limit of time', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const socket = await opened(host)
    socket.write(head(2 * MEGABYTE))
    let response = ''
    socket.on('data', (chunk) => {
      response += chunk
    })
    await eventually(() => expect(response).toMatch(/\}$/))
    expect(response).toMatch(/^HTTP\/1\.1 413 /)
    vi.advanceTimersByTime(MAX_LINGERING_MS - 1)
    expect(await text((await opened(host)).end(`GET /livez HTTP/1.0\r\nhost: localhost\r\n\r\n`))).toContain('200 OK')
    expect(socket.readableEnded).toBe(false)
    vi.advanceTimersByTime(1)
    await eventually(() => expect(socket.readableEnded).toBe(true))
  })
})

const head = (bytes: number) =>
  `POST ${PREFIX}/tenants HTTP/1.1\r\nhost: localhost\r\nx-admin-token: ${ADMIN['x-admin-token']}\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`

async function opened({ origin }: Host): Promise<Socket> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  socket.on('error', () => undefined) // of a connection that the server closed
  await new Promise((connected) => socket.once('connect', connected))
  return socket
}
