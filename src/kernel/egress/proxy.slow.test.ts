import { createServer as createHttpsServer } from 'node:https'
import type { LookupFunction, Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { type Certificate, certificate } from './certificates.fixture.ts'
import { Egress, type EgressNetwork, type EgressSettings, type Exchange, type Exchanged } from './egress.ts'
import { type Conduct, startProxy } from './proxies.fixture.ts'
import { proxyOf } from './proxy-url.ts'
import { deadPort, gone, listen, listenHttp, socketsFromNow, watched } from './receivers.fixture.ts'

const NAME = 'hooks.example.com'
const PUBLIC = '93.184.216.34'

const names =
  (...addresses: string[]): LookupFunction =>
  (_, __, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )

function open(proxy: string, network: EgressNetwork = {}, settings: EgressSettings = { allowHttp: true }) {
  const egress = new Egress({ ...settings, proxy }, { lookup: names(PUBLIC), ...network })
  onTestFinished(() => egress.close())
  const send = (url: string, exchange: Partial<Exchange> = {}): Promise<Exchanged> =>
    egress.send({ url, method: 'POST', headers: {}, timeoutMs: 10_000, maxResponseBytes: 16_384, ...exchange })
  return { egress, send }
}

async function secured(headers: Record<string, string> = {}) {
  const handshakes: { servername: unknown; isReused: boolean; protocol: unknown }[] = []
  const requests: object[] = []
  const server = createHttpsServer(certificate, (request, response) => {
    requests.push(request.headers)
    response.writeHead(200, headers).end('ok')
  })
  server.on('secureConnection', (socket: TLSSocket & { servername?: unknown }) => {
    const { servername, alpnProtocol } = socket
    handshakes.push({ servername, isReused: socket.isSessionReused(), protocol: alpnProtocol })
  })
  server.on('tlsClientError', () => undefined)
  const receiver = await watched(server, 'https')
  return { receiver, handshakes, requests, named: `https://${NAME}:${receiver.port}/hook` }
}

const named = ({ port }: { port: number }) => `http://${NAME}:${port}/hook`
const reject = (error: string, isOurs: boolean, address: string | null) => ({ status: null, error, isOurs, address })
const says =
  (response: string): Conduct =>
  (socket) =>
    void socket.end(response)
const unresponsive: Conduct = () => undefined

describe('through a proxy', () => {
  test.each<[string, Certificate | undefined]>([
    ['without TLS', undefined],
    ['with TLS', certificate],
  ])('%s, an https receiver is called by name and its connection is reused', async (_, own) => {
    const { named, handshakes, requests, receiver } = await secured()
    const proxy = await startProxy(undefined, own)
    const { send } = open(proxy.address.replace('://', '://us:p%40ss%3A%C3%BC@'), { authorities: certificate.cert }, {})
    for (let i = 0; i < 3; i++)
      expect(await send(named)).toMatchObject({ status: 200, body: 'ok', address: PUBLIC, error: null })
    const authority = `${PUBLIC}:${receiver.port}`
    const authorization = `Basic ${Buffer.from('us:p@ss:ü').toString('base64')}`
    expect(proxy.asked).toEqual([{ authority, headers: { host: authority, 'proxy-authorization': authorization } }])
    expect(handshakes).toEqual([{ servername: NAME, isReused: false, protocol: 'http/1.1' }])
    expect(receiver.connections).toBe(1)
    expect(JSON.stringify(requests)).not.toContain('proxy')
  })

  test('http requests are the same as without a proxy', async () => {
    const receiver = await listenHttp((request, response) => void response.end(JSON.stringify(request.headers)))
    const proxy = await startProxy()
    const { send } = open(proxy.address.replace('://', '://us:secret@'))
    for (let i = 0; i < 2; i++) {
      const { body, ...exchanged } = await send(named(receiver))
      expect(exchanged).toMatchObject({ status: 200, address: PUBLIC })
      expect(JSON.parse(body)).toEqual({
        host: `${NAME}:${receiver.port}`,
        connection: 'keep-alive',
        'content-length': '0',
      })
    }
    expect(proxy.asked.map(({ authority }) => authority)).toEqual([`${PUBLIC}:${receiver.port}`])
  })

  test('CONNECT has an IPv6 address in brackets, and no credentials if none are configured', async () => {
    const receiver = await listenHttp((_, response) => void response.end('ok'))
    const proxy = await startProxy()
    const { send } = open(proxy.address, { lookup: names('2606:4700::1111') })
    expect(await send(named(receiver))).toMatchObject({ status: 200, address: '2606:4700::1111' })
    expect(await send(`http://[2606:4700::2222]:${receiver.port}/`)).toMatchObject({ address: '2606:4700::2222' })
    const authorities = ['[2606:4700::1111]', '[2606:4700::2222]'].map((host) => `${host}:${receiver.port}`)
    expect(proxy.asked).toEqual(authorities.map((authority) => ({ authority, headers: { host: authority } })))
  })

  test('a TLS session is resumed on a new connection', async () => {
    const { named, handshakes } = await secured({ connection: 'close' })
    const { send } = open((await startProxy()).address, { authorities: certificate.cert })
    for (let i = 0; i < 2; i++) expect(await send(named)).toMatchObject({ status: 200 })
    expect(handshakes.map(({ isReused }) => isReused)).toEqual([false, true])
  })

  test.each([
    ['with an unknown certificate authority', NAME, false],
    ['whose certificate is for another name', 'other.example.com', true],
  ])('a receiver %s receives no request', async (_, name, isTrusted) => {
    const { named, requests, receiver } = await secured()
    const proxy = await startProxy()
    const { send } = open(proxy.address, isTrusted ? { authorities: certificate.cert } : {})
    expect(await send(named.replace(NAME, name))).toMatchObject(reject('tls', false, PUBLIC))
    await gone(receiver, proxy)
    expect(requests).toEqual([])
  })

  test('a proxy with an untrusted certificate receives no CONNECT', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const proxy = await startProxy(undefined, certificate)
    expect(await open(proxy.address).send(`https://${NAME}/`)).toMatchObject(reject('proxy unreachable', true, null))
    expect(proxy.asked).toEqual([])
  })

  test.each<[string, string, string[]]>([
    ['a name with a private address', `https://${NAME}/`, ['10.0.0.7']],
    ['a name with a mapped private address', `https://${NAME}/`, ['::ffff:169.254.169.254']],
    ['a private address', 'http://169.254.169.254/latest', []],
    ['an address in another notation', 'http://0x7f.1/', []],
    ['a name of the private network', 'http://proxy.internal/', []],
  ])('%s is rejected without a request to the proxy', async (_, url, addresses) => {
    const proxy = await startProxy()
    const { send } = open(proxy.address, { lookup: names(...addresses) })
    expect(await send(url)).toMatchObject(reject('address not allowed', false, null))
    expect(proxy.connections).toBe(0)
  })

  test('the address of the proxy is not an allowed destination', async () => {
    const proxy = await startProxy()
    const { send } = open(proxy.address)
    expect(await send(`${proxy.address}/`)).toMatchObject(reject('address not allowed', false, null))
    expect(proxy.connections).toBe(0)
  })

  test('the proxy settings of the environment have no effect', async () => {
    const receiver = await listenHttp((_, response) => void response.end('ok'))
    const [configured, other] = [await startProxy(), await startProxy()]
    for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']) {
      vi.stubEnv(name, other.address)
      vi.stubEnv(name.toLowerCase(), other.address)
    }
    vi.stubEnv('NODE_USE_ENV_PROXY', '1')
    vi.stubEnv('NO_PROXY', '*')
    expect(await open(configured.address).send(named(receiver))).toMatchObject({ status: 200 })
    expect([configured.connections, other.connections]).toEqual([1, 0])
  })
})

