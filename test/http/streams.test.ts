/**
 * Streamed responses: at the reader's pace, ended when the reader disconnects, and never apparently complete when they
 * break off. The satellite of this test counts its chunks, and records the end of its streams.
 */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { z } from 'zod'
import { operation, StreamReply } from '../../src/kernel/api/operation.ts'
import { currentContext } from '../../src/kernel/base/context.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'
import { type Host, hosts } from './hosts.ts'
import { ADMIN, PREFIX, type Served, send, served } from './served.ts'

const CHUNK = 'x'.repeat(64 * 1024)
/** More than the buffers of two sockets can hold. */
const MANY = 512

class Exports {
  made = 0
  readonly ended = Promise.withResolvers<void>()
  readonly aborted = Promise.withResolvers<void>()

  async *chunks(count: number, breaksAt = Number.POSITIVE_INFINITY): AsyncIterable<string> {
    try {
      for (this.made = 0; this.made < count; this.made++) {
        if (this.made === breaksAt) throw new Error('relation "secrets" does not exist')
        yield `${currentContext().requestId}:${CHUNK}\n`
      }
    } finally {
      this.ended.resolve()
    }
  }

  async hang(signal: AbortSignal): Promise<void> {
    this.made = 1
    await once(signal, 'abort')
    this.aborted.resolve()
  }
}

let current = new Exports()
const read = (name: string, chunks: (exports: Exports) => AsyncIterable<string>) =>
  operation({
    name: `exports.${name}`,
    method: 'GET',
    path: `/exports/${name}`,
    summary: 'An export',
    reply: z.void(),
    streams: ['text/plain'],
    handle: async () => new StreamReply('text/plain; charset=utf-8', `${name}.txt`, chunks(current)),
  })
const exportsSatellite = defineSatellite({
  name: 'exports',
  summary: 'Streams',
  service: () => null,
  operations: [
    read('few', (exports) => exports.chunks(3)),
    read('none', (exports) => exports.chunks(0)),
    read('many', (exports) => exports.chunks(MANY)),
    read('broken', (exports) => exports.chunks(MANY, 2)),
    read('stillborn', (exports) => exports.chunks(MANY, 0)),
    operation({
      name: 'exports.hang',
      method: 'POST',
      path: '/exports/hang',
      summary: 'Respond after the client has disconnected',
      reply: z.void(),
      handle: (_service, { signal }) => current.hang(signal),
    }),
  ],
})

let tenancy: Served
beforeAll(async () => {
  tenancy = await served(inject('postgresUrl'), [exportsSatellite], {}, 'api')
})
afterAll(() => tenancy.stop())
beforeEach(() => {
  current = new Exports()
})

describe.each(Object.entries(hosts))('%s', (_name, start) => {
  let host: Host
  beforeAll(async () => {
    host = await start(tenancy.http)
  })
  afterAll(() => host.close())

  /** Head of the response; its body is not read yet. */
  const open = async (name: string): Promise<IncomingMessage> => {
    const outgoing = request(`${host.origin}${PREFIX}/exports/${name}`, { agent: false, headers: ADMIN })
    const [incoming] = await once(outgoing.end(), 'response')
    return incoming
  }

  test('a stream is complete, and runs in the context of its request', async () => {
    const response = await send(host.origin, `GET ${PREFIX}/exports/few`, {
      headers: { ...ADMIN, 'x-request-id': 'r-1' },
    })
    expect(response).toMatchObject({
      status: 200,
      headers: {
        'content-type': 'text/plain; charset=utf-8',
        'content-disposition': 'attachment; filename="few.txt"',
        'transfer-encoding': 'chunked',
        'x-request-id': 'r-1',
        'cache-control': 'no-store',
      },
    })
    expect(response.body).toBe(`r-1:${CHUNK}\n`.repeat(3))
    expect(await send(host.origin, `GET ${PREFIX}/exports/none`, { headers: ADMIN })).toMatchObject({
      status: 200,
      body: '',
    })
  })

  test('a stream waits for a reader that does not read', async () => {
    const incoming = await open('many')
    let seen = -1
    await vi.waitUntil(
      () => {
        const isStill = current.made === seen
        seen = current.made
        return isStill
      },
      { interval: 25, timeout: 20_000 },
    )
    expect(current.made).toBeLessThan(MANY / 2)
    expect((await text(incoming)).length).toBeGreaterThan(MANY * CHUNK.length)
    expect(current.made).toBe(MANY)
  })

  test('a stream ends when the reader disconnects', async () => {
    const incoming = await open('many')
    await once(incoming, 'readable')
    incoming.destroy()
    await current.ended.promise
    expect(current.made).toBeLessThan(MANY)
  })

  test('a stream that fails breaks the connection', async () => {
    let received = ''
    const reading = async () => {
      for await (const chunk of await open('broken')) received += chunk
    }
    await expect(reading()).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(received).not.toContain('secrets')
    await current.ended.promise
  })

  test('a stream that fails before its first chunk returns a problem', async () => {
    const response = await send(host.origin, `GET ${PREFIX}/exports/stillborn`, { headers: ADMIN })
    expect(response).toMatchObject({ status: 500, json: { code: 'E_INTERNAL' } })
    expect(response.body).not.toContain('secrets')
  })

  test('a stream does not start for HEAD', async () => {
    const response = await send(host.origin, `HEAD ${PREFIX}/exports/many`, { headers: ADMIN })
    expect(response).toMatchObject({ status: 200, body: '', headers: { 'content-type': 'text/plain; charset=utf-8' } })
    await current.ended.promise
    expect(current.made).toBe(0)
  })

  test('an operation is notified when its client disconnects', async () => {
    const outgoing = request(`${host.origin}${PREFIX}/exports/hang`, { method: 'POST', agent: false, headers: ADMIN })
    outgoing.on('error', () => undefined).end()
    await vi.waitUntil(() => current.made === 1, { timeout: 20_000 })
    outgoing.destroy()
    await current.aborted.promise
  })
})
