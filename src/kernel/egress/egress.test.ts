import type { ServerResponse } from 'node:http'
import type { LookupFunction, Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { startNameServer } from './dns.fixture.ts'
import { Egress, type EgressNetwork, type EgressSettings, type Exchange, type Exchanged } from './egress.ts'
import { bodyOf, deadPort, gone, listen, listenHttp, type Receiver, socketsFromNow } from './receivers.fixture.ts'

const DEVELOPMENT: EgressSettings = { allowPrivateNetworks: true, allowHttp: true }

function open(network: EgressNetwork = {}, settings = DEVELOPMENT) {
  const egress = new Egress(settings, network)
  onTestFinished(() => egress.close())
  const send = (url: string, exchange: Partial<Exchange> = {}): Promise<Exchanged> =>
    egress.send({ url, method: 'POST', headers: {}, timeoutMs: 10_000, maxResponseBytes: 16_384, ...exchange })
  return { egress, send }
}

/** Answers a name with addresses, each time with the next ones. */
function names(...results: (readonly string[] | string)[]): LookupFunction {
  let asked = 0
  return (_, __, callback) => {
    const next = results[Math.min(asked++, results.length - 1)] ?? []
    if (typeof next === 'string') return void callback(Object.assign(new Error(next), { code: next }), [])
    const addresses = next.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    callback(null, addresses)
  }
}

const ok = (_: unknown, response: ServerResponse) => void response.end('ok')

/** Once the request is there in full, as far as it has no body. */
const whenAsked = (respond: (socket: Socket) => void) => (socket: Socket, piece: string) => {
  if (piece.includes('\r\n\r\n')) respond(socket)
}

const named = (receiver: Receiver) => `http://hooks.example.com:${receiver.port}/hook`

/** The first byte of a TLS handshake. */
const CLIENT_HELLO = '\x16'

const reject = (error: string, isOurs = false) => ({ status: null, headers: {}, body: '', isCut: false, error, isOurs })

describe('an exchange', () => {
  test('sends method, path, headers and body, and returns the response', async () => {
    const { promise, resolve } = Promise.withResolvers<object>()
    const receiver = await listenHttp(async (request, response) => {
      const { method, url, headers } = request
      resolve({ method, url, headers, body: (await bodyOf(request)).toString() })
      response.writeHead(201, { 'Content-Type': 'text/plain', 'X-Word': ['one', 'two'] }).end('grüezi')
    })
    const { send } = open()
    const headers = { 'content-type': 'application/json', 'Webhook-Id': 'd1' }
    expect(await send(`${receiver.url}?a=b%20c`, { headers, body: '{"n":"ü"}' })).toEqual({
      status: 201,
      headers: expect.objectContaining({ 'content-type': 'text/plain', 'x-word': 'one, two' }),
      body: 'grüezi',
      isCut: false,
      error: null,
      isOurs: false,
      address: '127.0.0.1',
      durationMs: expect.any(Number),
    })
    expect(await promise).toEqual({
      method: 'POST',
      url: '/hook?a=b%20c',
      headers: {
        host: `127.0.0.1:${receiver.port}`,
        connection: 'keep-alive',
        'content-type': 'application/json',
        'content-length': '10',
        'webhook-id': 'd1',
      },
      body: '{"n":"ü"}',
    })
  })

  test('sends bytes unchanged, and an empty body with the length 0', async () => {
    const bodies: Buffer[] = []
    const receiver = await listenHttp(async (request, response) => {
      bodies.push(await bodyOf(request))
      response.end(request.headers['content-length'])
    })
    const { send } = open()
    const bytes = Buffer.from([0, 255, 10, 13, 128])
    expect(await send(receiver.url, { body: bytes })).toMatchObject({ body: '5' })
    expect(await send(receiver.url, { body: new Uint8Array(bytes.buffer, bytes.byteOffset, 5) })).toMatchObject({
      body: '5',
    })
    expect(await send(receiver.url, { body: '' })).toMatchObject({ body: '0' })
    expect(await send(receiver.url, { method: 'GET' })).toMatchObject({ status: 200, body: '' })
    expect(bodies).toEqual([bytes, bytes, Buffer.alloc(0), Buffer.alloc(0)])
  })

  test.each([200, 204, 301, 302, 303, 304, 307, 308, 400, 401, 404, 410, 429, 500, 503])(
    'returns a response with the status %i',
    async (status) => {
      const receiver = await listenHttp((_, response) => void response.writeHead(status).end())
      expect(await open().send(receiver.url)).toMatchObject({ status, error: null, isCut: false })
    },
  )

  test('follows no redirect', async () => {
    const elsewhere = await listenHttp(ok)
    const receiver = await listenHttp((_, response) => void response.writeHead(302, { location: elsewhere.url }).end())
    expect(await open().send(receiver.url)).toMatchObject({ status: 302, headers: { location: elsewhere.url } })
    expect(elsewhere.connections).toBe(0)
  })

  test('returns the final response after informational responses', async () => {
    const receiver = await listen(
      whenAsked((socket) => {
        socket.write('HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n')
        socket.write('HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok')
      }),
    )
    expect(await open().send(receiver.url)).toMatchObject({
      status: 202,
      headers: { 'content-length': '2' },
      body: 'ok',
    })
  })

  test.each<[string, string]>([
    ['in chunks', 'transfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n'],
    ['until the connection ends', 'connection: close\r\n\r\nok'],
    ['without a length', '\r\nok'],
  ])('reads a body %s', async (_, rest) => {
    const receiver = await listen(whenAsked((socket) => void socket.end(`HTTP/1.1 200 OK\r\n${rest}`)))
    expect(await open().send(receiver.url)).toMatchObject({ status: 200, body: 'ok', isCut: false })
  })

  test('reads a body of 16,384 chunks', async () => {
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'
    const receiver = await listen(
      whenAsked((socket) => void socket.write(`${head}${'1\r\nx\r\n'.repeat(16_384)}0\r\n\r\n`)),
    )
    expect(await open().send(receiver.url)).toMatchObject({ body: 'x'.repeat(16_384), isCut: false })
  })

  test('replaces NUL and invalid UTF-8 in a body by U+FFFD', async () => {
    const receiver = await listenHttp((_, response) => void response.end(Buffer.from([97, 0, 98, 0xff, 0xc3, 0x28])))
    expect(await open().send(receiver.url)).toMatchObject({ body: 'a\ufffdb\ufffd\ufffd(' })
  })

  test('returns headers with the names of object members as text', async () => {
    const receiver = await listen(
      whenAsked((socket) => {
        const headers = ['__proto__: one', '__proto__: two', 'constructor: three', 'X-Latin: \xfc']
        socket.write(`HTTP/1.1 200 OK\r\n${headers.join('\r\n')}\r\ncontent-length: 0\r\n\r\n`, 'latin1')
      }),
    )
    const { headers } = await open().send(receiver.url)
    expect(Object.entries(headers)).toEqual([
      ['__proto__', 'one, two'],
      ['constructor', 'three'],
      ['x-latin', 'ü'],
      ['content-length', '0'],
    ])
  })
})

describe('a body above the limit', () => {
  test('is cut, and its connection is closed', async () => {
    const receiver = await listenHttp((_, response) => {
      const more = () => {
        while (response.write('x'.repeat(10_000)));
      }
      response.on('drain', more)
      more()
    })
    const exchanged = await open().send(receiver.url, { maxResponseBytes: 16_384 })
    expect(exchanged).toMatchObject({ status: 200, isCut: true, error: null, address: '127.0.0.1' })
    expect(exchanged.body).toBe('x'.repeat(16_384))
    await gone(receiver)
  })

  test('is cut between UTF-8 characters', async () => {
    const receiver = await listenHttp((_, response) => void response.end('aü€😀😀'))
    const { send } = open()
    const cuts = await Promise.all(
      [0, 1, 2, 3, 5, 6, 9, 10, 13].map((maxResponseBytes) => send(receiver.url, { maxResponseBytes })),
    )
    expect(cuts.map(({ body, isCut }) => [body, isCut])).toEqual([
      ['', true],
      ['a', true],
      ['a', true],
      ['aü', true],
      ['aü', true],
      ['aü€', true],
      ['aü€', true],
      ['aü€😀', true],
      ['aü€😀', true],
    ])
    expect(await send(receiver.url, { maxResponseBytes: 14 })).toMatchObject({ body: 'aü€😀😀', isCut: false })
  })
})

describe('a connection', () => {
  test('serves the next exchange, whose result has its address', async () => {
    const receiver = await listenHttp(ok)
    const { send } = open()
    for (let i = 0; i < 5; i++) expect(await send(receiver.url)).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(receiver.connections).toBe(1)
  })

  test('carries one exchange at a time', async () => {
    const waiting: ServerResponse[] = []
    const receiver = await listenHttp((_, response) => void waiting.push(response))
    const { egress, send } = open()
    const exchanges = [1, 2, 3].map(() => send(receiver.url))
    await eventually(() => expect(waiting).toHaveLength(3))
    expect(egress.underWay).toBe(3)
    for (const response of waiting) response.end()
    expect(await Promise.all(exchanges)).toMatchObject([{ status: 200 }, { status: 200 }, { status: 200 }])
    expect(receiver.connections).toBe(3)
    expect([egress.underWay, egress.connections]).toEqual([0, 3])
  })

  test('is not shared by origins', async () => {
    const [one, two] = [await listenHttp(ok), await listenHttp(ok)]
    const { send } = open()
    for (const { url } of [one, two, one, two]) expect(await send(url)).toMatchObject({ status: 200 })
    expect([one.connections, two.connections]).toEqual([1, 1])
  })

  test('closed by the receiver is replaced by a new one', async () => {
    const receiver = await listenHttp(ok)
    const { egress, send } = open()
    await Promise.all([send(receiver.url), send(receiver.url)])
    expect(egress.connections).toBe(2)
    receiver.hangUp()
    await eventually(() => expect(egress.connections).toBe(0))
    expect(await send(receiver.url)).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(receiver.connections).toBe(3)
  })

  test('with `connection: close` is not reused', async () => {
    const receiver = await listenHttp((_, response) => void response.writeHead(200, { connection: 'close' }).end('ok'))
    const { send } = open()
    for (let i = 0; i < 3; i++) expect(await send(receiver.url)).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(receiver.connections).toBe(3)
  })

  test('of a failed exchange is not reused', async () => {
    const receiver = await listenHttp((request, response) => {
      if (request.url === '/hook') response.end('x'.repeat(100))
    })
    const { send } = open()
    expect(await send(receiver.url, { maxResponseBytes: 10 })).toMatchObject({ isCut: true })
    expect(await send(`${receiver.url}/slow`, { timeoutMs: 20 })).toMatchObject(reject('timeout'))
    expect(await send(receiver.url)).toMatchObject({ status: 200 })
    expect(receiver.connections).toBe(3)
    await eventually(() => expect(receiver.open).toBe(1))
  })

  test('with bytes behind the response is closed', async () => {
    const response = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
    const receiver = await listen(whenAsked((socket) => void socket.write(response + response.replace('ok', 'no'))))
    const { send } = open()
    expect(await send(receiver.url)).toMatchObject({ status: 200, body: 'ok' })
    await gone(receiver)
    expect(await send(receiver.url)).toMatchObject({ status: 200, body: 'ok' })
  })
})

describe('the deadline ends', () => {
  const TIMEOUT_MS = 60_000

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  /** Sends, and moves the clock to the deadline once the exchange has come as far as `isBegun` expects. */
  async function sentUntilDeadline(
    url: string,
    isStarted: () => void,
    network: EgressNetwork = {},
  ): Promise<Exchanged> {
    const sent = open(network).send(url, { timeoutMs: TIMEOUT_MS })
    await eventually(isStarted)
    vi.advanceTimersByTime(TIMEOUT_MS)
    return sent
  }

  test('a response that does not start', async () => {
    const receiver = await listen(() => undefined)
    const isStarted = () => expect(receiver.received.join()).toContain('POST')
    expect(await sentUntilDeadline(receiver.url, isStarted)).toMatchObject({
      ...reject('timeout'),
      address: '127.0.0.1',
    })
    await gone(receiver)
  })

  test('headers sent byte by byte', async () => {
    const pieces = vi.fn()
    const receiver = await listen(whenAsked((socket) => drip(socket, 'HTTP/1.1 200 OK\r\nx: ', 'y', pieces)))
    const isStarted = () => expect(pieces.mock.calls.length).toBeGreaterThan(9)
    expect(await sentUntilDeadline(receiver.url, isStarted)).toMatchObject(reject('timeout'))
    await gone(receiver)
  })

  test('a body sent byte by byte after valid headers', async () => {
    const pieces = vi.fn()
    const receiver = await listen(whenAsked((socket) => drip(socket, 'HTTP/1.1 200 OK\r\n\r\n', 'y', pieces)))
    const isStarted = () => expect(pieces.mock.calls.length).toBeGreaterThan(9)
    const body = expect.stringMatching(/^y+$/)
    const broken = { status: 200, body, isCut: true, error: 'timeout', isOurs: false }
    expect(await sentUntilDeadline(receiver.url, isStarted)).toMatchObject(broken)
    await gone(receiver)
  })

  test('endless informational responses', async () => {
    const pieces = vi.fn()
    const receiver = await listen(whenAsked((socket) => drip(socket, '', 'HTTP/1.1 103 Early Hints\r\n\r\n', pieces)))
    const isStarted = () => expect(pieces.mock.calls.length).toBeGreaterThan(9)
    expect(await sentUntilDeadline(receiver.url, isStarted)).toMatchObject(reject('timeout'))
    await gone(receiver)
  })

  test('a TLS handshake without a response', async () => {
    const receiver = await listen(() => undefined)
    const url = receiver.url.replace('http:', 'https:')
    const isStarted = () => expect(receiver.received.join()).toContain(CLIENT_HELLO)
    expect(await sentUntilDeadline(url, isStarted)).toMatchObject({ ...reject('timeout'), address: '127.0.0.1' })
    await gone(receiver)
  })

  test('a look-up without a response, as a failure of Tenantry', async () => {
    const lookup = vi.fn()
    const isStarted = () => expect(lookup).toHaveBeenCalled()
    const exchange = sentUntilDeadline('http://hooks.example.com/', isStarted, { lookup })
    expect(await exchange).toMatchObject({ ...reject('name look-up failed', true), address: null })
  })

  test('one exchange and no concurrent one', async () => {
    const receiver = await listenHttp((request, response) => {
      if (request.url !== '/hook/never') response.end('ok')
    })
    const { send } = open()
    const hanging = Array.from({ length: 8 }, () => send(`${receiver.url}/never`, { timeoutMs: 1_000 }))
    await eventually(() => expect(receiver.received.join().match(/\/never/g)).toHaveLength(8))
    const beside = Array.from({ length: 20 }, () => send(receiver.url, { timeoutMs: TIMEOUT_MS }))
    vi.advanceTimersByTime(1_000)
    for (const each of await Promise.all(hanging)) expect(each).toMatchObject(reject('timeout'))
    for (const each of await Promise.all(beside)) expect(each).toMatchObject({ status: 200 })
  })
})

describe('an exchange fails if', () => {
  test('the port has no listener', async () => {
    const exchange = open().send(`http://127.0.0.1:${await deadPort()}/`)
    expect(await exchange).toMatchObject({ ...reject('connection refused'), address: '127.0.0.1' })
  })

  test.each<[string, string, (socket: Socket) => void]>([
    ['the connection is reset', 'connection reset', (socket) => socket.resetAndDestroy()],
    ['the connection is closed', 'connection reset', (socket) => socket.destroy()],
    ['the receiver ends its side', 'connection reset', (socket) => socket.end()],
    ['the response ends in its headers', 'connection reset', (socket) => socket.end('HTTP/1.1 200 OK\r\nx: y')],
    ['the response is not HTTP', 'protocol', (socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n')],
    ['the status is not a number', 'protocol', (socket) => socket.write('HTTP/1.1 abc\r\n\r\n')],
    ['a header contains NUL', 'protocol', (socket) => socket.write('HTTP/1.1 200 OK\r\nx: \0\r\n\r\n')],
    [
      'the length is said twice',
      'protocol',
      (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab'),
    ],
    [
      'the headers are too long',
      'protocol',
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`),
    ],
    [
      'the headers are too many',
      'protocol',
      (socket) => socket.write(`HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(10_000)}\r\n`),
    ],
    ['the headers never end', 'protocol', (socket) => drip(socket, 'HTTP/1.1 200 OK\r\nx: ', 'y'.repeat(5_000))],
    [
      'the response is 100 without a request for it',
      'protocol',
      (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
    ],
    [
      'the response switches protocols',
      'protocol',
      (socket) => socket.write('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
    ],
  ])('%s: %s', async (_, error, talk) => {
    const receiver = await listen(whenAsked(talk))
    expect(await open().send(receiver.url)).toMatchObject({ ...reject(error), address: '127.0.0.1' })
    await gone(receiver)
  })

  test.each<[string, string, string, string]>([
    ['the body is shorter than its content-length', 'connection reset', 'content-length: 10\r\n\r\nshort', 'short'],
    ['the body ends in a chunk', 'connection reset', 'transfer-encoding: chunked\r\n\r\n5\r\nab', 'ab'],
    ['a chunk has no length', 'protocol', 'transfer-encoding: chunked\r\n\r\nzz\r\n', ''],
  ])('%s: %s, with the part that was received', async (_, error, rest, body) => {
    const receiver = await listen(whenAsked((socket) => void socket.end(`HTTP/1.1 500 No\r\nx-a: b\r\n${rest}`)))
    const started = { status: 500, headers: expect.objectContaining({ 'x-a': 'b' }), body, isCut: true }
    expect(await open().send(receiver.url)).toMatchObject({ ...started, error, isOurs: false, address: '127.0.0.1' })
    await gone(receiver)
  })

  test.each<[string, string, (socket: Socket) => void]>([
    ['sends before the request', 'protocol', (socket) => socket.write('220 mail.example.com ESMTP\r\n')],
    ['closes immediately', 'connection reset', (socket) => socket.end()],
    ['resets immediately', 'connection reset', (socket) => socket.resetAndDestroy()],
  ])('the receiver %s: %s', async (_, error, greet) => {
    const receiver = await listen(() => undefined, greet)
    expect(await open().send(receiver.url)).toMatchObject(reject(error))
    expect(receiver.connections).toBe(1)
  })

  test.each<[string, string[] | string, string, boolean]>([
    ['the name does not exist', 'ENOTFOUND', 'name not found', false],
    ['the name server does not respond', 'EAI_AGAIN', 'name look-up failed', true],
    ['the name server fails', 'EAI_FAIL', 'name look-up failed', true],
    ['a name has no address', [], 'name not found', false],
  ])('%s: %s', async (_, result, error, isOurs) => {
    const { send } = open({ lookup: names(result) })
    expect(await send('http://hooks.example.com/')).toMatchObject({ ...reject(error, isOurs), address: null })
  })

  test.each<[string, Record<string, string>]>([
    ['CR LF in the value of a header', { 'x-name': 'a\r\nx-evil: b' }],
    ['LF in the value of a header', { 'x-name': 'a\nb' }],
    ['NUL in the value of a header', { 'x-name': 'a\0b' }],
    ['CR LF in the name of a header', { 'x-name\r\nx-evil': 'b' }],
    ['a space in the name of a header', { 'x name': 'b' }],
    ['the empty name of a header', { '': 'b' }],
    ['a length that is not that of the body', { 'content-length': '3' }],
    ['another transfer encoding', { 'transfer-encoding': 'chunked' }],
    ['another host', { Host: 'evil.test' }],
  ])('the request has %s, and concurrent requests succeed', async (_, headers) => {
    const receiver = await listenHttp(ok)
    const { send } = open()
    const [before, refused, beside] = await Promise.all([
      send(receiver.url, { body: 'body' }),
      send(receiver.url, { body: 'body', headers }),
      send(receiver.url, { body: 'body' }),
    ])
    expect(refused).toMatchObject(reject('protocol', true))
    expect([before, beside]).toMatchObject([{ status: 200 }, { status: 200 }])
    expect(receiver.received.join('').match(/POST \/hook/g)).toHaveLength(2)
    expect(receiver.received.join('')).not.toContain('evil')
  })
})

describe('a name', () => {
  test.each([
    [['127.0.0.1']],
    [['10.0.0.1', '192.168.0.1']],
    [['::1']],
    [['::ffff:127.0.0.1']],
    [['64:ff9b::7f00:1']],
    [['169.254.169.254']],
    [['fe80::1%lo']],
    [['0.0.0.0']],
  ])('with the addresses %j is not called', async (addresses) => {
    const receiver = await listenHttp(ok)
    const { send } = open({ lookup: names(addresses) }, { allowHttp: true })
    expect(await send(named(receiver))).toMatchObject({ ...reject('address not allowed'), address: null })
    expect(receiver.connections).toBe(0)
  })

  test('that resolves to a public address in the check and to a private one in the request is not called', async () => {
    const receiver = await listenHttp(ok)
    const lookup = vi.fn(names(['8.8.8.8'], ['127.0.0.1']))
    const { egress, send } = open({ lookup }, { allowHttp: true })
    const { href } = egress.check(named(receiver))
    lookup('hooks.example.com', { all: true }, (_, addresses) =>
      expect(addresses).toMatchObject([{ address: '8.8.8.8' }]),
    )
    expect(await send(href)).toMatchObject({ ...reject('address not allowed'), address: null })
    expect(lookup).toHaveBeenCalledTimes(2)
    expect(receiver.connections).toBe(0)
  })

  test('whose connection reaches another address than the checked one receives no bytes', async () => {
    const receiver = await listenHttp(ok)
    let read = 0
    const changing = { family: 4, get address() { return read++ === 0 ? '8.8.8.8' : '127.0.0.1' } } // biome-ignore format: one thing
    const { send } = open({ lookup: (_, __, callback) => callback(null, [changing]) }, { allowHttp: true })
    expect(await send(named(receiver))).toMatchObject({ ...reject('address not allowed'), address: null })
    await eventually(() => expect(receiver.connections).toBe(1))
    await gone(receiver)
    expect(receiver.received).toEqual([''])
  })

  test('is called at its allowed addresses only', async () => {
    const receiver = await listenHttp(ok)
    const { send } = open({ lookup: names(['169.254.169.254', '127.0.0.1', 'fe80::1']) })
    expect(await send(named(receiver))).toMatchObject({ status: 200, address: '127.0.0.1' })
  })

  test('is called at its next address if one does not respond', async () => {
    const receiver = await listenHttp(ok)
    const { send } = open({ lookup: names(['127.0.0.2', '127.0.0.1']) })
    expect(await send(named(receiver))).toMatchObject({ status: 200, address: '127.0.0.1' })
  })

  test('whose addresses all refuse the connection has the failure of the first', async () => {
    const { send } = open({ lookup: names(['127.0.0.2', '127.0.0.1']) })
    const exchange = send(`http://hooks.example.com:${await deadPort()}/`)
    expect(await exchange).toMatchObject({ ...reject('connection refused'), address: '127.0.0.2' })
  })

  test('with a changed address is called at the new address after its connection has closed', async () => {
    const receiver = await listenHttp((_, response) => void response.writeHead(200, { connection: 'close' }).end())
    const { send } = open({ lookup: names(['127.0.0.1'], ['::ffff:127.0.0.1'], ['10.0.0.1', '169.254.0.1']) })
    expect(await send(named(receiver))).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(await send(named(receiver))).toMatchObject({ status: 200, address: expect.stringContaining('127.0.0.1') })
  })

  test('is the host header, and its address is not', async () => {
    const receiver = await listenHttp((request, response) => void response.end(request.headers.host))
    const { send } = open({ lookup: names(['127.0.0.1']) })
    const { body } = await send(`http://Hooks.Example.com.:${receiver.port}/`)
    expect(body).toBe(`hooks.example.com:${receiver.port}`)
  })

  test('is looked up in DNS, and its addresses are checked', async () => {
    const receiver = await listenHttp(ok)
    const server = await startNameServer((_, type) => (type === 'A' ? ['127.0.0.1'] : []))
    const { send } = open({ nameServers: [server.address] }, { allowHttp: true })
    expect(await send(named(receiver))).toMatchObject({ ...reject('address not allowed'), address: null })
    expect(server.questions.toSorted()).toEqual(['hooks.example.com A', 'hooks.example.com AAAA'])
    expect(receiver.connections).toBe(0)
  })

  test('without a response from DNS fails at the deadline', async () => {
    const server = await startNameServer(() => undefined)
    const { send } = open({ nameServers: [server.address] }, {})
    const exchange = send('https://hooks.example.com/', { timeoutMs: 50 })
    expect(await exchange).toMatchObject({ ...reject('name look-up failed', true), address: null })
  })

  test('of a private network is looked up by the system in development', async () => {
    const receiver = await listenHttp(ok)
    expect(await open().send(`http://localhost:${receiver.port}/`)).toMatchObject({ status: 200, address: '127.0.0.1' })
  })
})

test('an exchange does not use the proxies of the environment', async () => {
  const proxy = await listenHttp(ok)
  const receiver = await listenHttp(ok)
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']) {
    vi.stubEnv(name, proxy.url)
    vi.stubEnv(name.toLowerCase(), proxy.url)
  }
  vi.stubEnv('NODE_USE_ENV_PROXY', '1')
  vi.stubEnv('NO_PROXY', '')
  const { send } = open({ lookup: names(['127.0.0.1']) })
  expect(await send(named(receiver))).toMatchObject({ status: 200 })
  expect(await send(receiver.url)).toMatchObject({ status: 200 })
  expect([proxy.connections, receiver.connections]).toEqual([0, 2])
})

describe('an abort signal', () => {
  test('aborted before the exchange prevents it', async () => {
    const receiver = await listenHttp(ok)
    const exchange = open().send(receiver.url, { signal: AbortSignal.abort() })
    expect(await exchange).toMatchObject({ ...reject('aborted', true), address: null })
    expect(receiver.connections).toBe(0)
  })

  test('ends its exchanges and no others', async () => {
    const waiting: ServerResponse[] = []
    const receiver = await listenHttp((_, response) => void waiting.push(response))
    const { send } = open()
    const given = new AbortController()
    const exchanges = [1, 2, 3].map(() => send(receiver.url, { signal: given.signal }))
    const others = [send(receiver.url), send(receiver.url, { signal: new AbortController().signal })]
    await eventually(() => expect(waiting).toHaveLength(5))
    given.abort()
    for (const each of await Promise.all(exchanges)) expect(each).toMatchObject(reject('aborted', true))
    await eventually(() => expect(receiver.open).toBe(2))
    for (const response of waiting) response.end()
    expect(await Promise.all(others)).toMatchObject([{ status: 200 }, { status: 200 }])
  })

  test('has one listener for all its exchanges', async () => {
    const receiver = await listenHttp(ok)
    const { send } = open()
    const { signal } = new AbortController()
    const listened = vi.spyOn(signal, 'addEventListener')
    await Promise.all(Array.from({ length: 50 }, () => send(receiver.url, { signal })))
    expect(listened).toHaveBeenCalledTimes(1)
  })

  test('aborted after the response has no effect', async () => {
    const receiver = await listenHttp(ok)
    const { send } = open()
    const given = new AbortController()
    expect(await send(receiver.url, { signal: given.signal })).toMatchObject({ status: 200 })
    given.abort()
    expect(await send(receiver.url)).toMatchObject({ status: 200 })
    expect(receiver.connections).toBe(1)
  })
})

describe('close', () => {
  test('aborts exchanges in every stage and leaves no socket and no timer', async () => {
    const receiver = await listenHttp((request, response) => {
      if (request.url === '/hook') response.end('ok')
    })
    const handshake = await listen(() => undefined)
    const [sockets, timersBefore] = [socketsFromNow(), timers()]
    const { egress, send } = open({ lookup: () => undefined })
    await Promise.all([send(receiver.url), send(receiver.url)])
    const underWay = [
      send(`${receiver.url}/never`),
      send(handshake.url.replace('http:', 'https:')),
      send('http://hooks.example.com/'),
    ]
    await eventually(() => {
      expect(receiver.received.join()).toContain('/hook/never')
      expect(handshake.received.join()).toContain(CLIENT_HELLO)
    })
    expect(sockets()).toBeGreaterThanOrEqual(3)
    await egress.close()
    for (const each of await Promise.all(underWay)) expect(each).toMatchObject(reject('aborted', true))
    await Promise.all([gone(receiver), gone(handshake)])
    expect(sockets()).toBe(0)
    expect(timers()).toBeLessThanOrEqual(timersBefore)
  })

  test('aborts later exchanges', async () => {
    const receiver = await listenHttp(ok)
    const { egress, send } = open()
    await egress.close()
    expect(await send(receiver.url)).toMatchObject(reject('aborted', true))
    await egress.close()
    expect(receiver.connections).toBe(0)
  })
})

/** Timers that keep this process alive. */
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

/** Writes a beginning, and then pieces for ever; calls `written` with each piece. */
function drip(socket: Socket, beginning: string, piece: string, written: () => void = () => undefined): void {
  socket.write(beginning)
  const timer = setInterval(() => {
    socket.write(piece)
    written()
  }, 5)
  socket.on('close', () => clearInterval(timer))
}

describe('own receivers', () => {
  test('exactly their URLs are allowed and called, and no other URL of their origin', async () => {
    const called: (string | undefined)[] = []
    const receiver = await listenHttp((request, response) => {
      called.push(request.url)
      response.end('ok')
    })
    const { egress, send } = open({}, {})
    const { url } = receiver
    expect(await send(url)).toMatchObject({ status: null, error: expect.stringContaining('not allowed') })

    egress.allowOwnReceivers([url])
    expect(egress.check(url).href).toBe(url)
    expect(await send(url)).toMatchObject({ status: 200, body: 'ok', address: '127.0.0.1' })

    const { origin } = new URL(url)
    const others = [
      `${origin}/admin`,
      `${url}/`,
      `${url}?a`,
      `${url}#a`,
      `${origin}/a/../hook`,
      `http://localhost:${receiver.port}/hook`,
    ]
    for (const other of others) {
      expect(() => egress.check(other), other).toThrow('The URL is not allowed')
      expect(await send(other), other).toMatchObject({ status: null, error: expect.stringContaining('not allowed') })
    }
    expect(called).toEqual(['/hook'])
  })
})
