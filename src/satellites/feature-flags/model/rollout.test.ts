import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  BUCKETS,
  bucketOf,
  type EvaluationContext,
  evaluate,
  type FlagRule,
  isInRollout,
  prepared,
  sourceOf,
} from './rollout.ts'

const VECTORS: readonly { key: string; value: string; bucket: number }[] = JSON.parse(
  readFileSync(new URL('../../../../docs/flag-vectors.json', import.meta.url), 'utf8'),
).vectors

const flag = (settings: Partial<FlagRule> = {}): FlagRule => ({
  key: 'new-checkout',
  enabled: true,
  rolloutPercent: null,
  bucketKey: null,
  ...settings,
})
const acme: EvaluationContext = { tenantId: 'acme' }

/** Any character; fast-check's own unit `binary` takes a second to be prepared. */
const codePoint = fc
  .integer({ min: 0, max: 0x10ffff })
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code))

/** XXH64 of an input of less than 32 bytes, from its specification, independent of the tested module. */
function xxh64(input: Uint8Array): bigint {
  const [one, two, three, four, five] = [
    0x9e3779b185ebca87n,
    0xc2b2ae3d27d4eb4fn,
    0x165667b19e3779f9n,
    0x85ebca77c2b2ae63n,
    0x27d4eb2f165667c5n,
  ] as const
  const u64 = (value: bigint) => BigInt.asUintN(64, value)
  const rotated = (value: bigint, by: bigint) => u64((value << by) | (value >> (64n - by)))
  const view = new DataView(input.buffer, input.byteOffset, input.byteLength)
  let hash = u64(five + BigInt(input.length))
  let at = 0
  for (; at + 8 <= input.length; at += 8) {
    const lane = u64(rotated(u64(view.getBigUint64(at, true) * two), 31n) * one)
    hash = u64(rotated(hash ^ lane, 27n) * one + four)
  }
  if (at + 4 <= input.length) {
    hash = u64(rotated(hash ^ u64(BigInt(view.getUint32(at, true)) * one), 23n) * two + three)
    at += 4
  }
  for (; at < input.length; at++) hash = u64(rotated(hash ^ u64(BigInt(view.getUint8(at)) * five), 11n) * one)
  hash = u64((hash ^ (hash >> 33n)) * two)
  hash = u64((hash ^ (hash >> 29n)) * three)
  return hash ^ (hash >> 32n)
}

describe('the bucket', () => {
  test.each(VECTORS)('of $key for "$value" is $bucket', ({ key, value, bucket }) => {
    expect(bucketOf(key, value)).toBe(bucket)
  })

  test('is XXH64 of the key, a colon and the value, modulo 10000', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{1,8}$/), fc.string({ maxLength: 5, unit: codePoint }), (key, value) => {
        const bytes = new TextEncoder().encode(`${key}:${value}`)
        expect(bucketOf(key, value)).toBe(Number(xxh64(bytes) % BigInt(BUCKETS)))
      }),
    )
  })

  test('is uniform over many values', () => {
    const cells = 100
    const [counts, values] = [new Array<number>(cells).fill(0), 100_000]
    for (let n = 0; n < values; n++) {
      const cell = Math.floor(bucketOf('new-checkout', `user-${n}`) / (BUCKETS / cells))
      counts[cell] = (counts[cell] ?? 0) + 1
    }
    const expected = values / cells
    const chiSquared = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
    expect(chiSquared).toBeLessThan(148.2) // 99 degrees of freedom, p = 0.001
  })

  test('of one flag is independent of the bucket of another flag', () => {
    const values = 100_000
    const both = [0, 0, 0, 0]
    for (let n = 0; n < values; n++) {
      const [one, other] = [bucketOf('new-checkout', `user-${n}`), bucketOf('new-search', `user-${n}`)]
      const cell = (one < BUCKETS / 2 ? 0 : 1) + (other < BUCKETS / 2 ? 0 : 2)
      both[cell] = (both[cell] ?? 0) + 1
    }
    const chiSquared = both.reduce((sum, count) => sum + (count - values / 4) ** 2 / (values / 4), 0)
    expect(chiSquared).toBeLessThan(16.27) // 3 degrees of freedom, p = 0.001
  })
})

