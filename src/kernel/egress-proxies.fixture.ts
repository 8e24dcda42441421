/** Proxies on real sockets, which connect to this machine whatever address they are told; they end with their test. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Receiver, watched } from './egress-receivers.fixture.ts'

export interface Certificate {
  readonly key: Buffer
  readonly cert: Buffer
}

export interface TestProxy extends Receiver {
  /** As it is configured, without credentials. */
  readonly address: string
  readonly asked: readonly { readonly authority: string; readonly headers: IncomingHttpHeaders }[]
}

/** What it does about a CONNECT; `open` connects and answers 200. */
export type Conduct = (socket: Socket, authority: string, open: () => void) => void

export async function startProxy(
  conduct: Conduct = (_, __, open) => open(),
  certificate?: Certificate,
): Promise<TestProxy> {
  const asked: { authority: string; headers: IncomingHttpHeaders }[] = []
  const server: Server = certificate ? createHttpsServer(certificate) : createServer()
  server.on('connect', ({ url = '', headers }: IncomingMessage, socket: Socket) => {
    asked.push({ authority: url, headers })
    socket.on('error', () => undefined).on('end', () => socket.end())
    socket.resume()
    conduct(socket, url, () => void tunnel(socket, url))
  })
  const receiver = await watched(server)
  const address = `${certificate ? 'https' : 'http'}://127.0.0.1:${receiver.port}`
  return Object.defineProperties(receiver, Object.getOwnPropertyDescriptors({ address, asked })) as TestProxy
}

async function tunnel(socket: Socket, authority: string): Promise<void> {
  const port = Number(authority.slice(authority.lastIndexOf(':') + 1))
  const to = connect(port, '127.0.0.1').on('error', () => socket.destroy())
  socket.on('close', () => to.destroy())
  await once(to, 'connect')
  socket.write('HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n')
  socket.pipe(to).pipe(socket)
}

/** For a name, and for 127.0.0.1; trusted by who is given it as an authority. */
export async function certificateFor(name: string): Promise<Certificate> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-egress-'))
  const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')]
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name},IP:127.0.0.1`]
  const kind = ['-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', key, '-out', cert]
  await promisify(execFile)('openssl', ['req', ...kind, ...subject])
  const certificate = { key: await readFile(key), cert: await readFile(cert) }
  await rm(directory, { recursive: true })
  return certificate
}
