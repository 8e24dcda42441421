import { describe, expect, test } from 'vitest'
import {
  firstOf,
  fromCustomDomain,
  fromFunction,
  fromHeader,
  fromPath,
  fromSubdomain,
  type GuardedRequest,
  hostName,
} from './strategies.ts'

const AMBIGUOUS = expect.objectContaining({ code: 'E_TENANT_NOT_IDENTIFIED', status: 400 })

const request = ({
  path = '/',
  host,
  headers = {},
}: {
  path?: string
  host?: string
  headers?: Record<string, string>
}): GuardedRequest => ({ method: 'GET', path, host, header: (name) => headers[name], raw: undefined })

describe('fromHeader', () => {
  const named = (value: string) => fromHeader()(request({ headers: { 'x-tenant-id': value } }))

  test('reads the tenant from the header', () => {
    expect(named('acme')).toEqual({ id: 'acme' })
    expect(fromHeader('X-Org')(request({ headers: { 'x-org': 'acme' } }))).toEqual({ id: 'acme' })
  })

  test('returns undefined for a missing or empty header', () => {
    expect(fromHeader()(request({}))).toBeUndefined()
    expect(named('')).toBeUndefined()
  })

  test.each([['a, b'], ['a,a'], [',']])('rejects several values: %j', (value) => {
    expect(() => named(value)).toThrow(AMBIGUOUS)
  })
})

