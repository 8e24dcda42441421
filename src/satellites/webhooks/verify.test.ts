import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { signatureHeaders } from './signature/signing.ts'
import { SignatureInvalid, type VerifyOptions, verifyWebhook, type WebhookHeaders } from './verify.ts'

interface Variant {
  readonly name: string
  readonly secret?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string | null>>
  readonly now?: number
}

interface Vector {
  readonly name: string
  readonly secrets: readonly string[]
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly wrong: readonly Variant[]
}

const VECTORS: readonly Vector[] = JSON.parse(
  readFileSync(new URL('../../../docs/webhook-vectors.json', import.meta.url), 'utf8'),
).vectors
const WRONG = VECTORS.flatMap((vector) => vector.wrong.map((variant) => ({ vector, variant, name: vector.name })))

const SECRET = 'whsec_9rpfse/8TlAQHTALTbyY5/fBqxI9GKLLRbN5QLUUp1o='
const OTHER = 'whsec_Ag964tAjT2CGyR3WrA9uvCDACjxcFjBRbyvUCCU3U5w='
const OWN = 'correct-horse-battery-staple'
const ID = '0198c5a4-7b1c-7d2e-8f3a-5b6c7d8e9f01'
const NOW_SECONDS = 1_767_225_600
const NOW = new Date(NOW_SECONDS * 1000)
const BODY = '{"tenantId":"acme","name":"Zoë"}'

const headersOf = (secrets: readonly string[] = [SECRET], body = BODY, timestampSeconds = NOW_SECONDS) => ({
  'content-type': 'application/json',
  'x-webhook-event': 'tenant.activated',
  'x-delivery-id': ID,
  ...signatureHeaders({ deliveryId: ID, timestampSeconds, body, secrets }),
})

interface Given {
  readonly body?: string | Uint8Array
  readonly headers?: WebhookHeaders
  readonly secret?: string | readonly string[]
  readonly options?: VerifyOptions
}

const verified = ({ body = BODY, headers = headersOf(), secret = SECRET, options = {} }: Given) =>
  verifyWebhook(body, headers, secret, { now: NOW, ...options })

/** The message of a rejection, which must contain neither the secret nor a valid signature. */
function rejection(given: Given): string {
  try {
    verified(given)
  } catch (error) {
    if (!SignatureInvalid.matches(error)) throw error
    expect(error).toMatchObject({ code: 'E_SIGNATURE_INVALID', status: 401 })
    const text = JSON.stringify([error.message, error.extras, error.headers, error.cause, error.stack])
    const { 'webhook-signature': standard, 'x-webhook-signature': plain } = headersOf()
    for (const secret of [SECRET, SECRET.slice(6), OTHER, OWN, standard.slice(3), plain]) {
      expect(text).not.toContain(secret)
    }
    return error.message
  }
  expect.fail('it was taken for signed')
}

