import { describe, expect, test } from 'vitest'
import { canonicalDomain, domainOfEmail } from './domains.ts'
import { isReturnPath } from './return-path.ts'

describe('converts a domain to its canonical form', () => {
  test.each([
    ['acme.example', 'acme.example'],
    ['ACME.Example', 'acme.example'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['bu\u0308cher.example', 'xn--bcher-kva.example'],
    ['XN--bcher-kva.example', 'xn--bcher-kva.example'],
    ['a-b.c1.xn--p1ai', 'a-b.c1.xn--p1ai'],
  ])('%s is %s', (written, canonical) => {
    expect(canonicalDomain(written)).toBe(canonical)
  })

  test.each([
    '',
    'localhost',
    '.',
    'acme.example.',
    '.acme.example',
    'acme..example',
    '-acme.example',
    'acme_.example',
    'acme.example/x',
    'acme.example?x',
    'acme.example#x',
    'acme.example:80',
    'acme.example\\x',
    '%61cme.example',
    'a@acme.example',
    ' acme.example',
    'acme.example\n',
    '127.0.0.1',
    '127.1',
    '0x7f.1',
    '[::1]',
    'ａcme.example',
    'acme。example',
    'ac\u00adme.example',
    'ac\u200bme.example',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(130)}example`,
  ])('%j is no domain', (written) => {
    expect(canonicalDomain(written)).toBeUndefined()
  })
})

test('a mail address has one domain, or no usable one', () => {
  expect(domainOfEmail('alice+x@Acme.Example')).toBe('acme.example')
  expect(domainOfEmail('ünï@bücher.example')).toBe('xn--bcher-kva.example')
  for (const email of ['alice', '@acme.example', 'alice@', 'a@b@acme.example', 'a b@acme.example', '"a"@acme.example'])
    expect(domainOfEmail(email), email).toBeUndefined()
  expect(domainOfEmail(`${'a'.repeat(400)}@acme.example`)).toBeUndefined()
})

describe('a return path', () => {
  test.each(['/', '/projects', '/projects?open=1&a=%2F%2F#new', '/a//b', '/%2F', '/ü', '/@evil.example', '/a:b'])(
    '%j is a return path',
    (path) => {
      expect(isReturnPath(path)).toBe(true)
    },
  )

  test.each([
    '',
    'projects',
    '//evil.example',
    '///evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/a\\b',
    '/\t/evil.example',
    '/\n/evil.example',
    '/a\rb',
    '/ /evil.example',
    '/\u2028',
    '/\ud800',
    '/.//evil.example',
    '/a/..//evil.example',
    'https://evil.example',
    'https:evil.example',
    'javascript:alert(1)',
  ])('%j is no return path', (path) => {
    expect(isReturnPath(path)).toBe(false)
  })
})
