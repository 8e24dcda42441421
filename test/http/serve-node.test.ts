/** The service's own HTTP server: addresses and shutdown. */
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

/** Responds when the test opens it. */
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
  summary: 'Wait until the test opens the gate',
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
  test('port 0 selects a free port, which the URL names', async () => {
    const server = await serve()
    expect(server.port).toBeGreaterThan(0)
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`)
    expect(await send(server.url, 'GET /livez')).toMatchObject({ status: 200 })
    await server.close(0)
  })

  test('the URL for all addresses can be opened', async () => {
    const server = await serve('0.0.0.0')
    expect(server.url).toBe(`http://localhost:${server.port}`)
    await server.close(0)
  })

  test('a port in use is reported with port and address', async () => {
    const server = await serve()
    const second = serveNode(tenancy.http, { port: server.port, host: '127.0.0.1' })
    await expect(second).rejects.toThrow(`port ${server.port} of 127.0.0.1 is in use`)
    await server.close(0)
  })

  test('an address of another machine is reported', async () => {
    await expect(serve('192.0.2.1')).rejects.toThrow('192.0.2.1 is not an address of this machine')
  })
})

describe('closing', () => {
  const ask = async (server: NodeServer, agent: Agent) => {
    gate = new Gate()
    const pending = once(request(`${server.url}${PREFIX}/gate`, { agent, headers: ADMIN }).end(), 'response')
    pending.catch(() => undefined) // awaited below
    await vi.waitUntil(() => gate.waiting === 1, { timeout: 20_000 })
    return { pending }
  }

  test('a shutdown waits for running requests, and accepts no new ones', async () => {
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

  test('a shutdown closes idle connections immediately, used and unused ones', async () => {
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

  test('a shutdown cuts off requests after its timeout', async () => {
    const server = await serve()
    const agent = new Agent({ keepAlive: true })
    const { pending } = await ask(server, agent)
    await server.close(10)
    await expect(pending).rejects.toMatchObject({ code: 'ECONNRESET' })
    agent.destroy()
  })
})
