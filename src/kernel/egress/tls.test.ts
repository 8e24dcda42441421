import { createServer as createHttpsServer } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Certificate, certificate, expiredCertificate } from './certificates.fixture.ts'
import { Egress, type Exchanged } from './egress.ts'
import { gone, listen, listenHttp, watched } from './receivers.fixture.ts'

const NAME = 'hooks.example.com'

const toUs: LookupFunction = (_, __, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }])

function open(authorities?: string) {
  const egress = new Egress({ allowPrivateNetworks: true }, { lookup: toUs, authorities })
  onTestFinished(() => egress.close())
  return (url: string): Promise<Exchanged> =>
    egress.send({ url, method: 'POST', headers: {}, body: '{}', timeoutMs: 10_000, maxResponseBytes: 100 })
}

async function secured(own: Certificate, headers: Record<string, string> = {}) {
  const requested = vi.fn()
  const server = createHttpsServer(own, (_, response) => {
    requested()
    response.writeHead(200, headers).end('ok')
  })
  const handshakes: { servername: string | false; isReused: boolean; protocol: string | false | null }[] = []
  server.on('secureConnection', (socket: TLSSocket) => {
    const { servername, alpnProtocol } = socket as TLSSocket & { servername?: string | false }
    handshakes.push({ servername: servername ?? false, isReused: socket.isSessionReused(), protocol: alpnProtocol })
  })
  server.on('tlsClientError', () => undefined)
  const receiver = await watched(server, 'https')
  return { receiver, requested, handshakes, named: `https://${NAME}:${receiver.port}/hook` }
}

const failed = (error: string) => ({ status: null, error, isOurs: false, address: '127.0.0.1' })

describe('a receiver by TLS', () => {
  test('receives its name and HTTP/1.1 on one connection', async () => {
    const { named, handshakes, receiver } = await secured(certificate)
    const send = open(certificate.cert)
    for (let i = 0; i < 3; i++)
      expect(await send(named)).toMatchObject({ status: 200, body: 'ok', address: '127.0.0.1', error: null })
    expect(handshakes).toEqual([{ servername: NAME, isReused: false, protocol: 'http/1.1' }])
    expect(receiver.connections).toBe(1)
  })

  test('is accepted by its address if the certificate contains it', async () => {
    const { receiver, handshakes } = await secured(certificate)
    expect(await open(certificate.cert)(receiver.url)).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(handshakes).toMatchObject([{ servername: false }])
  })

  test('resumes the TLS session of an earlier connection', async () => {
    const { named, handshakes } = await secured(certificate, { connection: 'close' })
    const send = open(certificate.cert)
    for (let i = 0; i < 2; i++) expect(await send(named)).toMatchObject({ status: 200 })
    expect(handshakes.map(({ isReused }) => isReused)).toEqual([false, true])
  })

  test.each<[string, { of: Certificate; trusts?: string; name?: string }]>([
    ['with an unknown certificate authority', { of: certificate }],
    ['whose certificate is for another name', { of: certificate, trusts: certificate.cert, name: 'other.example.com' }],
    ['whose certificate has expired', { of: expiredCertificate, trusts: expiredCertificate.cert }],
  ])('%s receives no request', async (_, { of, trusts, name = NAME }) => {
    const { named, requested, receiver } = await secured(of)
    expect(await open(trusts)(named.replace(NAME, name))).toMatchObject(failed('tls'))
    await gone(receiver)
    expect(requested).not.toHaveBeenCalled()
  })

  test('is not trusted by NODE_TLS_REJECT_UNAUTHORIZED', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const { named } = await secured(certificate)
    expect(await open()(named)).toMatchObject(failed('tls'))
  })

  test('that does not support TLS fails', async () => {
    const { port } = await listenHttp((_, response) => void response.end('ok'))
    expect(await open(certificate.cert)(`https://${NAME}:${port}/`)).toMatchObject(failed('tls'))
  })

  test('that closes the connection during the handshake fails', async () => {
    const { port } = await listen((socket) => void socket.resetAndDestroy())
    expect(await open(certificate.cert)(`https://${NAME}:${port}/`)).toMatchObject(failed('connection reset'))
  })
})
