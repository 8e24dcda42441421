/**
 * Receivers that do what they like, and what happens to a delivery while it is on its way. `send` is one run of
 * `tenant:webhooks:retry` in a tenancy without workers, unless a test has workers of its own.
 */
import { createHmac, randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { Egress } from '../../kernel/egress.ts'
import { type Receiver, startReceiver } from '../../testing/receiver.ts'
import { eventually, type TestTenancy } from '../../testing/tenancy.ts'
import type { DeliveryDetail } from './delivery.ts'
import { WebhookDeliveryFailed, WebhookSubscriptionDisabled, type WebhooksOptions, webhooks } from './index.ts'
import {
  clockOfToday,
  DEVELOPMENT,
  openWebhooks,
  type WebhooksSatellites,
  type WebhooksTenancy,
} from './webhooks.fixture.ts'

const SECOND_MS = 1_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** The clock stands, but what the statements take passes in the database. */
const SOON_MS = 5 * SECOND_MS
const KIBIBYTE = 1_024
/** Writes after which the other side has read some of them, a turn of the event loop each. */
const SEEN_AFTER = 20
const DEADLINE_MS = 1_000

const clock = clockOfToday()
let opened: TestTenancy<WebhooksSatellites>
let tenancy: WebhooksTenancy
/** Dispatches, and sends nothing meanwhile. */
let idle: WebhooksTenancy
let receiver: Receiver
let id: string
let path: string

beforeAll(async () => {
  opened = await openWebhooks(inject('postgresUrl'), {}, { role: 'api', clock })
  tenancy = opened.tenancy
  idle = await opened.open()
  receiver = await startReceiver()
})
afterAll(async () => {
  await receiver.close()
  await opened.end()
})
beforeEach(async () => {
  id = (await tenancy.tenants.create({ id: `acme-${randomUUID().slice(0, 8)}`, name: 'Acme' })).id
  path = `/${randomUUID()}`
  receiver.answers(() => ({}))
})
/** What a test leaves behind meets no other. */
afterEach(() => sql('truncate multitenancy.webhook_deliveries, multitenancy.webhook_attempts'))

const sql = async (text: string, values: unknown[] = []) => (await tenancy.kernel.database.sql(text, values)).rows
const send = () => tenancy.webhooks.retry()
const subscribe = (url = receiver.url + path, event = 'order.paid') =>
  tenancy.webhooks.create(id, { url, events: [event] })
async function dispatch(event = 'order.paid'): Promise<string> {
  const [deliveryId = ''] = await idle.webhooks.dispatch(id, event, { amount: 12.5 })
  return deliveryId
}
const read = (webhookId: string, deliveryId: string): Promise<DeliveryDetail> =>
  tenancy.webhooks.delivery(id, webhookId, deliveryId)
const received = (at = path) => receiver.received.filter((one) => one.path === at)
const states = async () => {
  const rows = await sql('select state, count(*) as count from multitenancy.webhook_deliveries group by 1')
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]))
}

/** Dispatches to one that answers so, sends it, and says what is kept of it. */
async function tried(url: string, by = tenancy): Promise<DeliveryDetail> {
  const event = `order.of_${randomUUID().replaceAll('-', '')}`
  const { webhookId } = await subscribe(url, event)
  const deliveryId = await dispatch(event)
  await by.webhooks.retry()
  return read(webhookId, deliveryId)
}