describe('hostName', () => {
  test.each([
    ['shop.example', 'shop.example'],
    ['Shop.EXAMPLE', 'shop.example'],
    ['shop.example.', 'shop.example'],
    ['shop.example.:8080', 'shop.example'],
    ['shop.example:8080', 'shop.example'],
    ['shop.example:', 'shop.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['localhost:3000', 'localhost'],
  ])('converts %s to %s', (host, name) => expect(hostName(host)).toBe(name))

  test.each([
    undefined,
    '',
    '.',
    ':80',
    'a..b',
    'shop.example..',
    '127.0.0.1',
    '127.0.0.1:80',
    '[::1]',
    '[::1]:80',
    '::1',
    'me@shop.example',
    'me:pw@shop.example',
    'shop.example:80:80',
    'shop.example:port',
    'shop.example/x',
    'shop.example, other.example',
    'shop .example',
    'bücher.example',
    'shop\u3002example',
    'shop.example%2e',
    '*.example',
    '-a.example',
    'a_b.example',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(5_000)}example`,
  ])('rejects %s', (host) => expect(hostName(host)).toBeUndefined())
})

describe('fromSubdomain', () => {
  const strategy = fromSubdomain('App.Example.com.', { ignore: ['WWW'] })
  const named = (host: string) => strategy(request({ host }))

  test.each(['acme.app.example.com', 'ACME.App.Example.Com.:443'])('reads the tenant from %s', (host) => {
    expect(named(host)).toEqual({ id: 'acme' })
  })

  test.each([
    'app.example.com',
    'a.b.app.example.com',
    'www.app.example.com',
    'acme.example.com',
    'acmeapp.example.com',
    'acme.app.example.com.evil.example',
    'acme@app.example.com',
    '.app.example.com',
    '[::1]',
  ])('returns undefined for %s', (host) => expect(named(host)).toBeUndefined())

  test('rejects an invalid domain in its options', () => {
    expect(() => fromSubdomain('https://app.example.com')).toThrow('must be a host name')
  })
})

test('fromCustomDomain returns the host unless it is in the ignore list', () => {
  const strategy = fromCustomDomain({ ignore: ['App.example.com'] })
  expect(strategy(request({ host: 'Shop.Example:443' }))).toEqual({ domain: 'shop.example' })
  expect(strategy(request({ host: 'app.example.com:443' }))).toBeUndefined()
  expect(strategy(request({ host: '10.0.0.1' }))).toBeUndefined()
  expect(strategy(request({}))).toBeUndefined()
})

test('strategies ignore x-forwarded-host', () => {
  const forwarded = request({ host: 'app.example.com', headers: { 'x-forwarded-host': 'acme.app.example.com' } })
  expect(fromSubdomain('app.example.com')(forwarded)).toBeUndefined()
  expect(fromCustomDomain()(forwarded)).toEqual({ domain: 'app.example.com' })
})

describe('fromPath', () => {
  const named = (path: string, prefix?: string) => fromPath({ prefix })(request({ path }))

  test.each([
    ['/t/acme', 'acme'],
    ['/t/acme/', 'acme'],
    ['/t/acme/orders/a%2Fb', 'acme'],
    ['/t/%61cme/orders', 'acme'],
    ['/t/%2561cme', '%61cme'],
    ['/t/__proto__/x', '__proto__'],
    ['/t/a..b/...', 'a..b'],
  ])('reads from %s the tenant %s', (path, id) => expect(named(path)).toEqual({ id }))

  test.each([
    '/',
    '/t',
    '/t/',
    '/T',
    '//t',
    '/tt/acme',
    '/x/t/acme',
    't/acme',
    '*',
    '/t%zz',
    '/orders;v=1/t/acme',
    '/x/./y',
    '/x/../orders',
    '/..',
  ])('returns undefined for %s', (path) => expect(named(path)).toBeUndefined())

  test.each([
    '/t/acme/../globex/orders',
    '/x/../t/acme/orders',
    '/x/%2e%2e/t/acme/orders',
    '/./t/acme/orders',
    '/../../t/acme/orders',
    '/t/acme/..',
    '/t/../acme',
    '/t/./acme',
    '/t/%2e%2e/acme',
    '/t/acme/%2E%2e/globex',
    '/t/acme/.%2e%2fglobex',
    '/t/acme/..;/globex',
    '/t/acme%5c..%5cglobex',
    '/t/acme\\..\\globex',
    '/t//acme',
    '//t/acme',
    '/T/acme',
    '/%74/acme',
    '/t%2Facme',
    '\\t\\acme',
    '/t;v=1/acme',
    '/t/acme;v=1/orders',
    '/t/acme%3Bv=1',
    '/t/a%2Fb',
    '/t/acme%5Corders',
    '/t/%2Facme',
    '/t/%zz/orders',
    '/t/%c3%28',
  ])('rejects the ambiguous path %s', (path) => expect(() => named(path)).toThrow(AMBIGUOUS))

  test('supports an empty and a longer prefix', () => {
    expect(named('/acme/orders', '')).toEqual({ id: 'acme' })
    expect(named('/', '')).toBeUndefined()
    expect(named('/api/v1/acme/orders', '/api/v1')).toEqual({ id: 'acme' })
  })

  test.each(['t', '/t/', '//t', '/t/*', '/t%20'])('rejects the prefix "%s"', (prefix) => {
    expect(() => fromPath({ prefix })).toThrow(/is not a path prefix/)
  })
})

describe('fromFunction', () => {
  test('accepts an id or undefined, synchronously or not', async () => {
    expect(fromFunction(({ path }) => path.slice(1))(request({ path: '/acme' }))).toEqual({ id: 'acme' })
    expect(await fromFunction(async () => 'acme')(request({}))).toEqual({ id: 'acme' })
    for (const none of [undefined, null, '']) {
      expect(fromFunction(() => none)(request({}))).toBeUndefined()
      expect(await fromFunction(async () => none)(request({}))).toBeUndefined()
    }
  })

  test('ends the request if the function returns another type or throws', async () => {
    const wrong = (id: any) => fromFunction(() => id)
    expect(() => wrong(7)(request({}))).toThrow(TypeError)
    expect(() => wrong({ id: 'acme' })(request({}))).toThrow(TypeError)
    await expect(wrong(Promise.resolve(['acme']))(request({}))).rejects.toThrow(TypeError)
    const failing = fromFunction(() => Promise.reject(new Error('no session')))
    await expect(firstOf(failing, fromHeader())(request({}))).rejects.toThrow('no session')
  })
})

describe('firstOf', () => {
  const chain = firstOf(
    fromHeader(),
    fromFunction(async () => undefined),
    fromSubdomain('app.example.com'),
    fromPath(),
  )

  test('calls its strategies in order until one names a tenant', async () => {
    const all = { headers: { 'x-tenant-id': 'header' }, host: 'sub.app.example.com', path: '/t/path' }
    expect(chain(request(all))).toEqual({ id: 'header' })
    expect(await chain(request({ ...all, headers: {} }))).toEqual({ id: 'sub' })
    expect(await chain(request({ path: '/t/path' }))).toEqual({ id: 'path' })
    expect(await chain(request({}))).toBeUndefined()
    expect(firstOf()(request(all))).toBeUndefined()
  })

  test('stops at a strategy that rejects the request', () => {
    const twice = request({ headers: { 'x-tenant-id': 'a,b' }, host: 'sub.app.example.com' })
    expect(() => chain(twice)).toThrow(AMBIGUOUS)
  })
})