describe('the next address is tried', () => {
  const [first, second] = ['93.184.216.1', '93.184.216.2']

  test.each<[string, Conduct]>([
    ['is unreachable', says('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nno\n')],
    ['has no response', unresponsive],
  ])('if one %s', async (_, conduct) => {
    const receiver = await listenHttp((_, response) => void response.end('ok'))
    const proxy = await startProxy((socket, authority, open) =>
      authority.startsWith(`${first}:`) ? conduct(socket, authority, open) : open(),
    )
    const { send } = open(proxy.address, { lookup: names('10.0.0.7', first, second), attemptMs: 50 })
    expect(await send(named(receiver))).toMatchObject({ status: 200, body: 'ok', address: second })
    const { port } = receiver
    expect(proxy.asked.map(({ authority }) => authority)).toEqual([`${first}:${port}`, `${second}:${port}`])
    await eventually(() => expect(proxy.open).toBe(1))
  })

  test('until all are unreachable', async () => {
    const proxy = await startProxy(says('HTTP/1.1 504 Gateway Timeout\r\n\r\n'))
    const { send } = open(proxy.address, { lookup: names(first, second) })
    expect(await send(`https://${NAME}/`)).toMatchObject(reject('host unreachable', false, first))
    expect(proxy.asked).toHaveLength(2)
  })

  test('but not after a rejection by the proxy', async () => {
    const proxy = await startProxy(says('HTTP/1.1 403 Forbidden\r\n\r\n'))
    const { send } = open(proxy.address, { lookup: names(first, second) })
    expect(await send(`https://${NAME}/`)).toMatchObject(reject('proxy refused', true, null))
    expect(proxy.asked).toHaveLength(1)
  })
})

