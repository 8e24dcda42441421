/** Egress and processes: ports that neither accept nor refuse, and the end of a process with open connections. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpsServer } from 'node:https'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../testing/base/tenancy.ts'
import { certificate } from './certificates.fixture.ts'
import { startNameServer } from './dns.fixture.ts'
import { Egress, type EgressSettings } from './egress.ts'
import { startProxy } from './proxies.fixture.ts'
import { listenHttp, watched } from './receivers.fixture.ts'
import { unresponsivePort } from './unresponsive-port.fixture.ts'

const DEVELOPMENT: EgressSettings = { allowPrivateNetworks: true, allowHttp: true }
const PUBLIC = 'http://93.184.216.34/'

function open(settings: EgressSettings) {
  const egress = new Egress(settings)
  onTestFinished(() => egress.close())
  const send = (url: string, timeoutMs = 60_000) =>
    egress.send({ url, method: 'POST', headers: {}, timeoutMs, maxResponseBytes: 16_384 })
  return { egress, send }
}

/** Connections of this process. */
const handles = () =>
  process
    .getActiveResourcesInfo()
    .filter((name) => /TCP|TLS|GetAddrInfo/.test(name))
    .toSorted()

describe.each<[string, (port: number) => { url: string; settings: EgressSettings; timeout: object }]>([
  [
    'receiver',
    (port) => ({
      url: `http://127.0.0.1:${port}/`,
      settings: DEVELOPMENT,
      timeout: { error: 'timeout', isOurs: false },
    }),
  ],
  [
    'proxy',
    (port) => ({
      url: PUBLIC,
      settings: { allowHttp: true, proxy: `http://127.0.0.1:${port}` },
      timeout: { error: 'proxy unreachable', isOurs: true },
    }),
  ],
])('a connection to a %s that is neither accepted nor refused', (_, of) => {
  test('ends by the deadline', async () => {
    const { url, settings, timeout } = of(await unresponsivePort())
    expect(await open(settings).send(url, 50)).toMatchObject({ status: null, address: null, ...timeout })
  })

  test('ends when the egress closes, and leaves no connection open', async () => {
    const { url, settings } = of(await unresponsivePort())
    const before = handles()
    const { egress, send } = open(settings)
    const sent = send(url)
    await egress.close()
    expect(await sent).toMatchObject({ status: null, error: 'aborted', isOurs: true })
    await eventually(() => expect(handles()).toEqual(before))
  })
})

describe('a process', () => {
  test('ends with idle connections without closing its egress', async () => {
    const receiver = await listenHttp((_, response) => void response.end('ok'))
    const program = `const egress = new Egress({ allowPrivateNetworks: true, allowHttp: true })
      const { status } = await egress.send({ ...exchange, url: ${JSON.stringify(receiver.url)} })
      process.exitCode = status === 200 ? 7 : 1`
    expect(await exitCode(program)).toBe(7)
  })

  test('ends with idle tunnels through a proxy without closing its egress', async () => {
    const server = createHttpsServer(certificate, (_, response) => void response.end('ok'))
    const receiver = await watched(server, 'https')
    const proxy = await startProxy(undefined, certificate)
    const settings = { allowPrivateNetworks: true, proxy: proxy.address }
    const program = `const network = { authorities: ${JSON.stringify(certificate.cert)} }
      const egress = new Egress(${JSON.stringify(settings)}, network)
      const { status } = await egress.send({ ...exchange, url: ${JSON.stringify(receiver.url)} })
      process.exitCode = status === 200 ? 7 : 1`
    expect(await exitCode(program)).toBe(7)
  })

  test('does not wait for a name server after it has closed its egress', async () => {
    const server = await startNameServer(() => undefined)
    const program = `const egress = new Egress({}, { nameServers: [${JSON.stringify(server.address)}] })
      const sent = egress.send({ ...exchange, url: 'https://hooks.example.com/' })
      await egress.close()
      process.exitCode = (await sent).error === 'aborted' ? 7 : 1`
    expect(await exitCode(program)).toBe(7)
    expect(server.questions.length).toBeLessThanOrEqual(2) // a further attempt follows after two seconds
  })
})

async function exitCode(program: string): Promise<unknown> {
  const source = `import { Egress } from ${JSON.stringify(new URL('./egress.ts', import.meta.url).href)}
    const exchange = { method: 'GET', headers: {}, timeoutMs: 60000, maxResponseBytes: 10 }
    ${program}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], { stdio: 'inherit' })
  return (await once(child, 'exit'))[0]
}
