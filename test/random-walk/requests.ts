/**
 * Random requests of an operation, generated from openapi.json.
 *
 * Names stand for values of a walk, which are inserted when a request is sent: `{a}`, `{b}` and `{c}` are ids of
 * tenants; `{cursor}`, `{webhookId}`, `{deliveryId}`, `{hostWebhookId}` and `{hostDeliveryId}` are the latest ones;
 * `{receiver}` is the URL of a receiver.
 */
import fc, { type Arbitrary } from 'fast-check'
import type { Who } from '../contract/calls.ts'
import type { Described, JsonSchema, Parameter } from '../contract/document.ts'
import { FAILING } from '../contract/row.ts'
import { anything, type Likely, mostly, nasty, valueFor } from './values.ts'

/** A generated request. */
export interface Drawn {
  readonly operation: Described
  readonly who: Who
  readonly params: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  /** Sent unchanged; undefined for none. */
  readonly body: string | undefined
  /** One, or two for a repeat after a lost response. */
  readonly times: number
}

export const TENANTS = { '{a}': 'a', '{b}': 'b', '{c}': FAILING } as const

const LIKELY: Likely = {
  id: ['{a}', '{a}', '{a}', '{b}', '{c}'],
  tenantId: Object.keys(TENANTS),
  plan: ['free', 'pro'],
  domains: ['{a}.example', '{b}.example', 'www.{a}.example', 'xn--bcher-kva.{b}.example', '{c}.İ.example'],
  isolation: ['schema-pg'],
  placement: ['main'],
  q: ['{a}', '%', 'example'],
  webhookId: ['{webhookId}'],
  secret: ['a-secret-of-the-walk', `whsec_${'YWJj'.repeat(8)}`],
  deliveryId: ['{deliveryId}'],
  url: [
    '{receiver}/200',
    '{receiver}/200',
    '{receiver}/500',
    '{receiver}/410',
    '{receiver}/200#x',
    'http://169.254.169.254/',
  ],
}

const BODIES = ['', ' ', 'null', '[]', '{}', '"x"', '{"', '{"name":1,"name":2}', '\ufeff{}', '['.repeat(99)]

const HEADERS: Readonly<Record<string, Arbitrary<string>>> = {
  'Idempotency-Key': mostly(
    fc.nat(9).map((number) => `{a}-${number}`),
    fc.constantFrom('a b', 'x'.repeat(256)),
  ),
  'If-Match': fc.constantFrom('*', '"stale"', 'W/"stale"', '"a", "b"', 'stale', ''),
  Prefer: fc.constantFrom('wait=5', 'wait=0', 'respond-async, wait=5', 'wait=1e9', 'return=minimal', 'wait="5"'),
}

export function requestOf(operation: Described): Arbitrary<Drawn> {
  const { parameters, method, body } = operation
  const among = (place: Parameter['in']) => parameters.filter((parameter) => parameter.in === place)
  const drawn: Arbitrary<Drawn> = fc.record({
    operation: fc.constant(operation),
    who: mostly(fc.constant<Who>('admin'), fc.constantFrom<Who>('read', 'runtime', 'anonymous')),
    params: all(among('path').map(({ name, schema }) => [name, inUrl(name, schema).map(asSegment)])).map(
      isOfTenant(operation) ? (params) => params : ofHost,
    ),
    query: mostly(
      some(among('query').map(({ name, schema }) => [name, inUrl(name, schema)])),
      fc.constantFrom<Record<string, string>>({ colour: 'red' }, { ['__proto__']: '1' }),
    ),
    headers: some([
      ...among('header').map(({ name }) => [name, HEADERS[name] ?? nasty] as const),
      ['accept', fc.constantFrom('*/*', 'text/csv', 'application/x-ndjson', 'image/png', 'nonsense;;')],
    ]),
    body: method === 'GET' ? fc.constant(undefined) : bodyOf(body),
    times: fc.constantFrom(1, 1, 1, 2),
  })
  return drawn.map((request) => ({ ...request, [fc.toStringMethod]: () => wordsOf(request) }))
}

export function pathOf({ operation, params, query }: Pick<Drawn, 'operation' | 'params' | 'query'>): string {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => percent(params[name] ?? ''))
  const pairs = Object.entries(query).map(([name, value]) => `${percent(name)}=${percent(value)}`)
  return pairs.length > 0 ? `${path}?${pairs.join('&')}` : path
}

const wordsOf = (request: Drawn): string =>
  [
    `\n  ${request.times} x ${request.operation.name} as ${request.who}: ${request.operation.method} ${pathOf(request)}`,
    JSON.stringify(request.headers),
    request.body,
  ].join(' ')

/** Escapes bytes, because `encodeURIComponent` rejects unpaired surrogates. Names remain. */
const percent = (text: string): string =>
  text.replaceAll(/\{\w+\}|[^\w.~-]+/g, (part) =>
    /^\{\w+\}$/.test(part)
      ? part
      : [...Buffer.from(part)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  )

const inUrl = (name: string, schema: JsonSchema): Arbitrary<string> => {
  // Not String(): a generated object may have its own toString.
  const value = valueFor(schema, LIKELY, name).map((drawn) => (typeof drawn === 'string' ? drawn : textOf(drawn)))
  // Nearly every other cursor is rejected.
  return name === 'cursor' ? mostly(fc.constant('{cursor}'), value) : mostly(value, nasty)
}

export const isOfTenant = ({ path }: Described): boolean => path.startsWith('/tenants/')

const ofHost = (params: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(params).map(([name, value]) => [
      name,
      value.replace('{webhook', '{hostWebhook').replace('{delivery', '{hostDelivery'),
    ]),
  )

/** Empty segments and dots would be another path. */
const asSegment = (text: string): string => (/^\.*$/.test(text) ? 'x' : text)

type Members<T> = readonly (readonly [string, Arbitrary<T>])[]

const all = <T>(members: Members<T>): Arbitrary<Record<string, T>> =>
  fc.record(Object.fromEntries(members), { noNullPrototype: true })

/** Each member with a probability of a quarter: requests with many filters rarely match. */
const some = <T>(members: Members<T>): Arbitrary<Record<string, T>> =>
  all(members.map(([name, arbitrary]) => [name, fc.option(arbitrary, { freq: 4, nil: undefined })] as const)).map(
    (drawn) =>
      Object.fromEntries(Object.entries(drawn).filter((entry): entry is [string, T & {}] => entry[1] !== undefined)),
  )

function bodyOf(schema: JsonSchema | undefined): Arbitrary<string | undefined> {
  const none = fc.constant(undefined)
  const wrong = fc.oneof(fc.constantFrom(...BODIES), anything.map(textOf))
  if (!schema) return mostly(none, wrong)
  return mostly<string | undefined>(valueFor(schema, LIKELY).map(textOf), none, wrong)
}

/** JSON cannot represent `undefined`. */
const textOf = (value: unknown): string => JSON.stringify(value) ?? 'null'
