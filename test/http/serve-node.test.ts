/** The service's own server: where it listens, and how it ends. */
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { z } from 'zod'
import { type NodeServer, serveNode } from '../../src/http/hosts/node.ts'
import { operation } from '../../src/kernel/api/operation.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { ADMIN, PREFIX, type Served, send, served } from './served.ts'

/** Answers when the test says so. */
class Gate {
  waiting = 0
  #opened = Promise.withResolvers<void>()

  async pass(): Promise<{ passed: boolean }> {
    this.waiting++
    await this.#opened.promise
    return { passed: true }
  }

  open(): void {
    this.#opened.resolve()
  }
}

let gate = new Gate()
const gateSatellite = defineSatellite({
  name: 'gate',
  summary: 'A request that runs for as long as a test wants',
  service: () => null,
  operations: [
    operation({
      name: 'gate.pass',
      method: 'GET',
      path: '/gate',
      summary: 'Wait',
      reply: z.object({ passed: z.boolean() }),
      handle: () => gate.pass(),
    }),
  ],
})

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'), [gateSatellite], {}, 'api')
})
afterAll(() => tenancy.stop())

const serve = (host = '127.0.0.1') => serveNode(tenancy.http, { port: 0, host })

describe('listening', () => {
  test('port 0 is a free one, and the URL says which', async () => {
    const server = await serve()
    expect(server.port).toBeGreaterThan(0)
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`)
    expect(await send(server.url, 'GET /livez')).toMatchObject({ status: 200 })
    await server.close(0)
  })

  test('all addresses are shown as one that can be opened', async () => {
    const server = await serve('0.0.0.0')
    expect(server.url).toBe(`http://localhost:${server.port}`)
    await server.close(0)
  })

  test('a port in use is said in words', async () => {
    const server = await serve()
    const second = serveNode(tenancy.http, { port: server.port, host: '127.0.0.1' })
    await expect(second).rejects.toThrow(`port ${server.port} of 127.0.0.1 is in use`)
    await server.close(0)
  })

  test('an address of another machine is said in words', async () => {
    await expect(serve('192.0.2.1')).rejects.toThrow('192.0.2.1 is not an address of this machine')
  })
})

describe('closing', () => {
  const ask = async (server: NodeServer, agent: Agent) => {
    gate = new Gate()
    const pending = once(request(`${server.url}${PREFIX}/gate`, { agent, headers: ADMIN }).end(), 'response')
    pending.catch(() => undefined) // the test looks at it later
    await vi.waitUntil(() => gate.waiting === 1, { timeout: 20_000 })
    return { pending }
  }

  test('waits for what runs, and takes nothing new', async () => {
    const server = await serve()
    const agent = new Agent({ keepAlive: true })
    const { pending } = await ask(server, agent)
    const closed = server.close(60_000)
    await expect(send(server.url, 'GET /livez')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    gate.open()
    const [incoming] = await pending
    expect(incoming.headers.connection).toBe('close')
    expect(await json(incoming)).toEqual({ passed: true })
    await closed
    agent.destroy()
  })

  test('closes idle connections at once: used ones, and those that never asked', async () => {
    const server = await serve()
    const agent = new Agent({ keepAlive: true })
    await json((await once(request(`${server.url}/livez`, { agent }).end(), 'response'))[0])
    const silent = connect(server.port, '127.0.0.1')
    silent.on('error', () => undefined)
    await once(silent, 'connect')
    await vi.waitUntil(() => Object.keys(agent.freeSockets).length === 1, { timeout: 20_000 })
    const closed = once(silent, 'close')
    await server.close(60_000)
    await closed
    agent.destroy()
  })

  test('cuts off what runs for too long', async () => {
    const server = await serve()
    const agent = new Agent({ keepAlive: true })
    const { pending } = await ask(server, agent)
    await server.close(10)
    await expect(pending).rejects.toMatchObject({ code: 'ECONNRESET' })
    agent.destroy()
  })
})