/** Answers what HTTP does not allow, byte by byte as it is told, once the request has arrived. */
async function rawReceiver(answer: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    let request = ''
    socket.on('data', (bytes) => {
      const before = request.includes('{"amount":12.5}')
      request += bytes.toString('latin1')
      if (!before && request.includes('{"amount":12.5}')) answer(socket)
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

/** Writes again and again, as fast as it is taken, until the other side has had enough. */
function pour(socket: Socket | ServerResponse, piece: Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  }
  socket.on('drain', more)
  more()
}

/** Piece after piece, for ever. @param seen called when the other side has had the time to read some */
function drip(socket: Socket, pieces: string | readonly string[], seen: () => void): void {
  let sent = 0
  const timer = setInterval(() => {
    socket.write(pieces[sent++ % pieces.length] ?? '')
    if (sent === SEEN_AFTER) seen()
  }, 5)
  socket.on('close', () => clearInterval(timer))
}

describe('an answer', () => {
  test('that never ends is read to 16 KiB, and counts by its status', async () => {
    const closed: Promise<void>[] = []
    receiver.answers((_, response) => {
      closed.push(new Promise((resolve) => response.on('close', () => resolve())))
      response.writeHead(200)
      pour(response, Buffer.alloc(64 * KIBIBYTE, 'ü'))
      return undefined
    })
    const { state, attempts } = await tried(receiver.url + path)
    expect(state).toBe('delivered')
    expect(Buffer.byteLength(attempts[0]?.responseBody ?? '')).toBe(16 * KIBIBYTE)
    await Promise.all(closed) // the connection is ended, nothing more is read
  })

  test('that says it has 10 GiB is not waited for', async () => {
    receiver.answers((_, response) => {
      response.writeHead(500, { 'content-length': `${10 * KIBIBYTE ** 3}` })
      pour(response, Buffer.alloc(64 * KIBIBYTE, 'x'))
      return undefined
    })
    const { state, attempts } = await tried(receiver.url + path)
    expect(state).toBe('retry_scheduled')
    expect(attempts).toMatchObject([{ status: 500, error: null }])
    expect(attempts[0]?.responseBody).toBe('x'.repeat(16 * KIBIBYTE))
  })

  describe('that never ends', () => {
    let hasty: WebhooksTenancy
    beforeAll(async () => {
      hasty = await opened.open({ satellites: [webhooks({ timeoutMs: DEADLINE_MS })] })
    })
    afterEach(() => vi.useRealTimers())
    const passDeadline = () => void vi.advanceTimersByTime(DEADLINE_MS)

    test.each<[string, (socket: Socket) => void]>([
      ['nothing', passDeadline],
      [
        'headers that never end, byte by byte',
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
        'one hint after the other, and no answer',
        (socket) => drip(socket, ['HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'], passDeadline),
      ],
    ])('of %s ends with the deadline', async (what, answer) => {
      await tried(receiver.url + path, hasty) // the timers that undici keeps are those of the machine
      const raw = await rawReceiver(answer)
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
  const ANSWERS: Record<string, Buffer> = {
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
    'a status that nobody knows': Buffer.from('HTTP/1.1 799 \xff\xfe\r\ncontent-length: 0\r\n\r\n', 'latin1'),
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

  test('holds nothing that cannot be kept: each attempt is, of all that are settled at once', async () => {
    const names = Object.keys(ANSWERS)
    const raws = await Promise.all(
      names.map((name) => rawReceiver((socket) => void socket.end(ANSWERS[name] as Buffer))),
    )
    const made = await Promise.all(raws.map(({ url }) => subscribe(url)))
    await dispatch()
    await send()
    const kept = new Map<string, DeliveryDetail>()
    for (const [index, name] of names.entries()) {
      const webhookId = made[index]?.webhookId ?? ''
      const { data } = await tenancy.webhooks.deliveries(id, webhookId, { limit: 10 })
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
      receiver.answers(({ path: at }) => (at === path ? { status, headers: { location } } : {}))
      const { state, attempts, lastStatus } = await tried(receiver.url + path)
      expect({ state, lastStatus }).toEqual({ state: 'retry_scheduled', lastStatus: status })
      expect(attempts[0]?.responseHeaders?.location).toBe(location)
    }
    expect(inside.received).toEqual([])
    expect(receiver.received.filter(({ path: at }) => at === '/elsewhere')).toEqual([])
    await inside.close()
  })

  test.each([
    ['429, in seconds', 429, () => '15', 15],
    ['503, as a date', 503, () => new Date(clock.now().getTime() + 15_000).toUTCString(), 14],
    ['503, further than twice the schedule', 503, () => '86400', 20],
    ['503, sooner than the schedule', 503, () => '1', 8],
    ['500, where it is not heeded', 500, () => '15', 8],
  ])('with Retry-After (%s) stretches the delay, within bounds', async (_, status, retryAfter, atLeastSeconds) => {
    receiver.answers(() => ({ status, headers: { 'retry-after': retryAfter() } }))
    const { nextRetryAt } = await tried(receiver.url + path)
    const delayMs = Date.parse(nextRetryAt ?? '') - clock.now().getTime()
    expect(delayMs).toBeGreaterThanOrEqual(atLeastSeconds * SECOND_MS - 1)
    expect(delayMs).toBeLessThan((atLeastSeconds === 8 ? 12 : atLeastSeconds + 1) * SECOND_MS + SOON_MS)
  })
})

describe('an address that is not allowed any more', () => {
  test('is not called, and the attempt says so', async () => {
    const { webhookId } = await subscribe()
    const deliveryId = await dispatch()
    const strict = await opened.open({ egress: { allowHttp: true } })
    await strict.webhooks.retry()
    expect(await read(webhookId, deliveryId)).toMatchObject({
      state: 'retry_scheduled',
      attempts: [{ status: null, error: 'address not allowed' }],
    })
    expect(received()).toEqual([])
  })
})

describe('what waits behind others', () => {
  afterEach(() => vi.useRealTimers())

  test('is given back when its lease would not outlive the request, and is sent under another', async () => {
    const [count, timeoutMs] = [3, 10_000]
    const options = { timeoutMs, concurrency: 1, claim: count, perSubscription: count, perTenant: count }
    const single = await opened.open({ satellites: [webhooks(options)] })
    const claims: unknown[] = []
    let first: ServerResponse | undefined
    receiver.answers(({ headers }, response) => {
      if (first) {
        void claimsOf(String(headers['x-delivery-id'])).then((claim) => {
          claims.push(...claim)
          response.end()
        })
      } else {
        first = response
      }
      return undefined
    })
    await subscribe()
    for (let n = 0; n < count; n++) await dispatch()
    vi.useFakeTimers({ toFake: ['performance'] })
    const sending = single.webhooks.retry()
    await eventually(() => expect(first).toBeDefined())
    await eventually(async () => expect(await states()).toEqual({ delivering: count }))
    const before = await claimsOf()
    expect(before).toHaveLength(count)
    vi.advanceTimersByTime(2 * timeoutMs + 1) // the lease lasts for three, and a margin
    first?.end()
    await sending
    expect(await states()).toEqual({ delivered: count })
    expect(new Set(received().map(({ headers }) => headers['x-delivery-id'])).size).toBe(count)
    expect(claims).toHaveLength(count - 1)
    for (const claim of claims) expect(before).not.toContain(claim)
  })
  const claimsOf = async (deliveryId: string | null = null) => {
    const rows = await sql(
      'select claim from multitenancy.webhook_deliveries where claim is not null and id = coalesce($1, id)',
      [deliveryId],
    )
    return rows.map(({ claim }) => claim)
  }
})

/** Requests that are held until a test lets them go. */
function holding(status = 200) {
  const held: ServerResponse[] = []
  let isOpen = false
  receiver.answers((_, response) => {
    if (isOpen) return { status }
    held.push(response)
    return undefined
  })
  return {
    count: (count: number) => eventually(() => expect(held).toHaveLength(count)),
    release() {
      isOpen = true
      for (const response of held.splice(0)) response.writeHead(status).end()
    },
  }
}

describe('while a request is on its way', () => {
  const inFlight = async (status?: number) => {
    const { webhookId } = await subscribe()
    const held = holding(status)
    const deliveryId = await dispatch()
    const sending = send()
    await held.count(1)
    const waiting = await dispatch()
    return { webhookId, deliveryId, waiting, held, sending }
  }
  const rowOf = async (deliveryId: string) => {
    const [row] = await sql(
      'select state, attempt_count as attempts, last_error as error from multitenancy.webhook_deliveries where id = $1',
      [deliveryId],
    )
    return row
  }

  test('its subscription is deleted: what arrives has arrived, nothing else is sent', async () => {
    const { webhookId, deliveryId, waiting, held, sending } = await inFlight()
    await tenancy.webhooks.delete(id, webhookId)
    held.release()
    await sending
    await send()
    expect(await rowOf(deliveryId)).toEqual({ state: 'delivered', attempts: 1, error: null })
    expect(await rowOf(waiting)).toEqual({ state: 'failed', attempts: 0, error: 'the subscription is deleted' })
    expect(received()).toHaveLength(1)
  })

  test('its subscription is disabled: a failure is not tried again', async () => {
    const { webhookId, deliveryId, waiting, held, sending } = await inFlight(500)
    await tenancy.webhooks.update(id, webhookId, { enabled: false })
    held.release()
    await sending
    clock.advance(HOUR_MS)
    await send()
    expect(await rowOf(deliveryId)).toEqual({ state: 'failed', attempts: 1, error: 'the subscription is disabled' })
    expect(await rowOf(waiting)).toEqual({ state: 'failed', attempts: 0, error: 'the subscription is disabled' })
    expect(received()).toHaveLength(1)
  })

  test('its tenant is suspended: it goes on', async () => {
    await tenancy.tenants.installation.install(id, { isLast: true })
    const { deliveryId, waiting, held, sending } = await inFlight()
    await tenancy.tenants.suspend(id)
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toMatchObject([
      { state: 'delivered' },
      { state: 'delivered' },
    ])
  })

  test('its tenant is deleted: what was dispatched is delivered', async () => {
    const { deliveryId, waiting, held, sending } = await inFlight()
    await tenancy.tenants.delete(id)
    await expect(dispatch()).rejects.toMatchObject({ code: 'E_TENANT_STATE' })
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toMatchObject([
      { state: 'delivered' },
      { state: 'delivered' },
    ])
  })

  test('its tenant is purged: nothing is left of it, and nothing else suffers', async () => {
    const other = await tenancy.tenants.create({ id: `other-${id}`, name: 'Other' })
    await tenancy.webhooks.create(other.id, { url: receiver.url + path, events: ['order.*'] })
    const { deliveryId, waiting, held, sending } = await inFlight()
    const [others = ''] = await tenancy.webhooks.dispatch(other.id, 'order.paid', {})
    await held.count(1)
    await tenancy.webhooks.forget(id)
    held.release()
    await sending
    await send()
    expect([await rowOf(deliveryId), await rowOf(waiting)]).toEqual([undefined, undefined])
    expect(await rowOf(others)).toMatchObject({ state: 'delivered', attempts: 1 })
    expect(await sql('select * from multitenancy.webhook_attempts where delivery_id = $1', [deliveryId])).toEqual([])
  })

  test('its receiver answers 410 to many at once: it is disabled once, and one event says so', async () => {
    const other = await opened.open()
    const disabled: unknown[] = []
    const failed: string[] = []
    for (const each of [tenancy, other]) {
      each.on(WebhookSubscriptionDisabled, (event) => void disabled.push(event))
      each.on(WebhookDeliveryFailed, ({ deliveryId }) => void failed.push(deliveryId))
    }
    const hears = await startReceiver()
    const host = await tenancy.webhooks.create(null, {
      url: hears.url,
      events: ['webhook.*', 'webhook_subscription.*'],
    })
    const { webhookId } = await subscribe()
    const held = holding(410)
    const ids: string[] = []
    for (let n = 0; n < 40; n++) ids.push(await dispatch())
    const sending = [send(), other.webhooks.retry()]
    await held.count(16) // as many as one subscription may have on their way, of both together
    held.release()
    await Promise.all(sending)
    await eventually(async () => {
      await send()
      const rows = await sql(
        `select 1 from multitenancy.webhook_deliveries where state <> 'failed' and webhook_id = $1`,
        [webhookId],
      )
      expect(rows).toEqual([])
    })
    await eventually(() => expect(disabled).toHaveLength(1))
    expect(disabled).toMatchObject([{ webhookId, tenantId: id, reason: 'gone' }])
    expect(await tenancy.webhooks.get(id, webhookId)).toMatchObject({ enabled: false, disabledReason: 'gone' })
    const arrived = received().map(({ headers }) => String(headers['x-delivery-id']))
    expect(new Set(arrived).size).toBe(arrived.length)
    await eventually(() => expect(failed.toSorted()).toEqual(arrived.toSorted()))
    for (const deliveryId of ids) {
      const { attempts, error } = await rowOf(deliveryId)
      expect([attempts, error]).toEqual(arrived.includes(deliveryId) ? [1, null] : [0, 'the subscription is disabled'])
    }
    await send()
    expect(hears.received.map(({ body }) => JSON.parse(body).webhookId)).toEqual([webhookId])
    await tenancy.webhooks.delete(null, host.webhookId)
    await hears.close()
  })

  test('its secret is exchanged: until the grace is over both sign, for anybody who knows one', async () => {
    // Libraries compare with the time of the machine.
    const now = clockOfToday()
    const sender = await opened.open({ clock: now })
    const { webhookId, secret: former } = await subscribe()
    const held = holding(500)
    await sender.webhooks.dispatch(id, 'order.paid', { amount: 12.5 })
    const sending = sender.webhooks.retry()
    await held.count(1)
    const { secret: current } = await sender.webhooks.rotateSecret(id, webhookId, { graceSeconds: 120 })
    held.release()
    await sending
    now.advance(13 * SECOND_MS)
    await sender.webhooks.retry()
    now.advance(120 * SECOND_MS)
    await sender.webhooks.retry()
    const sent = received()
    expect(sent).toHaveLength(3)
    const knows = (secret: string) =>
      sent.map(({ body, headers }) => {
        try {
          return new Webhook(secret).verify(body, headers as Record<string, string>) !== undefined
        } catch {
          return false
        }
      })
    expect(knows(former)).toEqual([true, true, false])
    expect(knows(current)).toEqual([false, true, true])
    const hmac = (secret: string) => createHmac('sha256', secret).update('{"amount":12.5}').digest('hex')
    expect(sent.map(({ headers }) => headers['x-webhook-signature'])).toEqual([former, current, current].map(hmac))
  })
})

describe('a subscription that knows nothing but failures', () => {
  const disabled: { webhookId: string; reason: string }[] = []
  let failing: Awaited<ReturnType<typeof subscribe>>
  /** Gives a delivery up when it has failed once. */
  let hasty: WebhooksTenancy
  beforeAll(async () => {
    hasty = await opened.open({ satellites: [webhooks({ maxAttempts: 1 })] })
    hasty.on(WebhookSubscriptionDisabled, (event) => void disabled.push(event))
  })
  beforeEach(async () => {
    failing = await subscribe()
    disabled.length = 0
  })
  const tryOne = async (run: () => Promise<unknown> = () => hasty.webhooks.retry()) => {
    await dispatch()
    await run()
  }
  const isEnabled = async () => (await tenancy.webhooks.get(id, failing.webhookId)).enabled

  test('for five days is disabled, once, and says why', async () => {
    receiver.answers(() => ({ status: 500 }))
    for (let hours = 0; hours < 5 * 24; hours += 12) {
      await tryOne()
      expect(await isEnabled()).toBe(true)
      clock.advance(12 * HOUR_MS)
    }
    clock.advance(SOON_MS)
    for (let n = 0; n < 8; n++) await dispatch()
    await hasty.webhooks.retry()
    await eventually(async () => expect(await isEnabled()).toBe(false))
    expect(await tenancy.webhooks.get(id, failing.webhookId)).toMatchObject({ disabledReason: 'failing' })
    await eventually(() => expect(disabled).toMatchObject([{ webhookId: failing.webhookId, reason: 'failing' }]))
    expect(disabled).toHaveLength(1)
  })

  test('but one success stays, and counts anew from there', async () => {
    receiver.answers(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS - HOUR_MS)
    receiver.answers(() => ({ status: 204 }))
    await tryOne()
    receiver.answers(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS - HOUR_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
    clock.advance(HOUR_MS + SOON_MS)
    await tryOne()
    await eventually(async () => expect(await isEnabled()).toBe(false))
  })

  test('is enabled again: it begins anew', async () => {
    receiver.answers(() => ({ status: 500 }))
    await tryOne()
    clock.advance(5 * DAY_MS + SOON_MS)
    await tryOne()
    await eventually(async () => expect(await isEnabled()).toBe(false))
    await tenancy.webhooks.update(id, failing.webhookId, { enabled: true })
    await tryOne()
    clock.advance(DAY_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
  })

  test('because our own DNS is down, stays', async () => {
    await tenancy.webhooks.update(id, failing.webhookId, { url: 'http://hooks.example.test/' })
    const egress = new Egress(DEVELOPMENT, {
      lookup: (_, __, found) => found(Object.assign(new Error('no name server answers'), { code: 'EAI_AGAIN' }), []),
    })
    const courier = hasty.webhooks.courier(egress)
    for (let days = 0; days < 12; days++) {
      await tryOne(() => courier.pass())
      clock.advance(DAY_MS)
    }
    expect(await isEnabled()).toBe(true)
    const [row] = await sql('select failing_since from multitenancy.webhook_subscriptions where id = $1', [
      failing.webhookId,
    ])
    expect(row.failing_since).toBeNull()
    const attempts = await sql('select distinct status, error from multitenancy.webhook_attempts')
    expect(attempts).toEqual([{ status: null, error: 'name look-up failed' }])
    await courier.stop()
    await egress.close()
  })

  test('because its secret cannot be opened, stays; nothing is sent until it can', async () => {
    const of = [failing.webhookId]
    const [before] = await sql('select secret from multitenancy.webhook_subscriptions where id = $1', of)
    await sql(`update multitenancy.webhook_subscriptions set secret = 'no secret of ours' where id = $1`, of)
    await tryOne()
    clock.advance(6 * DAY_MS)
    await tryOne()
    expect(await isEnabled()).toBe(true)
    expect(received()).toEqual([])
    await sql('update multitenancy.webhook_subscriptions set secret = $2 where id = $1', [...of, before.secret])
    clock.advance(DAY_MS)
    await hasty.webhooks.retry()
    expect(await states()).toEqual({ delivered: 2 })
    expect(await isEnabled()).toBe(true)
  })
})

describe('workers of their own', () => {
  const withWorker = (options: WebhooksOptions) =>
    opened.open({ role: 'worker', satellites: [webhooks({ bridge: false, ...options })] })

  test('that stop give back what they have not begun, and what they could not end; others send it', async () => {
    const count = 20
    await subscribe()
    const held = holding()
    const ids: string[] = []
    for (let n = 0; n < count; n++) ids.push(await dispatch())
    const bounds = { concurrency: 2, claim: count, perSubscription: count, perTenant: count }
    const { webhooks: sender, kernel } = await opened.open({
      satellites: [webhooks({ timeoutMs: 60_000, bridge: false, ...bounds })],
    })
    const stopping = sender.courier(kernel.egress, undefined, { stopMs: 0 })
    await stopping.start()
    await held.count(2)
    await eventually(async () => expect(await states()).toEqual({ delivering: count }))
    const begun = received().map(({ headers }) => String(headers['x-delivery-id']))
    await stopping.stop() // they are never answered
    const rows = await sql(
      `select id, state, is_ready, claim, attempt_count, budget_start, last_error from multitenancy.webhook_deliveries order by id`,
    )
    const back = { state: 'pending', is_ready: true, claim: null }
    const unbegun = { ...back, attempt_count: 0, budget_start: 0, last_error: null }
    const brokenOff = { ...back, attempt_count: 1, budget_start: 1, last_error: 'aborted' }
    expect(rows).toEqual(ids.toSorted().map((each) => ({ id: each, ...(begun.includes(each) ? brokenOff : unbegun) })))
    held.release()
    await send()
    expect(await states()).toEqual({ delivered: count })
    const times = new Map(ids.map((each) => [each, 0]))
    for (const { headers } of received()) {
      const deliveryId = String(headers['x-delivery-id'])
      times.set(deliveryId, (times.get(deliveryId) ?? 0) + 1)
    }
    expect([...times]).toEqual(ids.map((each) => [each, begun.includes(each) ? 2 : 1]))
    const attempts = await sql(
      `select number, status, error, request_headers ->> 'x-delivery-id' = delivery_id::text as "isIts", count(*)
       from multitenancy.webhook_attempts group by 1, 2, 3, 4 order by 1, 2`,
    )
    expect(attempts).toEqual([
      { number: 1, status: 200, error: null, isIts: true, count: count - 2 },
      { number: 1, status: null, error: 'aborted', isIts: true, count: 2 },
      { number: 2, status: 200, error: null, isIts: true, count: 2 },
    ])
  })

  test('that stop settle what is answered in time', async () => {
    await subscribe()
    const held = holding()
    await dispatch()
    const stopping = await withWorker({ timeoutMs: 60_000 })
    await held.count(1)
    const stopped = stopping.stop()
    held.release()
    await stopped
    expect(await states()).toEqual({ delivered: 1 })
    expect(received()).toHaveLength(1)
  })
})
