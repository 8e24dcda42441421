import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer as createHttpsServer } from 'node:https'
import type { LookupFunction } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Egress, type Exchanged } from './egress.ts'
import { listen, listenHttp, watched } from './egress-receivers.fixture.ts'

const NAME = 'hooks.example.com'

interface Certificate {
  readonly key: Buffer
  readonly cert: Buffer
}

let directory: string
let good: Certificate
let past: Certificate

const openssl = (...args: string[]) => promisify(execFile)('openssl', args)

const file = (name: string) => join(directory, name)

async function certificate(): Promise<Certificate> {
  const subject = ['-subj', `/CN=${NAME}`, '-addext', `subjectAltName=DNS:${NAME},IP:127.0.0.1`]
  const files = ['-keyout', file('key.pem'), '-out', file('good.pem')]
  await openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...subject, ...files)
  return { key: await readFile(file('key.pem')), cert: await readFile(file('good.pem')) }
}

/** The same, but that it ended yesterday. */
async function expired({ key }: Certificate): Promise<Certificate> {
  await openssl('x509', '-in', file('good.pem'), '-signkey', file('key.pem'), '-days', '-1', '-out', file('past.pem'))
  return { key, cert: await readFile(file('past.pem')) }
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'tenantry-egress-'))
  good = await certificate()
  past = await expired(good)
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const toUs: LookupFunction = (_, __, answer) => answer(null, [{ address: '127.0.0.1', family: 4 }])

function open(authorities?: Buffer) {
  const egress = new Egress({ allowPrivateNetworks: true }, { lookup: toUs, authorities })
  onTestFinished(() => egress.close())
  return (url: string): Promise<Exchanged> =>
    egress.send({ url, method: 'POST', headers: {}, body: '{}', timeoutMs: 10_000, maxResponseBytes: 100 })
}

async function secured(certificate: Certificate, headers: Record<string, string> = {}) {
  const requested = vi.fn()
  const server = createHttpsServer(certificate, (_, response) => {
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
  test('is called by its name, over HTTP/1.1, on one connection', async () => {
    const { named, handshakes, receiver } = await secured(good)
    const send = open(good.cert)
    for (let i = 0; i < 3; i++)
      expect(await send(named)).toMatchObject({ status: 200, body: 'ok', address: '127.0.0.1', error: null })
    expect(handshakes).toEqual([{ servername: NAME, isReused: false, protocol: 'http/1.1' }])
    expect(receiver.connections).toBe(1)
  })

  test('is called by its address, for which its certificate stands too', async () => {
    const { receiver, handshakes } = await secured(good)
    expect(await open(good.cert)(receiver.url)).toMatchObject({ status: 200, address: '127.0.0.1' })
    expect(handshakes).toMatchObject([{ servername: false }])
  })

  test('is secured in less time when it was called before', async () => {
    const { named, handshakes } = await secured(good, { connection: 'close' })
    const send = open(good.cert)
    for (let i = 0; i < 2; i++) expect(await send(named)).toMatchObject({ status: 200 })
    expect(handshakes.map(({ isReused }) => isReused)).toEqual([false, true])
  })

  test.each<[string, () => { of: Certificate; trusts?: Buffer; name?: string }]>([
    ['whose authority nobody knows', () => ({ of: good })],
    ['whose certificate is for another name', () => ({ of: good, trusts: good.cert, name: 'other.example.com' })],
    ['whose certificate has expired', () => ({ of: past, trusts: past.cert })],
  ])('%s is sent nothing', async (_, given) => {
    const { of, trusts, name = NAME } = given()
    const { named, requested, receiver } = await secured(of)
    expect(await open(trusts)(named.replace(NAME, name))).toMatchObject(failed('tls'))
    await vi.waitFor(() => expect(receiver.open).toBe(0))
    expect(requested).not.toHaveBeenCalled()
  })

  test('is not trusted because the environment says so', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const { named } = await secured(good)
    expect(await open()(named)).toMatchObject(failed('tls'))
  })

  test('that does not speak it', async () => {
    const { port } = await listenHttp((_, response) => void response.end('ok'))
    expect(await open(good.cert)(`https://${NAME}:${port}/`)).toMatchObject(failed('tls'))
  })

  test('that hangs up in the handshake', async () => {
    const { port } = await listen((socket) => void socket.resetAndDestroy())
    expect(await open(good.cert)(`https://${NAME}:${port}/`)).toMatchObject(failed('connection reset'))
  })
})