const base64Secret = fc
  .uint8Array({ minLength: 24, maxLength: 64 })
  .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`)
const ownSecret = fc.stringMatching(/^[!-~]{16,256}$/).filter((secret) => !secret.startsWith('whsec_'))
const anySecret = fc.oneof(base64Secret, ownSecret)
const jsonBody = fc.jsonValue().map((value) => JSON.stringify(value))

describe('the published vectors', () => {
  test.each(VECTORS)('$name verifies with each secret, and with all', ({ secrets, body, headers }) => {
    const now = new Date(Number(headers['webhook-timestamp']) * 1000)
    for (const secret of [...secrets, secrets, [OWN, ...secrets, OTHER]]) {
      expect(verifyWebhook(body, headers, secret, { now })).toEqual({
        id: headers['x-delivery-id'],
        event: headers['x-webhook-event'],
        timestamp: now,
        payload: JSON.parse(body),
      })
    }
  })

  test.each(WRONG)('$name: $variant.name is rejected', ({ vector, variant }) => {
    const headers = { ...vector.headers, ...variant.headers }
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== null)) as any
    const now = new Date((variant.now ?? Number(vector.headers['webhook-timestamp'])) * 1000)
    for (const secret of variant.secret === undefined ? vector.secrets : [variant.secret]) {
      const verify = () => verifyWebhook(variant.body ?? vector.body, given, secret, { now })
      expect(verify).toThrow(expect.objectContaining({ code: 'E_SIGNATURE_INVALID' }))
    }
  })
})

describe('a request', () => {
  test('signed by the standard library verifies, with any body and secret', () => {
    fc.assert(
      fc.property(jsonBody, anySecret, fc.stringMatching(/^[\w-]{1,128}$/), (body, secret, id) => {
        const format = secret.startsWith('whsec_') ? undefined : ({ format: 'raw' } as const)
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': String(NOW_SECONDS),
          'webhook-signature': new Webhook(secret, format).sign(id, NOW, body),
        }
        const expected = { id, event: null, timestamp: NOW, payload: JSON.parse(body) }
        expect(verified({ body, headers, secret })).toEqual(expected)
        expect(verified({ body: Buffer.from(body), headers: new Headers(headers), secret: [OWN, secret] })).toEqual(
          expected,
        )
      }),
    )
  })

  test('is rejected if any byte of the body differs', () => {
    const edit = fc.record({ at: fc.nat(), by: fc.integer({ min: 1, max: 255 }) })
    fc.assert(
      fc.property(jsonBody, anySecret, edit, (body, secret, { at, by }) => {
        const bytes = Buffer.from(body)
        const place = at % bytes.length
        bytes[place] = (bytes[place] ?? 0) ^ by
        const headers = headersOf([secret], body)
        expect(() => verified({ body: bytes, headers, secret })).toThrow(/No signature matches/)
      }),
    )
  })

  test('is rejected if a byte of the body is missing or added', () => {
    const bytes = Buffer.from(BODY)
    for (let at = 0; at < bytes.length; at++) {
      const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)]
      expect(rejection({ body: Buffer.concat([head, tail.subarray(1)]) })).toMatch(/No signature matches/)
      expect(rejection({ body: Buffer.concat([head, Buffer.from(' '), tail]) })).toMatch(/No signature matches/)
    }
  })

  test('is rejected if any character of its signed headers differs', () => {
    const headers: Record<string, string> = headersOf([OWN, SECRET])
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
      const value = headers[name] ?? ''
      // Of the signatures, in the one that the secret fits.
      for (let at = name === 'webhook-signature' ? value.indexOf(' ') : 0; at < value.length; at++) {
        for (const other of ['0', 'A', 'é', '']) {
          if (other === value[at]) continue
          rejection({ headers: { ...headers, [name]: value.slice(0, at) + other + value.slice(at + 1) } })
        }
      }
    }
  })

  test('is rejected with another secret', () => {
    fc.assert(
      fc.property(jsonBody, anySecret, anySecret, (body, one, other) => {
        fc.pre(one !== other)
        const headers = headersOf([one], body)
        expect(() => verified({ body, headers, secret: other })).toThrow(/No signature matches/)
      }),
    )
  })

  test('is rejected if its body was parsed and serialised', () => {
    const body = '{ "tenantId": "acme", "amount": 1.0 }'
    const headers = headersOf([SECRET], body)
    expect(verified({ body, headers }).payload).toEqual({ tenantId: 'acme', amount: 1 })
    expect(rejection({ body: JSON.stringify(JSON.parse(body)), headers })).toMatch(/not byte for byte/)
  })

  test('verifies with a body as text, as bytes, or as a slice of a buffer', () => {
    const around = Buffer.from(`<<${BODY}>>`)
    const inside = new Uint8Array(around.buffer, around.byteOffset + 2, around.length - 4)
    for (const body of [BODY, Buffer.from(BODY), new TextEncoder().encode(BODY), inside]) {
      expect(verified({ body }).payload).toEqual({ tenantId: 'acme', name: 'Zoë' })
    }
  })
})

describe('the secrets of a receiver', () => {
  test('may be several during a rotation of either side', () => {
    for (const [signing, trusted] of [
      [[SECRET], [SECRET, OTHER]],
      [[SECRET], [OTHER, SECRET]],
      [[OTHER, SECRET], [SECRET]],
      [
        [OTHER, SECRET],
        [OWN, SECRET],
      ],
      [[OWN, SECRET], [OWN]],
    ] as const) {
      expect(verified({ headers: headersOf(signing), secret: trusted }).id).toBe(ID)
    }
    expect(rejection({ headers: headersOf([SECRET, OWN]), secret: [OTHER] })).toMatch(/No signature matches/)
  })

  test.each([
    ['no list', undefined],
    ['an empty list', []],
    ['an empty one', ''],
    ['an empty secret next to a valid one', [SECRET, '']],
    ['what an environment without it gives', [undefined]],
    ['a short one', 'short'],
    ['one with the line feed of its file', `${SECRET}\n`],
    ['one that lost its padding', SECRET.slice(0, -1)],
  ])('throw a TypeError if they are invalid (%s)', (_words, secret) => {
    const fault = outcome(() => verifyWebhook(BODY, headersOf(), secret as any, { now: NOW }))
    expect(fault).toBeInstanceOf(TypeError)
    expect(String(fault)).not.toContain(SECRET.slice(0, 20))
  })
})

describe('the headers', () => {
  test.each<[string, WebhookHeaders]>([
    ['of a fetch request', new Headers(headersOf())],
    ['of node:http', headersOf()],
    [
      'in capitals',
      Object.fromEntries(Object.entries(headersOf()).map(([name, value]) => [name.toUpperCase(), value])),
    ],
    ['as lists of one', Object.fromEntries(Object.entries(headersOf()).map(([name, value]) => [name, [value]]))],
  ])('are accepted as those %s', (_words, headers) => {
    expect(verified({ headers })).toMatchObject({ id: ID, event: 'tenant.activated', timestamp: NOW })
  })

  test('verify without an event name', () => {
    expect(verified({ headers: { ...headersOf(), 'x-webhook-event': undefined } }).event).toBeNull()
  })

  test.each<[string, object, string | null]>([
    ['the type of an envelope', { type: 'order.paid', id: ID, timestamp: NOW, data: {} }, 'order.paid'],
    ['the header for a payload with a type', { type: 'order.paid', id: 'order-1', data: {} }, 'tenant.activated'],
    ['the header for a payload without data', { type: 'order.paid', id: ID }, 'tenant.activated'],
    ['the header for a payload whose type is no name', { type: 7, id: ID, data: {} }, 'tenant.activated'],
  ])('give as event %s', (_words, payload, event) => {
    const body = JSON.stringify(payload)
    expect(verified({ body, headers: headersOf([SECRET], body) }).event).toBe(event)
  })

  describe.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const)('%s', (name) => {
    const value = headersOf()[name]

    test.each<[string, WebhookHeaders]>([
      ['left out', { ...headersOf(), [name]: undefined }],
      ['an empty list', { ...headersOf(), [name]: [] }],
      ['empty', { ...headersOf(), [name]: '' }],
      ['left out of fetch headers', without(name)],
    ])('is required: %s', (_words, headers) => {
      expect(rejection({ headers })).toBe(`The header ${name} is missing.`)
    })

    test.each<[string, WebhookHeaders]>([
      ['as a list', { ...headersOf(), [name]: [value, value] }],
      ['in two spellings', { ...headersOf(), [name.toUpperCase()]: value }],
      ['as node:http joins them', { ...headersOf(), [name]: `${value}, ${value}` }],
      ['as fetch joins them', appended(name, value)],
    ])('must not be repeated: %s', (_words, headers) => {
      expect(rejection({ headers })).toBe(`The header ${name} occurs more than once.`)
    })
  })

  test('reject a repeated event name', () => {
    expect(rejection({ headers: { ...headersOf(), 'x-webhook-event': ['a', 'b'] } })).toMatch(/more than once/)
  })

  test.each(['evt.1', '../1', 'a b', 'x'.repeat(129), 'é'])('reject the invalid id %j', (id) => {
    const signed = signatureHeaders({ deliveryId: id, timestampSeconds: NOW_SECONDS, body: BODY, secrets: [SECRET] })
    expect(rejection({ headers: signed })).toBe('The header webhook-id is not the id of a delivery.')
  })

  test('reject a body that was moved into the timestamp', () => {
    const body = '1767225600.5'
    const { 'webhook-signature': signature } = headersOf([SECRET], body)
    const shifted = { 'webhook-id': `${ID}.${NOW_SECONDS}`, 'webhook-timestamp': String(NOW_SECONDS) }
    rejection({ body: '5', headers: { ...shifted, 'webhook-signature': signature } })
  })
})

function without(name: string): Headers {
  const headers = new Headers(headersOf())
  headers.delete(name)
  return headers
}

function appended(name: string, value: string): Headers {
  const headers = new Headers(headersOf())
  headers.append(name, value)
  return headers
}

describe('the time', () => {
  test.each([
    ' 1767225600',
    '1767225600 ',
    '1767225600.0',
    '1767225600.5',
    '1.7672256e9',
    '+1767225600',
    '-1767225600',
    '01767225600',
    '0x69556e80',
    '1767225600000000',
    '1_767_225_600',
    '１７６７２２５６００',
    'NaN',
    'Infinity',
    '2026-01-01T00:00:00Z',
  ])('%j is rejected, even if it is signed', (timestamp) => {
    const signed = signatureHeaders({
      deliveryId: ID,
      timestampSeconds: timestamp as any,
      body: BODY,
      secrets: [SECRET],
    })
    expect(rejection({ headers: signed })).toBe('The header webhook-timestamp is not a Unix time in whole seconds.')
  })

  test.each([
    [undefined, -300, undefined],
    [undefined, 300, undefined],
    [undefined, -301, /too new: signed 301 s in the future, the limit is 300 s/],
    [undefined, 301, /too old: signed 301 s ago, the limit is 300 s/],
    [0, 0, undefined],
    [0, 1, /too old/],
    [0, -1, /too new/],
    [3_600, 3_600, undefined],
    [3_600, 3_601, /too old/],
  ])('is checked with a tolerance of %s s, %s s later', (toleranceSeconds, later, why) => {
    const given = { options: { toleranceSeconds, now: new Date((NOW_SECONDS + later) * 1000) } }
    if (why === undefined) expect(verified(given).timestamp).toEqual(NOW)
    else expect(rejection(given)).toMatch(why)
  })

  test('is compared with the system clock by default', () => {
    const seconds = Math.floor(Date.now() / 1000)
    expect(verifyWebhook(BODY, headersOf([SECRET], BODY, seconds), SECRET).id).toBe(ID)
    expect(outcome(() => verifyWebhook(BODY, headersOf(), SECRET))).toMatchObject({ code: 'E_SIGNATURE_INVALID' })
  })

  test('is rejected if the clock or the tolerance is NaN', () => {
    rejection({ options: { now: new Date(Number.NaN) } })
    rejection({ options: { toleranceSeconds: Number.NaN } })
    rejection({ options: { toleranceSeconds: -1 } })
  })
})

describe('an invalid call', () => {
  test.each([
    ['what a parser made of the body', { tenantId: 'acme' }],
    ['nothing', undefined],
    ['null', null],
  ])('with %s throws a TypeError', (_words, body) => {
    const fault = outcome(() => verifyWebhook(body as any, headersOf(), SECRET, { now: NOW }))
    expect(fault).toBeInstanceOf(TypeError)
    expect(String(fault)).toMatch(/raw body/)
  })

  test('a signed body that is not JSON throws a SyntaxError', () => {
    const fault = outcome(() => verified({ body: 'not JSON', headers: headersOf([SECRET], 'not JSON') }))
    expect(fault).toBeInstanceOf(SyntaxError)
  })
})

function outcome(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return error
  }
}

test('verify.ts loads only three files of Tenantry', () => {
  const loaded = new Set<string>()
  const load = (file: string) => {
    loaded.add(file)
    const text = file.startsWith('/') ? readFileSync(file, 'utf8') : ''
    for (const [, type, from = ''] of text.matchAll(/^(?:import|export) (type )?[^'"]*? from '([^']+)'/gm)) {
      const target = from.startsWith('.') ? join(dirname(file), from) : from
      if (type === undefined && !loaded.has(target)) load(target)
    }
  }
  load(join(import.meta.dirname, 'verify.ts'))
  expect([...loaded].map((file) => file.replace(/^.*\/src\//, '')).sort()).toEqual([
    'kernel/base/errors.ts',
    'node:crypto',
    'satellites/webhooks/signature/signing.ts',
    'satellites/webhooks/verify.ts',
  ])
})