describe('a proxy that', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  const LONG = `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(16_384)}`

  test.each<[string, string, Conduct]>([
    ['requires credentials', 'proxy refused', says('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')],
    ['forbids the destination', 'proxy refused', says('HTTP/1.1 403 Forbidden\r\n\r\n')],
    ['returns a bad request', 'proxy refused', says('HTTP/1.0 400\r\n\r\n')],
    ['redirects', 'proxy refused', says('HTTP/1.1 302 Found\r\nlocation: https://example.com/\r\n\r\n')],
    ['does not use HTTP', 'proxy unreachable', (socket) => void socket.write('SSH-2.0-OpenSSH_9.2\r\n')],
    ['returns an invalid status', 'proxy unreachable', (socket) => void socket.write('HTTP/1.1 abc\r\n\r\n')],
    ['closes the connection', 'proxy unreachable', (socket) => void socket.end()],
    ['resets the connection', 'proxy unreachable', (socket) => void socket.resetAndDestroy()],
    ['ends in its header', 'proxy unreachable', says('HTTP/1.1 200 OK\r\nvia')],
    ['never ends its header', 'proxy unreachable', (socket) => void socket.write(LONG)],
    ['returns a header above the limit', 'proxy unreachable', (socket) => void socket.write(`${LONG}\r\n\r\n`)],
  ])('%s: %s', async (_, error, conduct) => {
    const proxy = await startProxy(conduct)
    expect(await open(proxy.address).send(`https://${NAME}/`)).toMatchObject(reject(error, true, null))
    await gone(proxy)
  })

  test('is unreachable causes a failure of Tenantry', async () => {
    const { send } = open(`http://127.0.0.1:${await deadPort()}`)
    expect(await send(`https://${NAME}/`)).toMatchObject(reject('proxy unreachable', true, null))
  })

  test('does not respond is abandoned at the deadline of the exchange', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const proxy = await startProxy(unresponsive)
    const exchange = open(proxy.address).send(`https://${NAME}/`, { timeoutMs: 60_000 })
    await eventually(() => expect(proxy.asked).toHaveLength(1))
    vi.advanceTimersByTime(60_000)
    expect(await exchange).toMatchObject(reject('timeout', false, null))
    await gone(proxy)
  })

  test('responds byte by byte is accepted', async () => {
    const proxy = await startProxy((socket) => {
      const bytes = [...'HTTP/1.1 200 OK\r\n\r\n']
      const timer = setInterval(() => {
        const next = bytes.shift()
        if (next) socket.write(next)
        else clearInterval(timer)
      }, 1)
      socket.on('data', (piece) => {
        if (piece.includes('POST /hook')) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
      })
    })
    expect(await open(proxy.address).send(`http://${NAME}/hook`)).toMatchObject({ body: 'ok', address: PUBLIC })
  })

  test.each<[string, (socket: Socket) => void]>([
    ['ends the tunnel', (socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\n')],
    ['resets the connection', (socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\n', () => socket.resetAndDestroy())],
  ])('%s after the tunnel is open causes a failed exchange', async (_, conduct) => {
    const proxy = await startProxy(conduct)
    const { send } = open(proxy.address)
    expect(await send(`https://${NAME}/`)).toMatchObject({ ...reject('connection reset', false, PUBLIC) })
    expect(await send(`http://${NAME}/`)).toMatchObject({ ...reject('connection reset', false, PUBLIC) })
    await gone(proxy)
  })
})

describe('bytes behind the response of the proxy', () => {
  test.each(['http', 'https'])('are not the response to a request by %s', async (scheme) => {
    const response = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno'
    const proxy = await startProxy((socket) => void socket.write(`HTTP/1.1 200 OK\r\n\r\n${response}`))
    expect(await open(proxy.address).send(`${scheme}://${NAME}/`)).toMatchObject(reject('protocol', false, PUBLIC))
    await gone(proxy)
    expect(proxy.asked).toHaveLength(1)
  })

  test('are rejected, also if a receiver sends them later and before the request', async () => {
    const receiver = await listen(
      () => undefined,
      (socket) => void socket.write('220 mail.example.com ESMTP\r\n'),
    )
    const proxy = await startProxy()
    expect(await open(proxy.address).send(named(receiver))).toMatchObject(reject('protocol', false, PUBLIC))
    await gone(proxy, receiver)
    expect(proxy.asked).toHaveLength(1)
  })
})

describe('close', () => {
  const stages: [string, Conduct, 'http' | 'https', string][] = [
    ['CONNECT is in flight', unresponsive, 'https', 'CONNECT '],
    [
      'a TLS handshake is in progress',
      (socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\n'),
      'https',
      '\r\n\r\n\x16',
    ],
    ['a response is pending', (socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\n'), 'http', '\r\n\r\nPOST '],
  ]

  test.each(stages)('while %s leaves no socket open', async (_, conduct, scheme, seen) => {
    const proxy = await startProxy(conduct)
    const sockets = socketsFromNow()
    const { egress, send } = open(proxy.address)
    const sent = send(`${scheme}://${NAME}/`)
    await eventually(() => expect(proxy.received.join()).toContain(seen))
    expect(sockets()).toBeGreaterThan(0)
    await egress.close()
    expect(await sent).toMatchObject({ error: 'aborted' })
    await gone(proxy)
    expect(egress.connections).toBe(0)
    expect(sockets()).toBe(0)
  })

  test('during a TLS handshake with the proxy leaves no socket open', async () => {
    const unresponsiveTls = await listen(() => undefined)
    const sockets = socketsFromNow()
    const { egress, send } = open(`https://127.0.0.1:${unresponsiveTls.port}`)
    const sent = send(`https://${NAME}/`)
    await eventually(() => expect(unresponsiveTls.received.join()).toContain('\x16'))
    expect(sockets()).toBeGreaterThan(0)
    await egress.close()
    expect(await sent).toMatchObject({ error: 'aborted' })
    await gone(unresponsiveTls)
    expect(sockets()).toBe(0)
  })

  test('before the response of a look-up sends no CONNECT', async () => {
    const receiver = await listenHttp((_, response) => void response.end('ok'))
    const proxy = await startProxy()
    const late: (() => void)[] = []
    const { send } = open(proxy.address, {
      lookup: (name, _, found) => {
        const resolve = () => found(null, [{ address: PUBLIC, family: 4 }])
        if (name === NAME) resolve()
        else late.push(resolve)
      },
    })
    const exchange = send('http://late.example.com/', { timeoutMs: 50 })
    expect(await exchange).toMatchObject(reject('name look-up failed', true, null))
    for (const resolve of late) resolve()
    expect(await send(named(receiver))).toMatchObject({ status: 200 })
    expect(late).toHaveLength(1)
    expect(proxy.connections).toBe(1)
  })

  test.each(['http', 'https'])('closes an idle tunnel of %s', async (scheme) => {
    const { named: secure } = await secured()
    const plain = await listenHttp((_, response) => void response.end('ok'))
    const proxy = await startProxy(undefined, certificate)
    const { egress, send } = open(proxy.address, { authorities: certificate.cert })
    expect(await send(scheme === 'https' ? secure : named(plain))).toMatchObject({ status: 200 })
    expect(proxy.open).toBe(1)
    await egress.close()
    await gone(proxy)
  })
})

describe('the URL of a proxy', () => {
  test.each([
    ['http://proxy.example', { isSecure: false, host: 'proxy.example', port: 80, authorization: undefined }],
    ['https://proxy.example/', { isSecure: true, host: 'proxy.example', port: 443, authorization: undefined }],
    ['http://[::1]:3128', { isSecure: false, host: '::1', port: 3_128, authorization: undefined }],
    ['http://a%3Ab@proxy.example', { reason: expect.stringContaining('percent-encoded') }],
    ['http://us:p%ss@proxy.example', { reason: expect.stringContaining('percent-encoded') }],
    ['http://us@proxy.example', { host: 'proxy.example', authorization: `Basic ${btoa('us:')}` }],
  ])('%s', (url, proxy) => expect(proxyOf(url)).toMatchObject(proxy))

  test.each([
    ...[
      '',
      'proxy.example:3128',
      'socks5://us:secret@proxy.example',
      'http://',
      'http://us:secret@',
      'http:proxy.example',
    ],
    ...['http://us:secret@proxy.example/path', 'http://us:secret@proxy.example?a', 'http://us:secret@proxy.example/#'],
    ...['http://us:secret@proxy.example:0', 'http://us:secret@proxy.example:65536', 'http://us:sec ret@proxy.example'],
    ...['http://us:secret@proxy.example\\a', 'http://us:secret@proxy.example\r\nx: y', 'http://us:secret@[::1'],
  ])('rejects the proxy URL %j without quoting it', (proxy) => {
    expect(() => new Egress({ proxy })).toThrow(
      /^egress\.proxy: must be a URL such as http:\/\/user:password@host:3128$/,
    )
  })
})