describe('a flag', () => {
  test.each([
    ['that does not exist', undefined, false, 'FLAG_NOT_FOUND'],
    ['that is disabled', flag({ enabled: false }), false, 'DISABLED'],
    ['that is disabled at 100 %', flag({ enabled: false, rolloutPercent: 100 }), false, 'DISABLED'],
    ['without a percentage', flag(), true, 'STATIC'],
    ['at 0 %, which differs from no percentage', flag({ rolloutPercent: 0 }), false, 'SPLIT'],
    ['at 100 %', flag({ rolloutPercent: 100 }), true, 'SPLIT'],
  ] as const)('%s', (_words, given, enabled, reason) => {
    expect(evaluate(given, acme)).toMatchObject({ enabled, reason, rolloutPercent: given?.rolloutPercent ?? null })
  })

  const context = fc.record({
    tenantId: fc.stringMatching(/^[a-z0-9]{1,10}$/),
    bucketKey: fc.option(fc.string(), { nil: undefined }),
    attributes: fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.double(), fc.boolean(), fc.constant(null))),
  })
  const rule = fc.record({
    key: fc.stringMatching(/^[a-z][a-z.-]{0,20}$/),
    enabled: fc.boolean(),
    rolloutPercent: fc.option(fc.integer({ min: 0, max: 100 })),
    bucketKey: fc.option(fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'tenantId'))),
  })

  test('has the same result for repeated evaluations', () => {
    fc.assert(
      fc.property(rule, context, (one, of) => {
        expect(evaluate(one, of)).toEqual(evaluate({ ...one }, structuredClone(of)))
      }),
    )
  })

  test('only adds contexts when its percentage rises', () => {
    const percent = fc.integer({ min: 0, max: 100 })
    fc.assert(
      fc.property(rule, context, percent, percent, (one, of, a, b) => {
        const [lower, higher] = [a, b]
          .toSorted((x, y) => x - y)
          .map((rolloutPercent) => evaluate({ ...one, rolloutPercent }, of).enabled)
        expect(lower && !higher).toBe(false)
      }),
    )
  })

  test('is on exactly below its percentage', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 0, max: 100 }), (bucketKey, rolloutPercent) => {
        const of = { ...acme, bucketKey }
        const { enabled, bucket } = evaluate(flag({ rolloutPercent }), of)
        expect(enabled).toBe((bucket ?? 0) < rolloutPercent * 100)
        expect(isInRollout(prepared(flag()), rolloutPercent, of)).toBe(enabled)
      }),
    )
  })
})

describe('the hashed value', () => {
  const attributes = JSON.parse(
    '{"plan":"pro","seats":12.5,"no":false,"nil":null,"list":[1],"":"blank","__proto__":"own"}',
  )
  test.each([
    ["the tenant's id", null, {}, 'acme', 'tenantId'],
    ["the caller's bucketKey", null, { bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ["the caller's empty bucketKey", null, { bucketKey: '' }, '', 'bucketKey'],
    ['a number, as text', null, { bucketKey: 1e21 }, '1e+21', 'bucketKey'],
    ['the attribute that the flag names', 'plan', { attributes, bucketKey: 'ann' }, 'pro', 'plan'],
    ['an attribute that is a number', 'seats', { attributes, bucketKey: 'ann' }, '12.5', 'seats'],
    ['an attribute without a name', '', { attributes, bucketKey: 'ann' }, 'blank', ''],
    ['an attribute of any name', '__proto__', { attributes, bucketKey: 'ann' }, 'own', '__proto__'],
    ['no boolean', 'no', { attributes, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['no null', 'nil', { attributes, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['no list', 'list', { attributes, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['no missing attribute', 'colour', { attributes, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['no inherited member', 'constructor', { attributes, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['no member of a prototype', '__proto__', { attributes: {}, bucketKey: 'ann' }, 'ann', 'bucketKey'],
    ['the tenant, if the flag names it', 'tenantId', { attributes, bucketKey: 'ann' }, 'acme', 'tenantId'],
    [
      'an attribute of that name first',
      'tenantId',
      { attributes: { tenantId: 'x' }, bucketKey: 'ann' },
      'x',
      'tenantId',
    ],
    ["the tenant's id last", 'colour', { attributes }, 'acme', 'tenantId'],
  ] as const)('is %s', (_words, bucketKey, context, value, from) => {
    const rule = flag({ rolloutPercent: 50, bucketKey })
    expect(sourceOf(rule, { ...acme, ...context })).toEqual({ value, from })
    expect(evaluate(rule, { ...acme, ...context }).bucket).toBe(bucketOf('new-checkout', value))
  })
})
