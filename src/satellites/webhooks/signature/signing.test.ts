import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { newSecret, Secret } from './secret.ts'
import { signatureHeaders } from './signing.ts'

interface Vector {
  readonly name: string
  readonly secrets: readonly string[]
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

const VECTORS: readonly Vector[] = JSON.parse(
  readFileSync(new URL('../../../../docs/webhook-vectors.json', import.meta.url), 'utf8'),
).vectors

const DELIVERY_ID = '0198c5a4-7b1c-7d2e-8f3a-5b6c7d8e9f01'
const NOW_SECONDS = 1_767_225_600

/** The verifier of the Standard Webhooks library. */
const standard = (secret: string) =>
  secret.startsWith('whsec_') ? new Webhook(secret) : new Webhook(secret, { format: 'raw' })

const base64Of = (bytes: number) => Buffer.alloc(bytes, 7).toString('base64')

/** Sets the system clock, which the library uses. */
function atTheTime(seconds: number): void {
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.setSystemTime(seconds * 1000)
}
afterEach(() => void vi.useRealTimers())

const generated = fc
  .uint8Array({ minLength: 24, maxLength: 64 })
  .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`)
const own = fc.stringMatching(/^[!-~]{16,256}$/).filter((secret) => !secret.startsWith('whsec_'))
const secret = fc.oneof(generated, own)
const body = fc.jsonValue().map((value) => JSON.stringify(value))

describe('a secret', () => {
  test('has 32 random bytes if it is generated', () => {
    const made = Array.from({ length: 20 }, newSecret)
    for (const one of made) {
      expect(Secret.parse(one)).toBe(one)
      expect(Buffer.from(one.replace(/^whsec_/, ''), 'base64')).toHaveLength(32)
    }
    expect(new Set(made).size).toBe(made.length)
  })

  test.each([
    ['of 16 characters', 'x'.repeat(16)],
    ['of 256 characters', '~'.repeat(256)],
    ['of any visible ASCII', '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'],
    ['of 24 bytes', `whsec_${base64Of(24)}`],
    ['of 64 bytes', `whsec_${base64Of(64)}`],
    ['with an upper-case prefix, which has no meaning', 'WHSEC_not-base64-at-all'],
  ])('is valid: %s', (_words, given) => {
    expect(Secret.parse(given)).toBe(given)
  })

  test.each([
    ['', /16 to 256 characters/],
    ['x'.repeat(15), /16 to 256 characters/],
    ['x'.repeat(257), /16 to 256 characters/],
    ['sixteen letters and spaces', /visible ASCII/],
    ['sixteen-letters-\n', /visible ASCII/],
    ['sixteen-letters-\r\nx-admin: 1', /visible ASCII/],
    ['sixteen-letters-\0', /visible ASCII/],
    ['sixteen-letters-ë', /visible ASCII/],
    [`whsec_${base64Of(23)}`, /base64 of 24 to 64 bytes/],
    [`whsec_${base64Of(65)}`, /base64 of 24 to 64 bytes/],
    ['whsec_not-base64-at-all-but-long-enough', /base64 of 24 to 64 bytes/],
    [`whsec_${base64Of(32).replace('=', '')}`, /base64 of 24 to 64 bytes/],
    [`whsec_${base64Of(32)}=`, /base64 of 24 to 64 bytes/],
    [`whsec_${Buffer.alloc(32, 0xff).toString('base64url')}=`, /base64 of 24 to 64 bytes/],
    [`whsec_${'A'.repeat(42)}B=`, /base64 of 24 to 64 bytes/],
  ])('is invalid: %j', (given, why) => {
    const { error } = Secret.safeParse(given)
    expect(error?.issues).toMatchObject([{ message: expect.stringMatching(why) }])
    if (given !== '') expect(JSON.stringify(error)).not.toContain(JSON.stringify(given).slice(1, -1))
    expect(() => signatureHeaders({ ...sent('{}'), secrets: [given] })).toThrow(why)
  })
})

const sent = (text: string | Uint8Array, secrets: readonly string[] = ['sixteen-letters-']) => ({
  deliveryId: DELIVERY_ID,
  timestampSeconds: NOW_SECONDS,
  body: text,
  secrets,
})

describe('signatureHeaders', () => {
  test.each(VECTORS)('of $name are equal to the published vector', ({ secrets, body, headers }) => {
    const made = signatureHeaders({
      deliveryId: headers['webhook-id'] ?? '',
      timestampSeconds: Number(headers['webhook-timestamp']),
      body,
      secrets,
    })
    expect({ ...headers, ...made }).toEqual(headers)
    expect(Object.keys(made).sort()).toEqual([
      'webhook-id',
      'webhook-signature',
      'webhook-timestamp',
      'x-webhook-signature',
    ])
  })

  test.each(VECTORS)('of $name verify with the standard library and each secret', ({ secrets, body, headers }) => {
    atTheTime(Number(headers['webhook-timestamp']))
    for (const one of secrets) expect(standard(one).verify(body, headers)).toEqual(JSON.parse(body))
  })

  test('verify with the standard library for any body and secrets', () => {
    atTheTime(NOW_SECONDS)
    fc.assert(
      fc.property(body, fc.array(secret, { minLength: 1, maxLength: 3 }), (text, secrets) => {
        const headers = { ...signatureHeaders(sent(text, secrets)) }
        for (const one of secrets) expect(standard(one).verify(text, headers)).toEqual(JSON.parse(text))
      }),
    )
  })

  test('do not verify with another secret', () => {
    atTheTime(NOW_SECONDS)
    fc.assert(
      fc.property(body, secret, secret, (text, one, other) => {
        fc.pre(one !== other)
        expect(() => standard(other).verify(text, { ...signatureHeaders(sent(text, [one])) })).toThrow(/matching/)
      }),
    )
  })

  test('are equal for a body as bytes and as text', () => {
    fc.assert(
      fc.property(body, secret, (text, one) => {
        expect(signatureHeaders(sent(new TextEncoder().encode(text), [one]))).toEqual(
          signatureHeaders(sent(text, [one])),
        )
      }),
    )
  })

  test('of a rotation have the plain signature of the new secret, and standard signatures of both, the new one first', () => {
    const [now, before] = [newSecret(), newSecret()]
    const alone = (one: string) => signatureHeaders(sent('{}', [one]))
    const both = signatureHeaders(sent('{}', [now, before]))
    expect(both['x-webhook-signature']).toBe(alone(now)['x-webhook-signature'])
    expect(both['webhook-signature']).toBe(`${alone(now)['webhook-signature']} ${alone(before)['webhook-signature']}`)
  })

  test('are correct for more secrets than cached keys', () => {
    const secrets = Array.from({ length: 2_500 }, (_, n) => `a-secret-of-number-${n}`)
    for (const one of [...secrets, ...secrets]) {
      const mac = (text: string) => createHmac('sha256', one).update(text)
      expect(signatureHeaders(sent('{}', [one]))).toMatchObject({
        'x-webhook-signature': mac('{}').digest('hex'),
        'webhook-signature': `v1,${mac(`${DELIVERY_ID}.${NOW_SECONDS}.{}`).digest('base64')}`,
      })
    }
  })

  test('require a secret', () => {
    expect(() => signatureHeaders(sent('{}', []))).toThrow(TypeError)
    expect(() => signatureHeaders(sent('{}', [newSecret(), '']))).toThrow(TypeError)
  })
})
