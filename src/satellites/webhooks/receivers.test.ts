/** Unusual responses of receivers: the stored parts, and the retry of the delivery. */
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { startReceiver } from '../../../test/support/receiver.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { webhooks } from './index.ts'
import type { DeliveryDetail } from './model/delivery.ts'
import { openReceiver, SECOND_MS, SOON_MS } from './receivers.fixture.ts'
import type { WebhooksTenancy } from './webhooks.fixture.ts'

const fixture = openReceiver()
const { clock, send, subscribe, dispatch, read, received, tried } = fixture

const KIBIBYTE = 1_024
/** Number of writes after which the client has read some, one per event loop iteration. */
const SEEN_AFTER = 20
const DEADLINE_MS = 1_000

/** Writes a response byte by byte after the request, including invalid HTTP. */
async function rawReceiver(respond: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    let request = ''
    socket.on('data', (bytes) => {
      const before = request.includes('{"amount":12.5}')
      request += bytes.toString('latin1')
      if (!before && request.includes('{"amount":12.5}')) respond(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    get connections() {
      return sockets.size
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Writes with back-pressure until the client closes the connection. */
function pour(socket: Socket | ServerResponse, piece: Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  }
  socket.on('drain', more)
  more()
}

/** Writes pieces without end. @param seen called when the client had time to read some */
function drip(socket: Socket, pieces: string | readonly string[], seen: () => void): void {
  let sent = 0
  const timer = setInterval(() => {
    socket.write(pieces[sent++ % pieces.length] ?? '')
    if (sent === SEEN_AFTER) seen()
  }, 5)
  socket.on('close', () => clearInterval(timer))
}

describe('a response', () => {
  test('without end is read to 16 KiB, and its status decides', async () => {
    const closed: Promise<void>[] = []
    fixture.receiver.respondWith((_, response) => {
      closed.push(new Promise((resolve) => response.on('close', () => resolve())))
      response.writeHead(200)
      pour(response, Buffer.alloc(64 * KIBIBYTE, 'ü'))
      return undefined
    })
    const { state, attempts } = await tried(fixture.receiver.url + fixture.path)
    expect(state).toBe('delivered')
    expect(Buffer.byteLength(attempts[0]?.responseBody ?? '')).toBe(16 * KIBIBYTE)
    await Promise.all(closed) // the connection is ended, nothing more is read
  })

  test('with a content length of 10 GiB is not read to its end', async () => {
    fixture.receiver.respondWith((_, response) => {
      response.writeHead(500, { 'content-length': `${10 * KIBIBYTE ** 3}` })
      pour(response, Buffer.alloc(64 * KIBIBYTE, 'x'))
      return undefined
    })
    const { state, attempts } = await tried(fixture.receiver.url + fixture.path)
    expect(state).toBe('retry_scheduled')
    expect(attempts).toMatchObject([{ status: 500, error: null }])
    expect(attempts[0]?.responseBody).toBe('x'.repeat(16 * KIBIBYTE))
  })

  describe('without end', () => {
    let hasty: WebhooksTenancy
    beforeAll(async () => {
      hasty = await fixture.opened.open({ satellites: [webhooks({ timeoutMs: DEADLINE_MS })] })
    })
    afterEach(() => vi.useRealTimers())
    const passDeadline = () => void vi.advanceTimersByTime(DEADLINE_MS)

    test.each<[string, (socket: Socket) => void]>([
      ['nothing', passDeadline],
      [
        'endless headers, byte by byte',
        (socket) => {
          socket.write('HTTP/1.1 200 OK\r\n')
          drip(socket, 'x: y\r\n', passDeadline)
        },
      ],
      [
        'headers, and a body that comes byte by byte',
        (socket) => {
          socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
          drip(socket, '1\r\na\r\n', passDeadline)
        },
      ],
      [
        'endless informational responses',
        (socket) => drip(socket, ['HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'], passDeadline),
      ],
    ])('of %s ends at the timeout', async (what, respond) => {
      await tried(fixture.receiver.url + fixture.path, hasty) // the timers that undici keeps are those of the machine
      const raw = await rawReceiver(respond)
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldClearNativeTimers: true })
      const { state, attempts } = await tried(raw.url, hasty)
      expect(state).toBe('retry_scheduled')
      const came = what.startsWith('headers, and') ? { status: 200, responseBody: expect.stringMatching(/^a+$/) } : {}
      expect(attempts).toMatchObject([{ number: 1, status: null, error: 'timeout', address: '127.0.0.1', ...came }])
      await eventually(() => expect(raw.connections).toBe(0))
      await raw.close()
    })
  })

  const head = 'HTTP/1.1 200 OK\r\n'
  const of = (body: string | Buffer, headers = '') =>
    Buffer.concat([
      Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n`, 'latin1'),
      Buffer.from(body),
    ])
  const RESPONSES: Record<string, Buffer> = {
    'NUL in its body': of('a\0b'),
    'bytes that are no UTF-8': of(Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0xf5])),
    'half a character at its end': of(Buffer.from([0x61, 0xe2, 0x82])),
    'what JSON would escape': of('"\\u0000" \u{1f} \u{2028} \\'),
    'a body of 16 KiB and a character over the edge': of(`${'x'.repeat(16 * KIBIBYTE - 1)}€`),
    'headers of 15 KB': of('ok', `x-long: ${'x'.repeat(15_000)}\r\n`),
    'headers beyond 16 KiB': of('ok', `x-long: ${'x'.repeat(40_000)}\r\n`),
    'hundreds of headers': of('ok', Array.from({ length: 400 }, (_, n) => `x-${n}: ${n}\r\n`).join('')),
    'the same header again and again': of('ok', 'set-cookie: a=1\r\n'.repeat(100)),
    'bytes above ASCII in a header': of('ok', 'x-latin: \xe4\xf6\xfc\xff\x80\r\n'),
    'a header with quotes, backslashes and what looks like an escape': of('ok', 'x-odd: "a\\u0000\\" \\x00 \'$1\'\r\n'),
    'NUL in a header': of('ok', 'x-nul: a\0b\r\n'),
    'a header over two lines': of('ok', 'x-folded: a\r\n b\r\n'),
    'a header without a name': of('ok', ': a\r\n'),
    'headers named like members of any object': of(
      'ok',
      'constructor: a\r\nconstructor: b\r\ntoString: c\r\n__proto__: d\r\nhasOwnProperty: e\r\nvalueOf: f\r\n',
    ),
    'a Retry-After that is none': of('ok', 'retry-after: -1, soon; 99999999999999999999\r\n'),
    'an unknown status': Buffer.from('HTTP/1.1 799 \xff\xfe\r\ncontent-length: 0\r\n\r\n', 'latin1'),
    'no number for a status': Buffer.from('HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n'),
    'a status beyond any integer': Buffer.from('HTTP/1.1 99999999999 OK\r\ncontent-length: 0\r\n\r\n'),
    'a negative length': Buffer.from(`${head}content-length: -5\r\n\r\n`),
    'two lengths': Buffer.from(`${head}content-length: 2\r\ncontent-length: 3\r\n\r\nabc`),
    'a length and chunks': Buffer.from(
      `${head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`,
    ),
    'chunks that are none': Buffer.from(`${head}transfer-encoding: chunked\r\n\r\nzz\r\nok`),
    'another protocol': Buffer.from('SSH-2.0-OpenSSH_9.9\r\n'),
    'an upgrade': Buffer.from('HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n'),
    'a body where none may be': Buffer.from('HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nabcde'),
    'a second answer': Buffer.concat([of('one'), of('two')]),
    'nothing but a line end': Buffer.from('\r\n'),
  }

  test('with invalid text is stored, with all attempts of the same settlement', async () => {
    const names = Object.keys(RESPONSES)
    const raws = await Promise.all(
      names.map((name) => rawReceiver((socket) => void socket.end(RESPONSES[name] as Buffer))),
    )
    const made = await Promise.all(raws.map(({ url }) => subscribe(url)))
    await dispatch()
    await send()
    const kept = new Map<string, DeliveryDetail>()
    for (const [index, name] of names.entries()) {
      const webhookId = made[index]?.webhookId ?? ''
      const { data } = await fixture.tenancy.webhooks.deliveries(fixture.id, webhookId, { limit: 10 })
      kept.set(name, await read(webhookId, data[0]?.id ?? ''))
    }
    for (const [name, { attemptCount, attempts, state }] of kept) {
      expect([name, attemptCount, attempts.length]).toEqual([name, 1, 1])
      const [attempt] = attempts
      const isWhole = attempt?.error === null
      const isWell = isWhole && (attempt?.status === 200 || attempt?.status === 204)
      expect([name, state]).toEqual([name, isWell ? 'delivered' : 'retry_scheduled'])
      if (attempt?.status === null) expect(isWhole).toBe(false)
    }
    const bodyOf = (name: string) => kept.get(name)?.attempts[0]?.responseBody
    expect(bodyOf('NUL in its body')).toBe('a\u{fffd}b')
    expect(bodyOf('what JSON would escape')).toBe('"\\u0000" \u{1f} \u{2028} \\')
    expect(bodyOf('half a character at its end')).toBe('a\u{fffd}')
    expect(bodyOf('a body of 16 KiB and a character over the edge')).toBe('x'.repeat(16 * KIBIBYTE - 1))
    const headersOf = (name: string) => kept.get(name)?.attempts[0]?.responseHeaders
    expect(headersOf('headers named like members of any object')).toMatchObject({ constructor: 'a, b', tostring: 'c' })
    expect(headersOf('headers of 15 KB')?.['x-long']).toHaveLength(15_000)
    expect(kept.get('headers beyond 16 KiB')?.attempts).toMatchObject([{ status: null, error: 'protocol' }])
    await Promise.all(raws.map((raw) => raw.close()))
  })

  test.each([
    [301, ['', '/elsewhere', '//169.254.169.254/latest/meta-data', 'file:///etc/passwd']],
    [302, ['']],
    [303, ['/elsewhere']],
    [307, ['']],
    [308, ['/elsewhere']],
  ])('a response with the status %i is a failure, and is not followed to %j', async (status, locations) => {
    const inside = await startReceiver()
    for (const location of locations.map((location) => location || `${inside.url}/secret`)) {
      fixture.receiver.respondWith(({ path: at }) => (at === fixture.path ? { status, headers: { location } } : {}))
      const { state, attempts, lastStatus } = await tried(fixture.receiver.url + fixture.path)
      expect({ state, lastStatus }).toEqual({ state: 'retry_scheduled', lastStatus: status })
      expect(attempts[0]?.responseHeaders?.location).toBe(location)
    }
    expect(inside.received).toEqual([])
    expect(fixture.receiver.received.filter(({ path: at }) => at === '/elsewhere')).toEqual([])
    await inside.close()
  })

  test.each([
    ['429, in seconds', 429, () => '15', 15],
    ['503, as a date', 503, () => new Date(clock.now().getTime() + 15_000).toUTCString(), 14],
    ['503, further than twice the schedule', 503, () => '86400', 20],
    ['503, sooner than the schedule', 503, () => '1', 8],
    ['500, where it is not heeded', 500, () => '15', 8],
  ])('with Retry-After (%s) extends the delay within limits', async (_, status, retryAfter, atLeastSeconds) => {
    fixture.receiver.respondWith(() => ({ status, headers: { 'retry-after': retryAfter() } }))
    const { nextRetryAt } = await tried(fixture.receiver.url + fixture.path)
    const delayMs = Date.parse(nextRetryAt ?? '') - clock.now().getTime()
    expect(delayMs).toBeGreaterThanOrEqual(atLeastSeconds * SECOND_MS - 1)
    expect(delayMs).toBeLessThan((atLeastSeconds === 8 ? 12 : atLeastSeconds + 1) * SECOND_MS + SOON_MS)
  })
})

describe('a URL that is no longer allowed', () => {
  test('is not requested, and the attempt has the reason', async () => {
    const { webhookId } = await subscribe()
    const deliveryId = await dispatch()
    const strict = await fixture.opened.open({ egress: { allowHttp: true } })
    await strict.webhooks.retry()
    expect(await read(webhookId, deliveryId)).toMatchObject({
      state: 'retry_scheduled',
      attempts: [{ status: null, error: 'address not allowed' }],
    })
    expect(received()).toEqual([])
  })
})
